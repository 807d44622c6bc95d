"""Session runner: executes sessions and reports what a user would see.

The text of this file runs in a sandbox after that of ``code_exchange``, on Python 3.8 and later. ``main`` gets a job
with groups of sessions: ``{"path": [..], "imports": [..], "groups": [{"files": .., "imports": .., "sessions": ..}]}``.
Each group has a process of its own, in which functions of the package get the code that they have in ``files``. From
there each session that is ``apart`` has its own process; the others share one. The last line of the standard output is
a JSON list with an object for each group up to the first that is ``tied`` to the sandbox (it wrote a file, for
example): its ``outcomes``, why the change is ``refused``, or neither when its process ended.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import gc
import io
import json
import mmap
import os
import random
import re
import resource
import signal
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from ...engine.code_exchange import Functions, NotSwappable

CPU_SECONDS, SECONDS = 2.0, 20
MOST_ENDED = 3
"""After so many sessions that did not end in time the others are not tried."""
TYING_EVENTS = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn", "os.system"}
    | {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate", "os.utime"}
    | {"shutil.rmtree", "sqlite3.connect", "socket.bind"}
)
"""Audit events of code that starts a process, or changes what others see."""
MAX_SHOWN = 400
MAX_ATTRIBUTES = 20
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
_UNSTABLE = re.compile(r"/tmp/|/workspace|/opt/etude")
_CLOCK = {"now", "today", "utcnow", "time", "time_ns", "localtime", "gmtime", "urandom", "getpid", "uuid1", "uuid4"}


def shown(value: Any) -> str:
    """Return the text that a console shows for a value, with ``0x...`` for addresses.

    It is empty for one that differs between runs or is long.
    """
    text = _ADDRESS.sub("0x...", repr(value))
    return "" if _UNSTABLE.search(text) or len(text) > MAX_SHOWN else text


def attributes(value: Any) -> dict[str, str]:
    """Return the public attributes of an object with what a console shows for them."""
    values = vars(value) if hasattr(value, "__dict__") and not isinstance(value, type) else {}
    names = [name for name in values if isinstance(name, str) and name.isidentifier() and not name.startswith("_")]
    return {
        name: text for name in sorted(names)[:MAX_ATTRIBUTES] if "0x..." not in (text := shown(values[name])) and text
    }


class ClockWatch:
    """Notes whether code asks for the time, for chance or for the process."""

    def __init__(self) -> None:
        self.is_used = False

    def __call__(self, frame: Any, event: str, value: Any) -> None:
        """Note the calls of functions that are written in C."""
        if event != "c_call":
            return
        owner, name = getattr(value, "__self__", None), getattr(value, "__name__", "")
        if (
            isinstance(owner, random.Random)
            and name in ("random", "getrandbits")
            or name in _CLOCK
            and (
                owner in (datetime.datetime, datetime.date)
                or (isinstance(owner, type) and issubclass(owner, datetime.date))
                or getattr(owner, "__name__", "") in ("time", "posix", "os", "uuid")
            )
        ):
            self.is_used = True


class ProcessWatch:
    """Notes what ties a group of sessions to the sandbox beside its own process.

    The state is shared with all processes that are forked later: whether code has written a file, started a process or
    read the source of a changed file. The files of the sandbox are those of the unchanged package, and other groups see
    what one has written.
    """

    def __init__(self) -> None:
        self.noted = mmap.mmap(-1, 1)
        self.active = False
        self.changed: frozenset[str] = frozenset()  # absolute paths of the group's changed files
        sys.addaudithook(self._event)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Watch for the duration of a block."""
        self.active = True
        try:
            yield
        finally:
            self.active = False

    def _event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
            if writes and path != os.devnull or path in self.changed:
                self.noted[0] = 1
        elif event in TYING_EVENTS:
            self.noted[0] = 1


def run_line(line: str, names: dict[str, Any]) -> dict[str, Any]:
    """Return what one line prints, what it gives or raises, and the attributes of an object that it gives."""
    tree = ast.parse(line)
    is_expression = isinstance(tree.body[0], ast.Expr)
    printed = io.StringIO()
    outcome: dict[str, Any] = {"kind": "nothing", "text": "", "attributes": {}}
    try:
        with contextlib.redirect_stdout(printed):
            if is_expression:
                value = eval(compile(line, "<session>", "eval"), names)
                if value is not None:
                    outcome.update(kind="value", text=shown(value), attributes=attributes(value))
            else:
                exec(compile(line, "<session>", "exec"), names)
    except BaseException as error:  # noqa: BLE001  SystemExit is an outcome too
        text = _ADDRESS.sub("0x...", "".join(traceback.format_exception_only(type(error), error)).strip())
        outcome.update(kind="raises", text="" if _UNSTABLE.search(text) or len(text) > MAX_SHOWN else text)
        outcome["exception"] = type(error).__name__
    text = _ADDRESS.sub("0x...", printed.getvalue())
    outcome["printed"] = text if len(text) <= MAX_SHOWN and not _UNSTABLE.search(text) else None
    return outcome


def run_session(lines: list[str], watch: ProcessWatch) -> list[dict[str, Any]]:
    """Return the outcomes of lines, up to the first that raises; none when one asks for the time or for chance."""
    names: dict[str, Any] = {"__name__": "__main__"}
    outcomes: list[dict[str, Any]] = []
    clock = ClockWatch()
    with watch.at_work():
        for line in lines:
            sys.setprofile(clock)
            try:
                outcomes.append(run_line(line, names))
            finally:
                sys.setprofile(None)
            if outcomes[-1]["kind"] == "raises":
                break
    return [] if clock.is_used else outcomes


def in_own_process(work: Callable[[], Iterable[Any]]) -> list[Any]:
    """Return what ``work`` yields in a forked process, up to the end of that."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            with os.fdopen(writing, "w") as pipe:
                for item in work():
                    pipe.write(json.dumps(item) + "\n")
                    pipe.flush()
        finally:
            os._exit(0)  # an error must not continue in the code of the parent
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().split("\n")
    os.waitpid(child, 0)
    return [json.loads(line) for line in lines[:-1]]


def in_time(sessions: Iterable[list[str]], watch: ProcessWatch) -> Iterator[list[dict[str, Any]]]:
    """Yield the outcomes of sessions; a signal ends this process when one takes long."""
    for lines in sessions:
        for limit in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(limit, signal.SIG_DFL)
        signal.alarm(SECONDS)  # a session that sleeps
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        yield run_session(lines, watch)


def in_turn(sessions: list[list[str]], apart: bool, watch: ProcessWatch) -> list[list[dict[str, Any]]]:
    """Return the outcomes of sessions; none for those that do not end in time, or come after too many of these.

    A session that does not end takes its process with it, and the next one begins a new process.
    """
    results: list[list[dict[str, Any]]] = []
    ended = 0
    while len(results) < len(sessions) and ended < MOST_ENDED:
        following = sessions[len(results) :][: 1 if apart else None]
        outcomes = in_own_process(partial(in_time, following, watch))
        results += outcomes
        if len(outcomes) < len(following):
            results.append([])
            ended += 1
    return results + [[]] * (len(sessions) - len(results))


class ImportWatch:
    """Notes which functions of the workspace run while modules are imported."""

    def __init__(self, root: str) -> None:
        self.root = root + os.sep
        self.codes: set[types.CodeType] = set()

    def bring_in(self, lines: Sequence[str]) -> None:
        """Execute import lines once, so that not every session has to."""
        for line in lines:
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                sys.setprofile(self)
                try:
                    exec(line, {})
                finally:
                    sys.setprofile(None)

    def __call__(self, frame: types.FrameType, event: str, _: Any) -> None:
        """Note a function that is called."""
        if event == "call" and frame.f_code.co_filename.startswith(self.root):
            self.codes.add(frame.f_code)


def run_group(group: dict[str, Any], imports: ImportWatch, watch: ProcessWatch) -> Iterator[dict[str, Any]]:
    """Yield the outcomes of a group of sessions."""
    with watch.at_work():
        imports.bring_in(group["imports"])
    functions = Functions(os.getcwd())
    watch.changed = frozenset(os.path.join(functions.root, path) for path in group["files"])
    try:
        for path, (start, stop, text) in group["files"].items():
            functions.prepare(path)
            functions.exchange(path, start, stop, text.encode("utf-8", "surrogateescape"))
    except NotSwappable as error:
        yield {"refused": str(error)}
        return
    if not functions.exchanged.isdisjoint(map(functions.key, imports.codes)):
        yield {"refused": "a changed function runs while a module is imported"}
        return
    gc.freeze()  # objects that a collection does not touch stay shared with the children
    yield {"outcomes": in_turn(group["sessions"], group["apart"], watch)}


def main(job: dict[str, Any]) -> None:
    """Run the groups of a job in turn, up to the first that is tied to the sandbox."""
    answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # code may write there beside ``sys.stdout``
        os.dup2(nowhere, stream)
    sys.path[:0] = job["path"]
    sys.dont_write_bytecode = True
    imports, watch = ImportWatch(os.getcwd()), ProcessWatch()
    imports.bring_in(job["imports"])
    results: list[dict[str, Any]] = []
    for group in job["groups"]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = in_own_process(partial(run_group, group, imports, watch))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        results.append({**(result[0] if result else {}), "cpu_seconds": cpu, "tied": watch.noted[0]})
        if watch.noted[0]:
            break
    with os.fdopen(answers, "w") as pipe:
        pipe.write("\n" + json.dumps(results))
