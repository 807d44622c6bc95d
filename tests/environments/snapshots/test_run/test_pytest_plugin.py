"""The harness, in a real sandbox: what it reports of pytest, and what the workspace cannot do to it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from etude.environments.sandbox import open_sandbox
from etude.environments.snapshots import Snapshot, TestRun, make_workspace, run_tests
from etude.environments.snapshots.test_run import pytest_plugin as harness

SUITE = """import os
import subprocess
import sys
import unittest

import pytest

from tally import total


@pytest.mark.parametrize("value", [1, "a b/c::d"])
def test_passes(value): assert total([1, 2]) == 3
def test_fails(): assert total([1]) == 2
def test_fails_in_the_package(): total(None)
def test_skips(): pytest.skip("later")
@pytest.mark.xfail
def test_xfails(): assert 0
@pytest.mark.xfail
def test_xpasses(): pass
@pytest.fixture
def broken():
    yield
    raise RuntimeError("afterwards")
def test_breaks_afterwards(broken): pass
@pytest.fixture
def missing(): raise LookupError("before")
def test_breaks_before(missing): pass
class TestCase(unittest.TestCase):
    def test_subtests(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)
    def test_unittest_skip(self): raise unittest.SkipTest("later")
def test_children_import_the_workspace():
    subprocess.run([sys.executable, "-c", "import tally"], check=True)
def test_a_forked_child_reports_nothing():
    child = os.fork()
    if not child:
        pytest.exit("child", returncode=0)
    os.waitpid(child, 0)
def test_environment():
    assert os.read(0, 1) == b""
    assert "ETUDE_CHANNEL" not in os.environ
    assert "send" not in vars(sys.modules["__main__"])
def test_exit_is_a_failure(): exit(0)
"""


def run(
    snapshot: Snapshot,
    files: Mapping[str, str],
    tests: Sequence[str] | None = None,
    verifier: Mapping[str, Any] | None = None,
    **options: Any,
) -> TestRun:
    async def go() -> TestRun:
        sandbox = await open_sandbox(snapshot.layers(make_workspace(snapshot, git=False).path))
        try:
            for path, text in files.items():
                await sandbox.write(f"/workspace/{path}", text.encode())
            return await run_tests(sandbox, snapshot.verifier.model_copy(update=verifier or {}), tests, **options)
        finally:
            await sandbox.close()

    return asyncio.run(go())


def test_every_outcome_is_reported_once_with_its_reason(snapshot: Snapshot) -> None:
    result = run(snapshot, {"tests/test_new.py": SUITE}, verifier={"args": ["tests/test_new.py"]})
    assert (result.complete, result.cause, result.violations) == (True, "", [])
    seen = {test.partition("::")[2]: outcome for test, outcome in result.outcomes.items()}
    assert {test: outcome.outcome for test, outcome in seen.items()} == {
        "test_passes[1]": "passed",
        "test_passes[a b/c::d]": "passed",
        "test_fails": "failed",
        "test_fails_in_the_package": "failed",
        "test_skips": "skipped",
        "test_xfails": "xfailed",
        "test_xpasses": "xpassed",
        "test_breaks_afterwards": "error",
        "test_breaks_before": "error",
        "TestCase::test_subtests": "failed",
        "TestCase::test_unittest_skip": "skipped",
        "test_children_import_the_workspace": "passed",
        "test_a_forked_child_reports_nothing": "passed",
        "test_environment": "passed",
        "test_exit_is_a_failure": "failed",
    }
    assert seen["test_fails"].exception == "AssertionError"
    assert seen["test_fails"].where.startswith("tests/test_new.py:")
    assert seen["test_fails_in_the_package"].where.startswith("src/tally/core.py:")
    assert (seen["test_breaks_afterwards"].when, seen["test_breaks_before"].when) == ("teardown", "setup")
    assert seen["test_breaks_before"].message == "before"


def test_the_package_is_the_one_in_the_workspace(snapshot: Snapshot) -> None:
    assert run(snapshot, {}).modules["tally"] == "/workspace/src/tally/__init__.py"


def test_only_the_tests_asked_for_run_and_missing_ones_are_not_invented(snapshot: Snapshot) -> None:
    wanted = ["tests/test_hidden.py::test_total", "tests/test_hidden.py::test_gone", "tests/test_none.py::test_x"]
    result = run(snapshot, {"tests/test_visible.py": "raise SystemExit"}, wanted)
    assert result.complete
    assert result.passed == ["tests/test_hidden.py::test_total"]
    assert result.collect_errors == {"tests/test_none.py": "no such file in the workspace"}


def test_the_order_can_be_reversed(snapshot: Snapshot) -> None:
    assert run(snapshot, {}, order="reversed").order == run(snapshot, {}).order[::-1]


def test_the_hash_seed_is_the_one_asked_for(snapshot: Snapshot) -> None:
    suite = (
        "import os, sys\ndef test(): assert (sys.flags.hash_randomization, os.environ['PYTHONHASHSEED']) == (1, '7')\n"
    )
    assert run(snapshot, {"tests/test_new.py": suite}, ["tests/test_new.py::test"], hash_seed=7).passed


def test_coverage_says_which_test_ran_which_line(snapshot: Snapshot) -> None:
    result = run(snapshot, {}, coverage=["src"])
    assert result.complete
    of_total = result.contexts["tests/test_hidden.py::test_total_of_nothing"]["src/tally/core.py"]
    of_largest = result.contexts["tests/test_visible.py::test_largest_of_nothing"]["src/tally/core.py"]
    assert set(of_total).isdisjoint(of_largest)
    assert "src/tally/core.py" in result.contexts[""]


def test_a_file_that_cannot_be_imported_does_not_stop_the_others(snapshot: Snapshot) -> None:
    result = run(snapshot, {"tests/test_visible.py": "import nonsuch\n"})
    assert result.complete
    assert "No module named 'nonsuch'" in result.collect_errors["tests/test_visible.py"]
    assert "tests/test_hidden.py::test_total" in result.passed


def test_an_option_that_pytest_refuses_is_a_cause(snapshot: Snapshot) -> None:
    result = run(snapshot, {}, verifier={"options": ["addopts=--nonsuch"]})
    assert not result.complete
    assert "usage error" in result.cause and "--nonsuch" in result.cause


def test_a_hanging_test_is_named(snapshot: Snapshot) -> None:
    suite = "import time\ndef test_hangs(): time.sleep(1000)\n"
    result = run(snapshot, {"tests/test_new.py": suite}, ["tests/test_new.py::test_hangs"], timeout_s=2.0)
    assert (result.complete, result.timed_out) == (False, True)
    assert result.cause == "timeout after 0 of 1 tests during tests/test_new.py::test_hangs"


@pytest.mark.parametrize("folder", ["", "src/"])
def test_the_workspace_cannot_stand_in_for_what_the_harness_needs(snapshot: Snapshot, folder: str) -> None:
    names = [
        "__future__",
        "json",
        "hmac",
        "random",
        "encodings/__init__",
        "site",
        "sitecustomize",
        "_pytest/__init__",
        "pytest",
    ]
    planted = {f"{folder}{name}.py": "import os\nos._exit(0)\n" for name in names}
    result = run(
        snapshot, {**planted, "pytest.ini": "[pytest]\naddopts = --nonsuch\n"}, ["tests/test_hidden.py::test_total"]
    )
    assert result.passed == ["tests/test_hidden.py::test_total"], result.cause


def test_the_standard_library_is_known_before_python_310(monkeypatch: pytest.MonkeyPatch) -> None:
    told = sys.stdlib_module_names
    monkeypatch.delattr(sys, "stdlib_module_names")
    found = harness.standard_library()
    assert {"sys", "random", "json", "encodings", "_socket"} <= found & told
    assert "pytest" not in found


def test_a_package_that_pytest_itself_uses_is_tested_from_the_workspace(snapshot: Snapshot) -> None:
    files = {
        "src/iniconfig/__init__.py": "HERE = True\n",
        "tests/test_new.py": "import iniconfig\ndef test(): iniconfig.HERE\n",
    }
    result = run(snapshot, files, ["tests/test_new.py::test"])
    assert result.passed == ["tests/test_new.py::test"]
    assert result.modules["iniconfig"] == "/workspace/src/iniconfig/__init__.py"
