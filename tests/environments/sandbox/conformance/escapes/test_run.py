"""The escape suite itself: an attempt proves something because it works where there is no sandbox.

``tests/environments/sandbox/conformance/test_suite.py`` makes the same attempts on every backend.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from etude.environments.sandbox.conformance.escapes.host import prepared_host
from etude.environments.sandbox.conformance.escapes.inside.processes import walks_through_the_folder_of_another
from etude.environments.sandbox.conformance.escapes.run import (
    ESCAPES,
    GAPS,
    MACHINE_DEPENDENT,
    OUTSIDE,
    run_natively,
)


@pytest.fixture(scope="module")
def native() -> dict[str, str]:
    """Make each attempt in a plain subprocess."""
    return asyncio.run(run_natively())


@pytest.mark.skipif(os.geteuid() != 0, reason="a plain subprocess of an ordinary user has few rights to lose")
@pytest.mark.parametrize("name", [name for name in ESCAPES if name not in MACHINE_DEPENDENT])
def test_an_attempt_works_without_a_sandbox(name: str, native: dict[str, str]) -> None:
    assert native[name].startswith("works: ")


def test_a_secret_is_found_when_other_processes_are_in_folders_with_a_file_of_that_name(tmp_path: Path) -> None:
    waiting = []
    for text in ("one", "two"):
        (tmp_path / text).mkdir()
        (tmp_path / text / "secret").write_text(text)
        waiting.append(subprocess.Popen(["sleep", "60"], cwd=tmp_path / text))
    try:
        found = walks_through_the_folder_of_another({"secret": str(tmp_path / "one" / "secret")})
    finally:
        for process in waiting:
            process.kill()
            process.wait()
    assert isinstance(found, bytes) and b"one" in found and b"two" in found


def test_no_attempt_breaks_by_itself(native: dict[str, str]) -> None:
    assert [name for name, verdict in native.items() if "broke" in verdict] == []
    assert set(native) == set(ESCAPES)


def test_the_suite_is_as_large_as_promised(native: dict[str, str]) -> None:
    assert len(ESCAPES) >= 110 and len(OUTSIDE) >= 15 and len(MACHINE_DEPENDENT) <= 21
    if os.geteuid() == 0:
        assert sum(verdict.startswith("works") for verdict in native.values()) >= 90


def test_every_exception_names_an_attempt() -> None:
    assert set(GAPS) | MACHINE_DEPENDENT <= set(ESCAPES)


def test_nothing_of_the_host_prepared_for_the_attempts_is_left(native: dict[str, str]) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with tempfile.TemporaryDirectory() as folder:
        with prepared_host(Path(folder)) as host:
            pid = host.target["pid"]
            assert Path(f"/proc/{pid}").exists()
        assert not Path(f"/proc/{pid}").exists()
    assert set(os.listdir("/proc/self/fd")) == before
    assert not {"ETUDE_SECRET", "ETUDE_TEST_CANARY"} & os.environ.keys()
