"""Runs of the same tests on several versions of the sources, with one command: pytest is loaded once, then forked."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from .....models import PytestVerifier
from ....sandbox import ExecResult, Sandbox
from ..compiled_program import RUN_PROGRAM, compiled_program
from ..test_runner import ENVIRONMENT, OUTPUT_LIMIT, START, Order, TestRun, plugin_sources, read_run

Contents = Mapping[str, bytes | None]
"""Files of the workspace by path; None for one that is absent."""
_WALL_FACTOR = 5.0
"""A run may take this many times its limit of CPU time before it is killed."""


async def run_versions(
    sandbox: Sandbox,
    verifier: PytestVerifier,
    versions: Sequence[Contents],
    *,
    order: Order = "given",
    hash_seed: int = 0,
    timeout_s: float = 20.0,
) -> list[TestRun]:
    """Run what ``verifier.args`` selects on each version, one after the other, and return one run per version.

    Each version states all files in which the versions differ. A version's run is a process of its own; files that
    tests leave behind stay for the next one. ``timeout_s`` limits the CPU time of a single test, and with a factor the
    wall time of one run: a run beyond it is not complete. Raises SandboxError when the sandbox fails.
    """
    keys = [secrets.token_bytes(32) for _ in versions]
    jobs = [_job(verifier, key, order, timeout_s) for key in keys]
    packed = [_packed(files, job) for files, job in zip(versions, jobs, strict=True)]
    header = b"%d %f\n" % (len(packed), _WALL_FACTOR * timeout_s)
    body = b"".join(b"%d\n%s" % (len(item), item) for item in packed)
    limit = timeout_s * (len(packed) + 1)
    result = await sandbox.exec(
        [*START, RUN_PROGRAM],
        stdin=compiled_program((_driver(), *plugin_sources("pytest"))) + header + body,
        env={**ENVIRONMENT, "PYTHONHASHSEED": str(hash_seed), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout_s=max(_WALL_FACTOR * limit, 300.0),
        cpu_s=limit,
        idle_s=_WALL_FACTOR * timeout_s,
        output_limit=OUTPUT_LIMIT,
        channel=True,
    )
    return _runs(result, keys)


def _job(verifier: PytestVerifier, key: bytes, order: str, test_cpu_s: float) -> dict[str, object]:
    """Return the job of one run, as the plugin reads it."""
    return {
        "key": key.hex(),
        "tests": None,
        "order": order,
        "most_failures": 0,
        "coverage": [],
        "test_cpu_s": test_cpu_s,
        "crossing": None,
        "tracebacks": False,
        **verifier.model_dump(include={"args", "plugins", "python_path", "options", "config_file"}),
    }


def _packed(files: Contents, job: Mapping[str, object]) -> bytes:
    encoded = {path: None if content is None else base64.b64encode(content).decode() for path, content in files.items()}
    return json.dumps({"files": encoded, "job": job}).encode()


def _runs(result: ExecResult, keys: Sequence[bytes]) -> list[TestRun]:
    """Return the run that each key proves. Lines that no key signs count as forged in the run before them."""
    *whole, last = result.channel.split(b"\n")
    lines = [line + b"\n" for line in whole] + [last]
    starts: dict[int, int] = {}
    next_key = 0
    for place, line in enumerate(lines):
        if line.startswith(b"0 "):
            owner = next((number for number in range(next_key, len(keys)) if _signs(keys[number], line)), None)
            if owner is not None:
                starts[owner], next_key = place, owner + 1
    runs = []
    for number, key in enumerate(keys):
        later = [place for owner, place in starts.items() if owner > number]
        part = lines[starts[number] : min(later, default=len(lines))] if number in starts else []
        runs.append(read_run(replace(result, channel=b"".join(part)), key))
    return runs


def _signs(key: bytes, line: bytes) -> bool:
    """Return whether a key signs a line as the first one of its run."""
    _, _, signed = line.rstrip(b"\n").partition(b" ")
    mac, _, body = signed.partition(b" ")
    expected = hmac.new(key, b"0 " + body, hashlib.sha256).hexdigest().encode()
    return hmac.compare_digest(mac, expected)


@cache
def _driver() -> str:
    return Path(__file__).with_name("forked_runs.py").read_text(encoding="utf-8")
