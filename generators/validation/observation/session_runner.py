"""Session runner: executes sessions and reports what a user would see.

The text of this file runs in a sandbox after that of ``code_exchange``, on Python 3.8 and later. ``main`` gets a job
with groups of sessions: ``{"path": [..], "imports": [..], "groups": [{"files": .., "imports": .., "sessions": ..}]}``.
Each group has a process of its own, in which functions of the package get the code that they have in ``files``. From
there each session that is ``apart`` has its own process; the others share one. The standard output is a JSON list with
one list per group: an object with its ``outcomes``, or why the change is ``refused``; empty when its process ended.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import gc
import io
import json
import os
import random
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from ...engine.code_exchange import Functions, NotSwappable

CPU_SECONDS, SECONDS = 2.0, 20
MOST_ENDED = 3
"""After so many sessions that did not end in time the others are not tried."""
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


def run_session(lines: list[str]) -> list[dict[str, Any]]:
    """Return the outcomes of lines, up to the first that raises; none when one asks for the time or for chance."""
    names: dict[str, Any] = {"__name__": "__main__"}
    outcomes: list[dict[str, Any]] = []
    watch = ClockWatch()
    for line in lines:
        sys.setprofile(watch)
        try:
            outcomes.append(run_line(line, names))
        finally:
            sys.setprofile(None)
        if outcomes[-1]["kind"] == "raises":
            break
    return [] if watch.is_used else outcomes


def in_own_process(work: Callable[[], Iterable[Any]]) -> list[Any]:
    """Return what ``work`` yields in a forked process, up to the end of that."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            for item in work():
                pipe.write(json.dumps(item) + "\n")
                pipe.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().split("\n")
    os.waitpid(child, 0)
    return [json.loads(line) for line in lines[:-1]]


def in_time(sessions: Iterable[list[str]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the outcomes of sessions; a signal ends this process when one takes long."""
    for limit in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(limit, signal.SIG_DFL)
    for lines in sessions:
        signal.alarm(SECONDS)  # a session that sleeps
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        yield run_session(lines)


def in_turn(sessions: list[list[str]], apart: bool) -> list[list[dict[str, Any]]]:
    """Return the outcomes of sessions; none for those that do not end in time, or come after too many of these.

    A session that does not end takes its process with it, and the next one begins a new process.
    """
    results: list[list[dict[str, Any]]] = []
    ended = 0
    while len(results) < len(sessions) and ended < MOST_ENDED:
        following = sessions[len(results) :][: 1 if apart else None]
        outcomes = in_own_process(partial(in_time, following))
        results += outcomes
        if len(outcomes) < len(following):
            results.append([])
            ended += 1
    return results + [[]] * (len(sessions) - len(results))


def bring_in(lines: Sequence[str]) -> None:
    """Execute import lines once, so that not every session has to."""
    for line in lines:
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            exec(line, {})


def run_group(group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the outcomes of a group of sessions."""
    bring_in(group["imports"])
    functions = Functions(os.getcwd())
    try:
        for path, (start, stop, text) in group["files"].items():
            functions.prepare(path)
            functions.exchange(path, start, stop, text.encode("utf-8", "surrogateescape"))
    except NotSwappable as error:
        yield {"refused": str(error)}
        return
    gc.freeze()  # objects that a collection does not touch stay shared with the children
    yield {"outcomes": in_turn(group["sessions"], group["apart"])}


def main(job: dict[str, Any]) -> None:
    """Run the groups of a job in turn."""
    answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # code may write there beside ``sys.stdout``
        os.dup2(nowhere, stream)
    sys.path[:0] = job["path"]
    bring_in(job["imports"])
    results = [in_own_process(partial(run_group, group)) for group in job["groups"]]
    with os.fdopen(answers, "w") as pipe:
        pipe.write(json.dumps(results))
