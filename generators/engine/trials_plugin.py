"""pytest plugin that tries many changes of the package after one collection, each in a forked process.

``warm_suite`` sends this file's text to the sandbox after that of ``code_exchange`` and ahead of the test-run plugin,
which calls ``make_trials``; it runs on Python 3.8 and later. A trial gives some files other contents, and the child
process exchanges the code of their functions. A trial for which it cannot answers ``not swappable``, and the caller has
to run it in a process of its own.
"""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from .code_exchange import Functions, NotSwappable

PROCESS_EVENTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn", "os.system")
LIMIT_SIGNALS = (signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL)
FIELDS = ("cause", "passed", "outcomes", "processes", "sharing")  # what a record of a trial holds
GRACE_S = 5.0  # seconds of wall time that a trial may use besides ten times its CPU limit and its tests' wall time


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
