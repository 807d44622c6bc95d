"""Test runs: run a tree's tests in a sandbox and accept only signed results.

The host draws a fresh key for every run, passes it on stdin, and accepts records only in sequence, each with the right
MAC, ended by exactly one signed end record. Anything else makes the run incomplete, with its cause.
"""

from __future__ import annotations

import functools
import json
import posixpath
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from ....models import PytestVerifier
from ...sandbox import ENV_PREFIX, WORKSPACE, ExecResult, Sandbox
from ..log_text import last_lines
from .compiled_program import RUN_PROGRAM, compiled_program
from .result_records import FORGED, OutcomeName, verified

Order = Literal["given", "reversed"]
"""The order in which tests run."""
OUTPUT_LIMIT = 256 * 1024
# The shell sets the last three for each command of an agent.
ENVIRONMENT = {"PYTHONPATH": "", "PWD": WORKSPACE, "SHLVL": "0", "_": f"{ENV_PREFIX}/bin/python"}
# Excludes the current folder's modules before anything is imported; -P does so from Python 3.11 on only.
_LOAD = "import sys; sys.path[:] = filter(None, sys.path)\nwhile sys.argv[1:]: exec(sys.argv.pop(1))"
START = ("python", "-c", _LOAD)
"""Command that runs the texts which follow it as one program."""
_PARTS = {
    "pytest": ("plugin_channel.py", "plugin_integrity.py", "plugin_imports.py", "pytest_plugin.py"),
    "unittest": ("plugin_channel.py", "plugin_imports.py", "unittest_plugin.py"),
}
SIGPROF_EXIT = 128 + 27
"""Exit code of a run that the CPU limit of a single test has ended."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one test.

    ``when`` is the phase that decided; ``exception`` a type name; ``where`` the innermost workspace frame,
    ``file:line``, of the failure.
    """

    outcome: OutcomeName
    when: str = ""
    message: str = ""
    exception: str = ""
    where: str = ""


@dataclass(frozen=True)
class Crossing:
    """Calls of a run that end at a boundary of the process (see ``grading.out_of_process``)."""

    parts: tuple[str, ...]
    """Texts of the files that the sandbox needs for it; the last defines ``install_boundary``."""
    job: dict[str, Any]
    """What ``install_boundary`` is given."""


@dataclass(frozen=True)
class TestRun:
    """One run of a set of tests.

    ``complete`` is false when the run ended early, timed out or its records do not add up; ``cause`` gives the reason
    and ``running`` the test that was running. ``repeated`` ids were reported more than once and have no outcome.
    ``violations`` names parts of pytest or ``builtins`` that the code under test replaced. ``contexts`` maps a test id
    (empty: import time) to workspace-relative file to covered lines. ``modules`` maps the workspace's imported
    top-level modules to files. ``descriptions`` maps ids of unittest to the first lines of docstrings. ``crossings``
    maps a test id to what its boundary wrote down. ``cpu_seconds`` is the CPU time of the run, ``seconds`` its wall
    time.
    """

    __test__: ClassVar[bool] = False

    outcomes: dict[str, Outcome]
    order: list[str]
    complete: bool
    cause: str
    running: str = ""
    collect_errors: dict[str, str] = field(default_factory=dict)
    contexts: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    crossings: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    output: bytes = b""
    repeated: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    forged: bool = False
    timed_out: bool = False
    status: int | None = None
    test_limit: bool = False
    exit_code: int | None = None
    oom_killed: bool = False

    @property
    def passed(self) -> list[str]:
        """Return the ids that passed, in the order in which they ran."""
        return [test for test in self.order if self.outcomes[test].outcome == "passed"]


@functools.cache
def plugin_sources(kind: str = "pytest") -> tuple[str, ...]:
    """Return the texts of the plugin's files."""
    return tuple(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in _PARTS[kind])


def plugin_command(kind: str = "pytest") -> list[str]:
    """Return the command that runs the job on its standard input, in the current folder."""
    return [*START, *plugin_sources(kind)]


async def run_tests(
    sandbox: Sandbox,
    verifier: PytestVerifier,
    tests: Sequence[str] | None = None,
    *,
    order: Order = "given",
    hash_seed: int = 0,
    coverage: Sequence[str] = (),
    timeout_s: float | None = None,
    first_failure: bool = False,
    idle_s: float | None = None,
    test_cpu_s: float | None = None,
    crossing: Crossing | None = None,
    tracebacks: bool = False,
) -> TestRun:
    """Run ``tests`` (``None``: all that ``verifier.args`` selects) in ``/workspace`` and return what was proven.

    Only the files that contain the requested ids are collected. ``coverage`` names workspace folders to trace per
    test; the environment must hold the ``coverage`` package.

    The limits do not depend on the load of the machine: ``timeout_s`` (default: the verifier's) is in seconds of CPU
    time; the run also ends when it has been idle for ``idle_s`` seconds (default: ``timeout_s``), and in any case after
    ``max(10 * timeout_s, 300)`` seconds of wall time. ``test_cpu_s`` limits the CPU time of each single test.
    ``first_failure`` ends the run at the first failing test, incomplete. ``crossing`` is for trees whose examined
    functions end at a boundary; pytest alone knows it. With ``tracebacks`` the output shows those of failed tests: to
    make one, pytest parses the whole test file.

    Raises SandboxError when the sandbox fails; whatever the tests do is a result.
    """
    limit = verifier.timeout_s if timeout_s is None else timeout_s
    job = {
        "tests": None if tests is None else list(tests),
        "order": order,
        "most_failures": int(first_failure),
        "coverage": list(coverage),
        "test_cpu_s": test_cpu_s,
        "crossing": crossing.job if crossing else None,
        "tracebacks": tracebacks,
    }
    parts = crossing.parts if crossing else ()
    idle = limit if idle_s is None else idle_s
    return read_run(*await run_plugin(sandbox, verifier, job, parts, limit, idle, hash_seed))


async def run_plugin(
    sandbox: Sandbox,
    verifier: PytestVerifier,
    job: dict[str, Any],
    parts: Sequence[str],
    limit_s: float,
    idle_s: float,
    hash_seed: int = 0,
) -> tuple[ExecResult, bytes]:
    """Run the test-run plugin with a job; return the result and the key that signs the records of its channel.

    ``parts`` are the texts of files that define what the job needs beside the plugin itself. ``limit_s`` is in seconds
    of CPU time. Raises SandboxError when the sandbox fails.
    """
    key = secrets.token_bytes(32)
    fields = verifier.model_dump(include={"args", "plugins", "python_path", "options", "config_file", "program"})
    # PYTHONPATH must be empty: Python itself imports modules before the plugin's first line, and the workspace may not
    # replace those either. There are no options: code could see them in ``sys.flags``, and an agent's runs have none.
    program = compiled_program((*parts, *plugin_sources(verifier.kind)))
    result = await sandbox.exec(
        [*START, RUN_PROGRAM],
        stdin=program + json.dumps({"key": key.hex(), **job, **fields}).encode(),
        env={**ENVIRONMENT, "PYTHONHASHSEED": str(hash_seed)},
        timeout_s=max(10 * limit_s, 300.0),
        cpu_s=limit_s,
        idle_s=idle_s,
        output_limit=OUTPUT_LIMIT,
        channel=True,
    )
    return result, key


def read_run(result: ExecResult, key: bytes) -> TestRun:
    """Return the run that ``result.channel`` proves: verified records up to the first that is out of place."""
    records, problem = verified(result.channel, key)
    outcomes: dict[str, Outcome] = {}
    repeated: dict[str, None] = {}
    collected: dict[str, Any] = {"collect": {}, "cover": {}, "crossing": {}}
    running, planned, end, modules = "", None, None, {}
    for record in records:
        kind = record["kind"]
        if end is not None:
            problem = f"{FORGED}: something follows the end record"
        elif kind == "start":
            running = record["id"]
        elif kind == "plan":
            planned = record["count"]
        elif kind == "result":
            test, running = record["id"], ""
            fields = {name: record[name] for name in ("outcome", "when", "message", "exception", "where")}
            if test in outcomes or test in repeated:
                outcomes.pop(test, None)
                repeated[test] = None
            else:
                outcomes[test] = Outcome(**fields)
        elif kind == "end":
            end = record
        elif kind == "modules":
            modules = {name: posixpath.join(WORKSPACE, path) for name, path in record["files"].items()}
        else:
            part = {"collect": "message", "cover": "files", "crossing": "record"}[kind]
            collected[kind][record["id"]] = record[part]
    ran = sum(record["kind"] == "result" for record in records)
    progress = f"{ran} tests" if planned is None else f"{ran} of {planned} tests"
    cause = problem or _early_end(result, end, ran, progress + (f" during {running}" if running else ""))
    return TestRun(
        outcomes=outcomes,
        order=list(outcomes),
        complete=not cause,
        cause=cause,
        running=running,
        collect_errors=collected["collect"],
        contexts=collected["cover"],
        crossings=collected["crossing"],
        modules=modules,
        descriptions={record["id"]: record["doc"] for record in records if record.get("doc")},
        seconds=result.seconds,
        cpu_seconds=result.cpu_seconds,
        output=result.output,
        repeated=list(repeated),
        violations=end["violations"] if end else [],
        forged=bool(problem),
        timed_out=result.timed_out,
        status=end["status"] if end else None,
        test_limit=end is None and result.exit_code == SIGPROF_EXIT,
        exit_code=result.exit_code,
        oom_killed=result.oom_killed,
    )


def _early_end(result: ExecResult, end: dict[str, Any] | None, ran: int, progress: str) -> str:
    """Return why a run without forged records is still not complete; empty for a complete run."""
    if result.timed_out:
        return f"timeout after {progress}"
    if result.oom_killed:
        return f"out of memory after {progress}"
    if end is None:
        return f"ended early: exit {result.exit_code} after {progress}{'' if ran else _end_of(result)}"
    if end["cause"]:
        return f"ended early: {end['cause']} after {progress}"
    if end["status"] not in (0, 1, 5) and not (ran and ran == end["selected"]):
        word = {2: "interrupted", 3: "internal error", 4: "usage error"}.get(end["status"], f"exit {end['status']}")
        return f"pytest: {word} after {progress}{_end_of(result)}"
    if not ran == end["ran"] == end["selected"]:
        return f"ended early: pytest stopped after {progress}"
    return ""


def _end_of(result: ExecResult) -> str:
    return f": {last_lines(result.output, 5)[-600:]}" if result.output.strip() else ""
