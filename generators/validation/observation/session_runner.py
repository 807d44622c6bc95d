"""Session runner: executes sessions, each in a process of its own, and reports what a user would see.

The text of this file runs in a sandbox, on Python 3.8 and later; it reads ``{"path": [..], "sessions": [[line, ..]]}``
from its standard input and writes one list of outcomes per session as its last line.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import io
import json
import os
import random
import re
import signal
import sys
import traceback
from typing import Any

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


def in_own_process(lines: list[str]) -> list[dict[str, Any]] | None:
    """Return the outcomes of a session; None when it does not end in time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        for limit in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(limit, signal.SIG_DFL)
        signal.alarm(SECONDS)  # a session that sleeps
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        data = json.dumps(run_session(lines)).encode()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    try:
        outcomes: list[dict[str, Any]] = json.loads(data)
    except ValueError:
        return None
    return outcomes


def in_turn(sessions: list[list[str]]) -> list[list[dict[str, Any]]]:
    """Return the outcomes of sessions; none for those that do not end in time, or come after too many of these."""
    results: list[list[dict[str, Any]]] = []
    ended = 0
    for lines in sessions:
        outcomes = in_own_process(lines) if ended < MOST_ENDED else []
        ended += outcomes is None
        results.append(outcomes or [])
    return results


def main() -> None:
    """Run the job that stdin describes."""
    job = json.load(sys.stdin)
    sys.path[:0] = job["path"]
    for line in job["imports"]:  # once, not in every session
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            exec(line, {})
    print("\n" + json.dumps(in_turn(job["sessions"])))


if __name__ == "__main__":
    main()
