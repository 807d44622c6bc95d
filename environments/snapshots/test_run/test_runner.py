"""Run a tree's tests in a sandbox and believe only what the harness signed.

The host draws a fresh key for every run, hands it over on stdin, and accepts records only in sequence, each with the
right MAC, ended by exactly one signed end record. Anything else makes the run incomplete, with its cause.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import posixpath
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from ....models import PytestVerifier
from ...sandbox import WORKSPACE, ExecResult, Sandbox

OUTPUT_LIMIT = 256 * 1024
ENVIRONMENT = {"PYTHONPATH": "", "PYTHONSTARTUP": "", "TZ": "UTC", "LANG": "C.UTF-8", "COLUMNS": "100"}
# Leaves the current folder's modules alone before anything is imported; -P does so from Python 3.11 on only.
_START = "import sys; sys.path[:] = filter(None, sys.path); exec(sys.argv.pop())"
FORGED = "forged or damaged result record"


@dataclass(frozen=True)
class Outcome:
    """What became of one test.

    ``when`` is the phase that decided; ``exception`` a type name; ``where`` the innermost workspace frame,
    ``file:line``, of the failure.
    """

    outcome: Literal["passed", "failed", "skipped", "xfailed", "xpassed", "error"]
    when: str = ""
    message: str = ""
    exception: str = ""
    where: str = ""


@dataclass(frozen=True)
class TestRun:
    """One run of a set of tests.

    ``complete`` is false when the run ended early, timed out or its records do not add up; ``cause`` says why.
    ``repeated`` ids were reported more than once and have no outcome. ``violations`` names parts of pytest or
    ``builtins`` that the code under test replaced. ``contexts`` maps a test id (empty: import time) to
    workspace-relative file to covered lines. ``modules`` maps the workspace's imported top-level modules to files.
    """

    __test__: ClassVar[bool] = False

    outcomes: dict[str, Outcome]
    order: list[str]
    complete: bool
    cause: str
    collect_errors: dict[str, str] = field(default_factory=dict)
    contexts: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    output: bytes = b""
    repeated: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    forged: bool = False
    timed_out: bool = False
    status: int | None = None
    exit_code: int | None = None
    oom_killed: bool = False

    @property
    def passed(self) -> list[str]:
        """Ids that passed, in the order in which they ran."""
        return [test for test in self.order if self.outcomes[test].outcome == "passed"]


@functools.cache
def harness_source() -> str:
    """The harness as the sandbox's interpreter gets it, on its command line."""
    return Path(__file__).with_name("pytest_plugin.py").read_text(encoding="utf-8")


async def run_tests(
    sandbox: Sandbox,
    verifier: PytestVerifier,
    tests: Sequence[str] | None = None,
    *,
    order: Literal["given", "reversed"] = "given",
    hash_seed: int = 0,
    coverage: Sequence[str] = (),
    timeout_s: float | None = None,
    first_failure: bool = False,
) -> TestRun:
    """Run ``tests`` (``None``: whatever ``verifier.args`` selects) in ``/workspace`` and return what was proven.

    Only the files that hold the requested ids are collected. ``coverage`` names workspace folders to trace per test;
    the environment must hold the ``coverage`` package. ``timeout_s`` (seconds) defaults to the verifier's.
    ``first_failure`` ends the run there, incomplete. Raises SandboxError when the sandbox fails; whatever the tests
    do is a result.
    """
    key = secrets.token_bytes(32)
    job = {
        "key": key.hex(),
        "tests": None if tests is None else list(tests),
        "order": order,
        "most_failures": int(first_failure),
        "coverage": list(coverage),
        **verifier.model_dump(include={"args", "plugins", "python_path", "options", "config_file"}),
    }
    # -I would ignore PYTHONHASHSEED, so its parts are asked for one by one. PYTHONPATH must be empty: Python itself
    # imports modules before the harness's first line, and the workspace may not stand in for those either.
    result = await sandbox.exec(
        ["python", "-s", "-S", "-B", "-c", _START, harness_source()],
        stdin=json.dumps(job).encode(),
        env={**ENVIRONMENT, "PYTHONHASHSEED": str(hash_seed)},
        timeout_s=verifier.timeout_s if timeout_s is None else timeout_s,
        output_limit=OUTPUT_LIMIT,
        channel=True,
    )
    return read_run(result, key)


def read_run(result: ExecResult, key: bytes) -> TestRun:
    """What ``result.channel`` proves: verified records up to the first that is out of place."""
    records, problem = _verified(result.channel, key)
    outcomes: dict[str, Outcome] = {}
    repeated: dict[str, None] = {}
    collected: dict[str, Any] = {"collect": {}, "cover": {}}
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
            collected[kind][record["id"]] = record["message" if kind == "collect" else "files"]
    ran = sum(record["kind"] == "result" for record in records)
    progress = f"{ran} tests" if planned is None else f"{ran} of {planned} tests"
    cause = problem or _early_end(result, end, ran, progress + (f" during {running}" if running else ""))
    return TestRun(
        outcomes=outcomes,
        order=list(outcomes),
        complete=not cause,
        cause=cause,
        collect_errors=collected["collect"],
        contexts=collected["cover"],
        modules=modules,
        seconds=result.seconds,
        output=result.output,
        repeated=list(repeated),
        violations=end["violations"] if end else [],
        forged=bool(problem),
        timed_out=result.timed_out,
        status=end["status"] if end else None,
        exit_code=result.exit_code,
        oom_killed=result.oom_killed,
    )


def _verified(channel: bytes, key: bytes) -> tuple[list[dict[str, Any]], str]:
    """Records in sequence with a right MAC, and what is wrong with the first that is not (empty when all are).

    A last line without its newline is a run that was cut off, not a forgery.
    """
    records: list[dict[str, Any]] = []
    for number, line in enumerate(channel.split(b"\n")[:-1]):
        seq, _, rest = line.partition(b" ")
        mac, _, body = rest.partition(b" ")
        expected = hmac.new(key, b"%d %s" % (number, body), hashlib.sha256).hexdigest().encode()
        if seq != b"%d" % number or not hmac.compare_digest(mac, expected):
            return records, f"{FORGED} at position {number}"
        records.append(json.loads(body))
    return records, ""


def _early_end(result: ExecResult, end: dict[str, Any] | None, ran: int, progress: str) -> str:
    """Why a run without forged records is still not complete, or an empty string."""
    if result.timed_out:
        return f"timeout after {progress}"
    if result.oom_killed:
        return f"out of memory after {progress}"
    if end is None:
        return f"ended early: exit {result.exit_code} after {progress}{'' if ran else _last_lines(result.output)}"
    if end["cause"]:
        return f"ended early: {end['cause']} after {progress}"
    if end["status"] not in (0, 1, 5) and not (ran and ran == end["selected"]):
        word = {2: "interrupted", 3: "internal error", 4: "usage error"}.get(end["status"], f"exit {end['status']}")
        return f"pytest: {word} after {progress}{_last_lines(result.output)}"
    if not ran == end["ran"] == end["selected"]:
        return f"ended early: pytest stopped after {progress}"
    return ""


def _last_lines(output: bytes, count: int = 5) -> str:
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return ": " + " | ".join(lines[-count:])[-600:] if lines else ""
