"""unittest plugin that runs inside a sandbox and reports over a private pipe, as ``pytest_plugin.py`` does.

``run_tests`` passes this file after two ``plugin_*.py`` files as text; it runs on Python 3.8 and later. It executes the
workspace's own test program, such as Django's ``tests/runtests.py``, with every ``unittest.TestResult`` reporting to
the host. The program and the code under test share this process, hence ``assurance: in_process``.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the texts of those files have defined these names already
    from .plugin_channel import read_job
    from .plugin_imports import leave_workspace, workspace_modules

REPORTING = (
    "startTest",
    "stopTest",
    "addSuccess",
    "addError",
    "addFailure",
    "addSkip",
    "addExpectedFailure",
    "addUnexpectedSuccess",
    "addSubTest",
)


def failure(kind: str, error: Any, root: str) -> dict[str, str]:
    """Return the fields of a record for an exception (type, value, traceback)."""
    name, where, trace = error[0].__name__, "", error[2]
    try:
        text = " ".join(str(error[1]).split())[:300]
    except Exception:  # noqa: BLE001  the exception is the candidate's own
        text = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(root + os.sep):
            where = f"{file[len(root) + 1 :]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return {"outcome": kind, "when": "call", "message": text, "exception": name, "where": where}


def plain(outcome: str) -> dict[str, str]:
    """Return the fields of a record without an exception."""
    return {"outcome": outcome, "when": "call", "message": "", "exception": "", "where": ""}


def report_results(send: Callable[..., None], root: str, finished: list[str]) -> Callable[[], list[str]]:
    """Make every test result report; return a function that names the replaced methods at the end.

    The first outcome of a test that is not a pass decides; errors outside tests (a class's or a module's set-up) are
    reported as what could not be collected.
    """
    import unittest

    result = unittest.TestResult
    originals = {name: getattr(result, name) for name in REPORTING}
    current: dict[str, Any] = {"id": None, "record": None}

    def decide(test: Any, fields: dict[str, str]) -> None:
        if current["id"] is None:
            send("collect", id=test.id(), message=f"{fields['exception']}: {fields['message']}"[-600:])
        elif current["record"] is None or current["record"]["outcome"] == "passed":
            current["record"] = fields

    def start(self: Any, test: Any) -> None:
        current.update(id=test.id(), record=None)
        send("start", id=test.id(), doc=test.shortDescription() or "")
        originals["startTest"](self, test)

    def stop(self: Any, test: Any) -> None:
        originals["stopTest"](self, test)
        if current["id"] is not None:
            finished.append(current["id"])
            nothing = {**plain("error"), "message": "no outcome was reported"}
            send("result", id=current["id"], **(current["record"] or nothing))
        current.update(id=None, record=None)

    def subtest(self: Any, test: Any, part: Any, error: Any) -> None:
        if error is not None:
            decide(test, failure("failed" if issubclass(error[0], test.failureException) else "error", error, root))
        originals["addSubTest"](self, test, part, error)

    def reporting(name: str, fields: Callable[..., dict[str, str]]) -> Callable[..., None]:
        def report(self: Any, test: Any, *details: Any) -> None:
            decide(test, fields(*details))
            originals[name](self, test, *details)

        return report

    replaced = {
        "startTest": start,
        "stopTest": stop,
        "addSubTest": subtest,
        "addSuccess": reporting("addSuccess", lambda: plain("passed")),
        "addError": reporting("addError", lambda error: failure("error", error, root)),
        "addFailure": reporting("addFailure", lambda error: failure("failed", error, root)),
        "addSkip": reporting("addSkip", lambda reason: {**plain("skipped"), "message": str(reason)[:300]}),
        "addExpectedFailure": reporting("addExpectedFailure", lambda error: plain("xfailed")),
        "addUnexpectedSuccess": reporting("addUnexpectedSuccess", lambda: plain("xpassed")),
    }
    for name, function in replaced.items():
        setattr(result, name, function)
    watched = {"TestCase.run": unittest.TestCase.run, "TestCase.__call__": unittest.TestCase.__call__}

    def violations() -> list[str]:
        now = {"TestCase.run": unittest.TestCase.run, "TestCase.__call__": unittest.TestCase.__call__}
        changed = [f"TestResult.{name}" for name, function in replaced.items() if getattr(result, name) is not function]
        return [f"unittest.{name} changed" for name in changed + [n for n in now if now[n] is not watched[n]]]

    return violations


def main() -> None:
    """Run the job that stdin describes, report its results, and leave without Python's own shutdown."""
    job, send = read_job()
    root, leave, flush = os.getcwd(), os._exit, sys.stdout.flush
    leave_workspace(root)
    finished: list[str] = []
    violations = report_results(send, root, finished)
    program = os.path.join(root, job["program"])
    folders = [os.path.normpath(os.path.join(root, part)) for part in job["python_path"]]
    sys.path[:0] = [os.path.dirname(program), *folders]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    os.chdir(os.path.dirname(program))
    reverse = ["--reverse"] if job["order"] == "reversed" else []
    # A test's label is its module: loading single tests would leave out what its class and module set up.
    labels = job["args"] if job["tests"] is None else [test.rsplit(".", 2)[0] for test in job["tests"]]
    sys.argv[:] = [program, *job["options"], *reverse, *dict.fromkeys(labels)]
    status, cause = 0, ""
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException as error:  # noqa: BLE001  whatever the program raises
        status, cause = 3, f"{type(error).__name__}: {error}"[:300]
    if not finished and status and not cause:
        cause = f"the test program ended with {status} before any test"
    names = [name for name in workspace_modules(folders) if name in sys.modules]
    files = {name: getattr(sys.modules[name], "__file__", None) or "" for name in names}
    prefixed = {name: os.path.relpath(path, root) for name, path in files.items() if path.startswith(root + os.sep)}
    send("modules", files=prefixed)
    ran = len(finished)
    send("end", status=int(status != 0), cause=cause, selected=ran, ran=ran, violations=violations())
    flush()
    leave(int(status != 0))


if __name__ == "__main__":
    main()
