"""pytest plugin that tries many changes of the package after one collection, each in a forked process.

``warm_suite`` sends this file's text to the sandbox ahead of the test-run plugin, which calls ``make_trials``; it runs
on Python 3.8 and later. A trial gives some files other contents. The child process compiles them, and each function
object that was made from a changed function gets the new code, so nothing is imported again. A change outside the
bodies of functions cannot be made this way: such a trial answers ``not swappable``, and the caller has to run it in a
process of its own.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import gc
import json
import os
import resource
import select
import signal
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from typing import Any

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
OPTIMIZED = 0x1  # the flag of function code; a module and a class body lack it
FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
PROCESS_EVENTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn", "os.system")
LIMIT_SIGNALS = (signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL)
FIELDS = ("cause", "passed", "outcomes", "processes", "sharing")  # what a record of a trial holds
GRACE_S = 5.0  # seconds of wall time that a trial may use besides ten times its CPU limit and its tests' wall time


class NotSwappable(Exception):
    """Raised when the change of a file is not a change of function bodies alone."""


def nested(code: types.CodeType) -> list[types.CodeType]:
    """Return the code objects directly within ``code``."""
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def skeleton(code: types.CodeType) -> tuple[Any, ...]:
    """Return the code of a module or a class body without that of its functions."""
    constants = tuple(
        item.co_name if isinstance(item, types.CodeType) else (type(item).__name__, repr(item))
        for item in code.co_consts
    )
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants


def changed_functions(old: types.CodeType, new: types.CodeType) -> list[tuple[types.CodeType, types.CodeType]]:
    """Return the functions in a module or class body whose code differs. Raises NotSwappable."""
    if skeleton(old) != skeleton(new):
        raise NotSwappable(f"{old.co_name} itself changes")
    pairs: list[tuple[types.CodeType, types.CodeType]] = []
    for before, after in zip(nested(old), nested(new)):  # noqa: B905  the skeletons agree; Python 3.8 has no strict
        if not before.co_flags & OPTIMIZED:
            pairs.extend(changed_functions(before, after))
        elif before != after:
            if before.co_name in COMPREHENSIONS or before.co_name == "<lambda>":
                raise NotSwappable(f"{before.co_name} at the top changes")
            pairs.append((before, after))
    return pairs


def top_level_blocks(source: bytes) -> list[tuple[int, int, int, int]]:
    """Return first and last line and the bytes' range of each function and class at the top of a file.

    A file that names its encoding has no block, since a part of it cannot be compiled alone.
    """
    lines = source.splitlines(keepends=True)
    if source.startswith(b"\xef\xbb\xbf") or b"coding" in b"".join(lines[:2]) or b"\r" in source or b"\f" in source:
        return []
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    blocks = []
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            last = node.end_lineno or first
            blocks.append((first, last, starts[first - 1], starts[last]))
    return blocks


class Functions:
    """The function objects of the workspace's modules, by the code that they were made from."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.by_code: dict[tuple[str, int, str], list[types.FunctionType]] = {}
        self.texts: dict[str, bytes] = {}  # contents of prepared files
        self.blocks: dict[str, list[tuple[int, int, int, int]]] = {}  # see top_level_blocks
        self.flags: dict[str, int] = {}  # the features of __future__ that a file asks for
        for item in gc.get_objects():
            if type(item) is types.FunctionType and item.__code__.co_filename.startswith(root + os.sep):
                self.by_code.setdefault(self.key(item.__code__), []).append(item)
        self.files = {key[0] for key in self.by_code}

    @staticmethod
    def key(code: types.CodeType, path: str = "") -> tuple[str, int, str]:
        """Return what identifies a function of the workspace."""
        return path or code.co_filename, code.co_firstlineno, code.co_name

    def prepare(self, relative: str) -> None:
        """Read a file and find its top-level functions and classes, so that no child has to."""
        path = os.path.join(self.root, relative)
        if path in self.files and path not in self.texts:
            with open(path, "rb") as file:  # noqa: PTH123
                self.texts[path] = file.read()
            self.blocks[path] = top_level_blocks(self.texts[path])
            self.flags[path] = compile(self.texts[path], path, "exec", dont_inherit=True).co_flags & FUTURE

    def exchange(self, relative: str, start: int, stop: int, text: bytes) -> None:
        """Give every function of the file the code that it has with ``text`` in place of these bytes.

        Raises NotSwappable.
        """
        path = os.path.join(self.root, relative)
        if path not in self.texts:
            raise NotSwappable(f"{relative} is not imported before the tests run")
        source = self.texts[path]
        first, last = 1 + source.count(b"\n", 0, start), 1 + source.count(b"\n", 0, max(start, stop - 1))
        block = next((item for item in self.blocks[path] if item[0] <= first and last <= item[1]), None)
        lines, upper, lower = 0, 0, len(source)
        if block is not None:  # the rest of the file compiles as before
            lines, upper, lower = block[0] - 1, block[2], block[3]
        before, after = (
            compile(b"\n" * lines + part, path, "exec", flags=self.flags[path], dont_inherit=True)
            for part in (source[upper:lower], source[upper:start] + text + source[stop:lower])
        )
        for old, new in changed_functions(before, after):
            self._exchange_one(path, old, new, required=True)

    def _exchange_one(self, path: str, before: types.CodeType, after: types.CodeType, *, required: bool) -> None:
        objects = self.by_code.get(self.key(before, path), [])
        if required and not objects:
            raise NotSwappable(f"no function object has the code of {before.co_name}")
        inner, others = nested(before), nested(after)
        if len(inner) == len(others):
            for first, second in zip(inner, others):  # noqa: B905  they have the same length
                if first != second:
                    self._exchange_one(path, first, second, required=False)
        elif any(self.by_code.get(self.key(code, path)) for code in inner):
            raise NotSwappable(f"a function made by {before.co_name} is in use")
        for item in objects:
            try:
                item.__code__ = after
            except ValueError:
                raise NotSwappable(f"{before.co_name} closes over other names") from None


def make_trials(pytest: Any, send: Callable[..., None], job: dict[str, Any], root: str, tools: tuple[Any, Any]) -> Any:
    """Return the plugin that runs ``job["trials"]`` instead of the tests, and sends a record for each.

    ``tools`` are the functions ``describe`` and ``reduce_reports`` of the test-run plugin.
    """
    describe_, reduce_ = tools
    reports: list[dict[str, Any]] = []
    watch = Watch([os.path.join(root, path) for path in job["sources"]])

    class Trials:
        @pytest.hookimpl(hookwrapper=True)
        def pytest_fixture_setup(self, fixturedef: Any) -> Any:
            finish = watch.setup(fixturedef)
            yield
            finish()

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            report = (yield).get_result()
            outcome, kind, text, where = report.outcome, "", "", ""
            if call.excinfo is not None:
                kind, text, where = describe_(call.excinfo, root)
                outcome = "failed" if outcome == "passed" else outcome
            elif outcome == "failed":
                text = str(report.longrepr)[-300:]
            fields = {"when": call.when, "outcome": outcome, "xfail": hasattr(report, "wasxfail")}
            reports.append({**fields, "message": text, "exception": kind, "where": where})

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session: Any) -> bool:
            items = {item.nodeid: item for item in session.items}
            functions = Functions(root)
            for relative in sorted({path for trial in job["trials"] for path in trial["files"]}):
                functions.prepare(relative)
            gc.collect()
            gc.freeze()  # objects that a collection does not touch stay shared with the children
            seconds: dict[str, list[float]] = {}
            for number, trial in enumerate(job["trials"]):
                cpu_s, wall_s = limits(trial["tests"], seconds, job)
                result = fork(partial(run, trial, items, functions), cpu_s, wall_s)
                seconds = seconds or result["seconds"]  # the first trial is the unchanged package
                send("trial", id=str(number), **{name: result[name] for name in FIELDS})
                if not seconds:
                    break
            return True

    def run(trial: dict[str, Any], items: dict[str, Any], functions: Functions) -> dict[str, Any]:
        try:
            for path, (start, stop, text) in trial["files"].items():
                functions.exchange(path, start, stop, text.encode("utf-8", "surrogateescape"))
        except NotSwappable as error:
            return {"cause": f"not swappable: {error}"}
        except (SyntaxError, ValueError, RecursionError) as error:
            return {"cause": f"not swappable: {type(error).__name__}"}
        chosen = [items[test] for test in trial["tests"] if test in items]
        missing = [test for test in trial["tests"] if test not in items]
        outcomes: dict[str, Any] = {test: {"outcome": "error", "message": "not collected"} for test in missing}
        passed: list[str] = []
        seconds: dict[str, list[float]] = {}
        if trial["survey"]:
            watch.start()
        for position, item in enumerate(chosen):
            watch.test = item.nodeid
            reports.clear()
            started = [time.process_time(), time.monotonic()]
            following = chosen[position + 1] if position + 1 < len(chosen) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds[item.nodeid] = [time.process_time() - started[0], time.monotonic() - started[1]]
            outcome = reduce_(reports)
            if outcome["outcome"] == "passed":
                passed.append(item.nodeid)
            else:
                outcomes[item.nodeid] = {name: outcome[name] for name in ("outcome", "when", "message", "exception")}
                if trial["first_failure"]:
                    break
        survey = {"processes": sorted(watch.processes), "sharing": watch.sharing(chosen)}
        return {"cause": "", "passed": passed, "outcomes": outcomes, "seconds": seconds, **survey}

    return Trials()


class Watch:
    """Notes, in a survey of the unchanged package, what ties tests to each other and to other processes.

    The state is what the tests did: those that started processes, and the fixtures of a wider scope than a function
    whose setup ran code of the package.
    """

    def __init__(self, sources: list[str]) -> None:
        self.sources = frozenset(sources)
        self.active = False
        self.test = ""
        self.processes: set[str] = set()
        self.fixtures: set[int] = set()
        self.starting: list[int] = []  # fixtures of a wider scope that are set up now, the outer ones first

    def start(self) -> None:
        """Begin to watch; a process cannot end it."""
        self.active = True
        sys.addaudithook(self._event)

    def _event(self, event: str, _: Any) -> None:
        if event in PROCESS_EVENTS:
            self.processes.add(self.test)

    def setup(self, fixture: Any) -> Callable[[], None]:
        """Begin to watch the setup of a fixture; the caller calls what is returned after it."""
        if not self.active or fixture.scope == "function":
            return lambda: None

        self.starting.append(id(fixture))
        sys.setprofile(self._profile)
        return self._finish

    def _profile(self, frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename in self.sources:
            self.fixtures.update(self.starting)

    def _finish(self) -> None:
        self.starting.pop()
        if not self.starting:
            sys.setprofile(None)

    def sharing(self, items: list[Any]) -> list[list[str]]:
        """Return the tests that use each of these fixtures."""
        users: dict[int, list[str]] = {}
        for item in items:
            info = getattr(item, "_fixtureinfo", None)
            for definitions in (info.name2fixturedefs if info and self.fixtures else {}).values():
                for key in {id(definition) for definition in definitions} & self.fixtures:
                    users.setdefault(key, []).append(item.nodeid)
        return list(users.values())


def limits(tests: list[str], seconds: dict[str, list[float]], job: dict[str, Any]) -> tuple[float, float]:
    """Return how many seconds of CPU time and of wall time a trial may use.

    ``seconds`` has both for each test on the unchanged package: tests that sleep have far more wall time. Without it
    the trial is the one that measures them.
    """
    if not seconds:
        return job["control_s"], 10 * job["control_s"] + GRACE_S
    cpu, wall = (sum(seconds[test][kind] for test in tests if test in seconds) for kind in (0, 1))
    cpu_s = job["extra_s"] + job["factor"] * cpu
    return cpu_s, 10 * cpu_s + job["factor"] * wall + GRACE_S


def fork(work: Callable[[], dict[str, Any]], cpu_s: float, wall_s: float) -> dict[str, Any]:
    """Return what ``work`` returns in a forked process; where it returns nothing, ``cause`` gives the reason."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work_in_child(work, writing, cpu_s)
    os.close(writing)
    data = _read_record(reading, time.monotonic() + wall_s)
    os.close(reading)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # the child and what its tests started
    status = os.waitpid(child, 0)[1]
    result: dict[str, Any] = {"cause": "", "passed": [], "outcomes": {}, "seconds": {}, "processes": [], "sharing": []}
    if data is not None:
        result.update(json.loads(data))
    else:
        by_limit = os.WIFSIGNALED(status) and os.WTERMSIG(status) in LIMIT_SIGNALS
        result["cause"] = "timeout" if by_limit else "ended early"
    return result


def _work_in_child(work: Callable[[], dict[str, Any]], writing: int, cpu_s: float) -> None:
    code = 1
    try:
        os.setsid()
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # SIGPROF ends the process
        whole = int(cpu_s) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 1))  # where a test uses that timer itself
        record = json.dumps(work()).encode()
        data = b"%d\n" % len(record) + record
        while data:
            data = data[os.write(writing, data) :]
        code = 0
    finally:
        os._exit(code)


def _read_record(reading: int, deadline: float) -> bytes | None:
    """Return the record that the pipe gives before the deadline, None without one.

    Its length comes first: a process that a test started may keep the pipe open.
    """
    data = b""
    while True:
        size, newline, record = data.partition(b"\n")
        if newline and len(record) >= int(size):
            return record
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(reading, 1 << 16) if ready else b""
        if not part:
            return None
        data += part
