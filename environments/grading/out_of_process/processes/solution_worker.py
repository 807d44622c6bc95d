"""Worker that runs recorded calls on a solution, in a sandbox that holds neither tests nor expected results.

The text of this file runs after all others (see ``programs.py``), on Python 3.8 and later. Standard input has one JSON
object. The calls of each test run in a process of their own, which writes one line of JSON; those of a trial share a
process. The answers are a claim of the solution's process and are never trusted: the host compares them, or the tests
judge them in another sandbox.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import logging
import os
import resource
import signal
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the texts of those files have defined these names already
    from ....snapshots.test_run.plugin_imports import activate_environment, environment_folders
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


def serve() -> None:
    """Answer the calls of all tests, each in a child process."""
    job = json.loads(sys.stdin.buffer.read())
    channel = int(os.environ.pop("ETUDE_CHANNEL"))
    root = os.getcwd()
    prefix, packages = environment_folders()
    sys.path.append(packages)
    activate_environment(prefix, packages, root)
    folders = list(dict.fromkeys(os.path.normpath(os.path.join(root, part)) for part in [*job["python_path"], "."]))
    sys.path[:0] = folders
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    # pytest keeps both away from the error stream, which says nothing then about what a call prints there.
    warnings.showwarning = lambda *_, **__: None
    logging.lastResort = logging.NullHandler()
    for module in job["modules"]:
        try:
            importlib.import_module(module)
        except BaseException:  # noqa: BLE001  its calls will say so
            continue
    job["names"] = attribute_names(job["tests"])
    tests = list(job["tests"].items())
    for group in [tests] if job["is_trial"] else [[item] for item in tests]:
        sys.stdout.flush()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            seconds = TRIAL_SECONDS if job["is_trial"] else CPU_SECONDS
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            signal.alarm(10 * seconds if job["is_trial"] else 0)
            for test, calls in group:
                line = json.dumps({"test": test, "answers": run_test(job, calls)}).encode() + b"\n"
                while line:
                    line = line[os.write(channel, line) :]
        finally:
            os._exit(0)


if __name__ == "__main__":
    serve()
