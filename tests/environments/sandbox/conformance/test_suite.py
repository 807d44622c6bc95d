"""Every backend, with and without root, against the one suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from etude.environments.sandbox import available
from etude.environments.sandbox.conformance.escapes.run import ESCAPES, GAPS
from etude.environments.sandbox.conformance.ordinary_user import OrdinaryUser
from etude.environments.sandbox.conformance.suite import CHECKS, NEEDS

ROOT = os.geteuid() == 0
PROCESS_GAPS = set("process-list mount-view shared-memory loopback disk-quota file-metadata machine-facts".split())
# What a backend may be excused from, so that no guarantee is lost unseen.
EXCUSED: dict[str, set[str]] = {
    "bubblewrap": set(),
    "bubblewrap-rootless": {"memory-total"},
    "docker": set(),
    "podman": {"disk-quota", "machine-facts", "bind-paths"},
    "process": PROCESS_GAPS,
    "process-rootless": PROCESS_GAPS | {"process-quota", "memory-total"},
}
MODES = list(EXCUSED) if ROOT else ["bubblewrap-rootless", "process-rootless", "docker", "podman"]

ENGINES = ("docker", "podman")
SLOW_MODES = ("podman", "process-rootless")
"""Modes whose backend is checked in another mode, or by another engine, as well."""


AT_ONCE = 2
"""Runs of the suite at the same time: they wait more than they work."""


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[dict[str, str]]]]:
    """Run the suite once in each mode and give the verdicts."""
    chosen = [item.callspec.params.get("mode") for item in request.session.items if hasattr(item, "callspec")]
    modes = [mode for mode in MODES if mode in chosen and not (mode in ENGINES and available()[mode])]
    user = request.getfixturevalue("ordinary_user") if any(mode.endswith("-rootless") for mode in modes) else None
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {mode: pool.submit(_run, mode, user) for mode in modes}


def _run(mode: str, user: OrdinaryUser | None) -> dict[str, str]:
    arguments = ["-m", "etude.environments.sandbox.conformance.suite", mode.removesuffix("-rootless")]
    if mode.endswith("-rootless"):
        assert user is not None
        done = user.run(arguments)
    else:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=500, check=False)
    assert done.stdout, done.stderr
    verdicts: dict[str, str] = json.loads(done.stdout)
    return verdicts


@pytest.mark.parametrize("check", [*CHECKS, *ESCAPES])
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[pytest.mark.slow] * (mode in SLOW_MODES)) for mode in MODES]
)
def test_conforms(mode: str, check: str, results: dict[str, Future[dict[str, str]]]) -> None:
    if mode in ENGINES and (why_not := available()[mode]):
        # Where CI=true, setup.sh has started both.
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{mode}: {why_not}")
    verdict = results[mode].result()[check]
    guarantee = {**NEEDS, **GAPS}.get(check)
    if guarantee in EXCUSED[mode]:
        assert verdict in ("ok", f"excused: {guarantee}")
    else:
        assert verdict == "ok"


def test_the_suite_is_as_large_as_promised() -> None:
    assert len(CHECKS) >= 70 and len(ESCAPES) >= 110 and len(EXCUSED) == 6
    assert max(map(len, EXCUSED.values())) <= 9
