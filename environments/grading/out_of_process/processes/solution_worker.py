"""Worker that runs recorded calls on a solution, in a sandbox that holds neither tests nor expected results.

The text of this file runs after all others (see ``programs.py``), on Python 3.8 and later. Standard input has one JSON
object. The calls of each test run in a process of their own, which writes one line of JSON; those of a trial share a
process. The answers are a claim of the solution's process and are never trusted: the host compares them, or the tests
judge them in another sandbox.
"""

from __future__ import annotations

import fcntl
import functools
import importlib
import inspect
import json
import logging
import os
import signal
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the texts of those files have defined these names already
    from ....snapshots.test_run.plugin_imports import leave_main, leave_workspace
    from ..values.places import CannotEncode
    from .call_description import describe_answer, printed_outcome
    from .constructor_fields import SolutionValues
    from .module_state import ModuleState
    from .named_answers import filled
    from .public_forms import attribute_names

CPU_SECONDS = 30
"""Most seconds of CPU time for the calls of one test."""
TRIAL_SECONDS = 3
"""Most seconds of CPU time for all tests of a trial: it runs a mutant of the task's own solution, which may hang."""


def find_target(values: Any, target: str) -> Any:
    """Return the function of a target.

    A target is ``module:qualified.name#accessor``, or ``@n`` for the function number ``n`` of an earlier answer. The
    decorators of the task's own solution stay beside the tests, so as many are removed here; more are the solution's.
    """
    if target.startswith("@"):
        return values.objects[target[1:]]
    module, _, path = target.partition(":")
    name, _, accessor = path.partition("#")
    owner: Any = importlib.import_module(module)
    *outer, last = name.split(".")
    for part in outer:
        owner = getattr(owner, part)
    raw = inspect.getattr_static(owner, last)
    if isinstance(raw, (staticmethod, classmethod)):
        raw = raw.__func__
    elif isinstance(raw, property):
        raw = {"set": raw.fset, "del": raw.fdel}.get(accessor, raw.fget)
    elif isinstance(raw, functools.cached_property):
        raw = raw.func
    for _ in range(values.decorated.get(target, 0)):
        if not inspect.isclass(raw) and hasattr(raw, "__wrapped__"):
            raw = raw.__wrapped__
    return raw


def answer(values: Any, number: int, call: dict[str, Any], earlier: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer to one call; one that cannot be made or described says so."""
    try:
        call = filled(call, earlier)
        positional = [values.decode(form) for form in call["arguments"]]
        named = {name: values.decode(form) for name, form in call["keywords"].items()}
        function = find_target(values, call["target"])
        if not callable(function):
            return {"broken": f"{call['target']} is not a function"}
        state = ModuleState(values.packages, values.state_names)
        if inspect.iscoroutinefunction(function):
            import asyncio  # takes longer to load than most calls take

            outcome = printed_outcome(lambda: asyncio.run(function(*positional, **named)), (), {})
        else:
            outcome = printed_outcome(function, tuple(positional), named)
        modules = state.changes(values)
        described = describe_answer(values, number, call, [*positional, *named.values()], outcome)[0]
        return {**described, "modules": modules} if modules else described
    except CannotEncode as error:
        return {"broken": str(error)[:300]}
    except Exception as error:  # noqa: BLE001  the solution's own
        return {"broken": f"{type(error).__name__}: {error}"[:300]}


def run_test(job: dict[str, Any], calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers to the calls of one test, in order."""
    values = SolutionValues(job["opaque"], job["packages"], job["constructors"], job["names"])
    values.state_names, values.decorated = job["watched"], job["decorated"]
    answers: list[dict[str, Any]] = []
    for number, call in enumerate(calls):
        answers.append(answer(values, number, call, answers))
    return answers


def look_ordinary(job: dict[str, Any]) -> int:
    """Make the process look like ``python -c`` in an agent's shell, and return the number of the channel.

    What cannot be alike is listed in ``tests/environments/grading/test_process_facts.py``.
    """
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    inherited = int(os.environ.pop("ETUDE_CHANNEL"))
    channel = fcntl.fcntl(inherited, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(inherited)
    root = os.getcwd()
    leave_workspace(root)
    folders = list(dict.fromkeys(os.path.normpath(os.path.join(root, part)) for part in [*job["python_path"], "."]))
    sys.path[:0] = ["", *folders]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    leave_main(["-c"], ["python", "-c", "import " + ", ".join(job["packages"])])
    main: Any = sys.modules["__main__"]
    main.__loader__, main.__annotations__ = importlib.machinery.BuiltinImporter, {}
    # pytest keeps both away from the error stream, which says nothing then about what a call prints there.
    silent: Any = warnings
    silent._showwarnmsg_impl = lambda _: None
    if logging.lastResort is not None:
        logging.lastResort.setLevel(logging.CRITICAL + 1)
    return channel


def status_of(child: int) -> int | None:
    """Return the exit code of a child process, -n after signal n, None while it runs.

    It is 0 where something else has waited for the child.
    """
    try:
        ended, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:
        return 0
    if not ended:
        return None
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def was_killed(child: int, cpu_seconds: float, seconds: float) -> bool:
    """Wait for a child process, and kill it when it has used its CPU time or all its time.

    Returns whether something other than these limits killed it.
    """
    clock = ~child << 3 | 2  # the clock of a process, as clock_getcpuclockid(3) numbers it
    end, is_late = time.monotonic() + seconds, False
    while (status := status_of(child)) is None:
        try:
            remaining = min(cpu_seconds - time.clock_gettime(clock), end - time.monotonic())
        except OSError:  # it has just ended
            remaining = 0.01
        if remaining <= 0:
            os.kill(child, signal.SIGKILL)
            is_late = True
        signal.sigtimedwait([signal.SIGCHLD], min(max(remaining, 0.01), 1.0))
    return not is_late and -status in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def serve() -> None:
    """Answer the calls of all tests, each in a child process; end as killed when one of these was killed."""
    job = json.loads(sys.stdin.buffer.read())
    channel = look_ordinary(job)
    for module in job["modules"]:
        try:
            importlib.import_module(module)
        except BaseException:  # noqa: BLE001  its calls will say so
            continue
    job["names"] = attribute_names(job["tests"])
    tests, killed = list(job["tests"].items()), False
    for group in [tests] if job["is_trial"] else [[item] for item in tests]:
        sys.stdout.flush()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the solution may have set it to be ignored
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        child = os.fork()
        if child:
            seconds = TRIAL_SECONDS if job["is_trial"] else CPU_SECONDS
            killed |= was_killed(child, seconds, 10 * seconds if job["is_trial"] else float("inf"))
            continue
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            for test, calls in group:
                line = json.dumps({"test": test, "answers": run_test(job, calls)}).encode() + b"\n"
                while line:
                    line = line[os.write(channel, line) :]
        finally:
            os._exit(0)
    if killed:  # the answers that are missing say nothing about the solution
        os._exit(128 + signal.SIGKILL)


if __name__ == "__main__":
    serve()
