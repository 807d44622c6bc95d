"""The pytest plugin in a real sandbox: what it reports, and what the workspace cannot change."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from helpers.sandboxes import in_sandbox

from etude.environments.sandbox import Sandbox
from etude.environments.snapshots import Snapshot, TestRun, make_workspace, run_tests
from etude.environments.snapshots.test_run import plugin_imports

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
    async def go(sandbox: Sandbox) -> TestRun:
        for path, text in files.items():
            await sandbox.write(f"/workspace/{path}", text.encode())
        return await run_tests(sandbox, snapshot.verifier.model_copy(update=verifier or {}), tests, **options)

    return in_sandbox(snapshot.layers(make_workspace(snapshot, git=False).path), go)


def test_run_reports_each_outcome_once_with_its_reason(snapshot: Snapshot) -> None:
    result = run(snapshot, {"tests/test_new.py": SUITE}, verifier={"args": ["tests/test_new.py"]})
    assert (result.complete, result.cause, result.violations) == (True, "", [])
    outcomes = {test.partition("::")[2]: outcome for test, outcome in result.outcomes.items()}
    assert {test: outcome.outcome for test, outcome in outcomes.items()} == {
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
    assert outcomes["test_fails"].exception == "AssertionError"
    assert outcomes["test_fails"].where.startswith("tests/test_new.py:")
    assert outcomes["test_fails_in_the_package"].where.startswith("src/tally/core.py:")
    assert (outcomes["test_breaks_afterwards"].when, outcomes["test_breaks_before"].when) == ("teardown", "setup")
    assert outcomes["test_breaks_before"].message == "before"


def test_run_imports_the_package_from_the_workspace(snapshot: Snapshot) -> None:
    assert run(snapshot, {}).modules["tally"] == "/workspace/src/tally/__init__.py"


def test_run_selects_the_requested_tests_and_reports_missing_files(snapshot: Snapshot) -> None:
    requested = ["tests/test_hidden.py::test_total", "tests/test_hidden.py::test_gone", "tests/test_none.py::test_x"]
    result = run(snapshot, {"tests/test_visible.py": "raise SystemExit"}, requested)
    assert result.complete
    assert result.passed == ["tests/test_hidden.py::test_total"]
    assert result.collect_errors == {"tests/test_none.py": "no such file in the workspace"}


def test_run_can_reverse_the_order(snapshot: Snapshot) -> None:
    assert run(snapshot, {}, order="reversed").order == run(snapshot, {}).order[::-1]


def test_run_sets_the_hash_seed(snapshot: Snapshot) -> None:
    suite = (
        "import os, sys\ndef test(): assert (sys.flags.hash_randomization, os.environ['PYTHONHASHSEED']) == (1, '7')\n"
    )
    assert run(snapshot, {"tests/test_new.py": suite}, ["tests/test_new.py::test"], hash_seed=7).passed


def test_run_reports_the_lines_that_each_test_ran(snapshot: Snapshot) -> None:
    result = run(snapshot, {}, coverage=["src"])
    assert result.complete
    of_total = result.contexts["tests/test_hidden.py::test_total_of_nothing"]["src/tally/core.py"]
    of_largest = result.contexts["tests/test_visible.py::test_largest_of_nothing"]["src/tally/core.py"]
    assert set(of_total).isdisjoint(of_largest)
    assert "src/tally/core.py" in result.contexts[""]


def test_run_continues_when_a_file_cannot_be_imported(snapshot: Snapshot) -> None:
    result = run(snapshot, {"tests/test_visible.py": "import nonsuch\n"})
    assert result.complete
    assert "No module named 'nonsuch'" in result.collect_errors["tests/test_visible.py"]
    assert "tests/test_hidden.py::test_total" in result.passed


def test_run_gives_the_cause_when_pytest_refuses_an_option(snapshot: Snapshot) -> None:
    result = run(snapshot, {}, verifier={"options": ["addopts=--nonsuch"]})
    assert not result.complete
    assert "usage error" in result.cause and "--nonsuch" in result.cause


def test_run_names_the_running_test_when_it_is_idle(snapshot: Snapshot) -> None:
    suite = "import time\ndef test_hangs(): time.sleep(1000)\n"
    result = run(snapshot, {"tests/test_new.py": suite}, ["tests/test_new.py::test_hangs"], timeout_s=2.0)
    assert (result.complete, result.timed_out) == (False, True)
    assert result.cause == "timeout after 0 of 1 tests during tests/test_new.py::test_hangs"
    assert result.running == "tests/test_new.py::test_hangs"


def test_run_ends_when_it_has_used_its_cpu_time(snapshot: Snapshot) -> None:
    suite = "def test_loops():\n    while True: pass\n"
    result = run(snapshot, {"tests/test_new.py": suite}, ["tests/test_new.py::test_loops"], timeout_s=1.0)
    assert (result.complete, result.timed_out) == (False, True)
    assert result.cpu_seconds >= 1.0


def test_run_does_not_end_when_it_waits_longer_than_its_cpu_time(snapshot: Snapshot) -> None:
    suite = "import time\ndef test_waits():\n    time.sleep(3)\n"
    result = run(snapshot, {"tests/test_new.py": suite}, ["tests/test_new.py::test_waits"], timeout_s=2.0, idle_s=30.0)
    assert result.passed == ["tests/test_new.py::test_waits"]
    assert result.cpu_seconds < 2.0 < result.seconds


def test_run_ends_when_one_test_exceeds_the_limit_of_a_test(snapshot: Snapshot) -> None:
    suite = "def test_ok(): pass\ndef test_loops():\n    while True: pass\n"
    ids = ["tests/test_new.py::test_ok", "tests/test_new.py::test_loops"]
    result = run(snapshot, {"tests/test_new.py": suite}, ids, test_cpu_s=0.5)
    assert (result.complete, result.timed_out, result.test_limit) == (False, False, True)
    assert (result.passed, result.running) == (ids[:1], ids[1])


@pytest.mark.parametrize("folder", ["", "src/"])
def test_workspace_cannot_replace_modules_that_the_plugin_needs(snapshot: Snapshot, folder: str) -> None:
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


def test_standard_library_is_complete_before_python_310(monkeypatch: pytest.MonkeyPatch) -> None:
    documented = sys.stdlib_module_names
    monkeypatch.delattr(sys, "stdlib_module_names")
    names = plugin_imports.standard_library()
    assert {"sys", "random", "json", "encodings", "_socket"} <= names & documented
    assert "pytest" not in names


def test_run_imports_a_package_that_pytest_uses_from_the_workspace(snapshot: Snapshot) -> None:
    files = {
        "src/iniconfig/__init__.py": "HERE = True\n",
        "tests/test_new.py": "import iniconfig\ndef test(): iniconfig.HERE\n",
    }
    result = run(snapshot, files, ["tests/test_new.py::test"])
    assert result.passed == ["tests/test_new.py::test"]
    assert result.modules["iniconfig"] == "/workspace/src/iniconfig/__init__.py"


WITHOUT_ASSERTS = """
import ast, sys

class Without(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.copy_location(ast.Pass(), node)

PARSE = ast.parse

def parse(source, filename="<unknown>", *rest, **options):
    tree = PARSE(source, filename, *rest, **options)
    if "test_new" in str(filename):
        tree = Without().visit(tree)
        RESTORE
    return tree

ast.parse = parse
"""


@pytest.mark.parametrize("restore", ["pass", "ast.parse = PARSE"])
def test_code_that_parses_tests_without_their_asserts_is_a_violation(snapshot: Snapshot, restore: str) -> None:
    files = {
        "src/sample/forged.py": WITHOUT_ASSERTS.replace("RESTORE", restore),
        "tests/test_first.py": "import sample.forged\ndef test(): pass\n",
        "tests/test_new.py": "import sample.forged\ndef test(): assert False\n",
    }
    result = run(snapshot, files, ["tests/test_first.py::test", "tests/test_new.py::test"])
    assert "tests/test_new.py::test" in result.passed
    assert result.violations == ["ast.parse changed during tests/test_new.py"]


@pytest.mark.parametrize(
    ("code", "violation"),
    [
        (
            "import _pytest.runner as r\nr.CallInfo.excinfo = property(lambda s: None, lambda s, v: None)",
            "CallInfo.excinfo",
        ),
        ("import _pytest.runner as r\nr.CallInfo.__setattr__ = lambda s, n, v: None", "CallInfo.__setattr__"),
        ("import typing\ntyping.Generic.__setattr__ = lambda s, n, v: None", "CallInfo.__setattr__"),
        ("import unittest\nunittest.TestCase.__getattribute__ = lambda s, n: print", "TestCase.__getattribute__"),
        ("import _pytest._code as c\nc.ExceptionInfo.__bool__ = lambda s: False", "ExceptionInfo.__bool__"),
        ("import _pytest.reports as r\nr.TestReport.outcome = property(lambda s: 'passed')", "TestReport.outcome"),
    ],
)
def test_a_new_attribute_of_a_class_of_pytest_is_a_violation(snapshot: Snapshot, code: str, violation: str) -> None:
    files = {"src/sample/forged.py": code + "\n", "tests/test_new.py": "import sample.forged\ndef test(): pass\n"}
    result = run(snapshot, files, ["tests/test_new.py::test"])
    assert [name.partition(" changed")[0].endswith(violation) for name in result.violations] == [True]


def test_a_new_method_for_assertions_is_none(snapshot: Snapshot) -> None:
    code = "import unittest\nunittest.TestCase.assertEven = lambda self, number: self.assertEqual(number % 2, 0)\n"
    test = (
        "import unittest\nimport sample.more\nclass EvenTest(unittest.TestCase):\n def test(self): self.assertEven(2)\n"
    )
    result = run(
        snapshot, {"src/sample/more.py": code, "tests/test_new.py": test}, ["tests/test_new.py::EvenTest::test"]
    )
    assert (result.passed, result.violations) == (["tests/test_new.py::EvenTest::test"], [])


def test_a_copy_of_an_object_of_pytest_is_no_violation(snapshot: Snapshot) -> None:
    conftest = "import copy\n\ndef pytest_generate_tests(metafunc): copy.copy(metafunc)\n"
    files = {"conftest.py": conftest, "tests/test_new.py": "def test(): pass\n"}
    result = run(snapshot, files, ["tests/test_new.py::test"])
    assert (result.passed, result.violations) == (["tests/test_new.py::test"], [])


def test_a_plugin_that_the_projects_conftest_names_is_the_projects_own(snapshot: Snapshot) -> None:
    files = {
        "conftest.py": "pytest_plugins = ['sample.fixtures']\n",
        "src/sample/fixtures.py": "import pytest\n\n@pytest.fixture\ndef seven(): return 7\n",
        "tests/test_new.py": "def test(seven): assert seven == 7\n",
    }
    result = run(snapshot, files, ["tests/test_new.py::test"])
    assert (result.passed, result.violations) == (["tests/test_new.py::test"], [])
    registering = "import sample.fixtures\ndef test(request): request.config.pluginmanager.register(sample.fixtures)\n"
    other = run(snapshot, {**files, "conftest.py": "", "tests/test_new.py": registering}, ["tests/test_new.py::test"])
    assert other.violations == ["pytest's plugins (by fixtures.py) changed during the run"]


@pytest.mark.parametrize("tracebacks", [False, True])
def test_tracebacks_are_made_when_asked_for_and_the_outcome_is_the_same(snapshot: Snapshot, tracebacks: bool) -> None:
    files = {"tests/test_lines.py": "def test_fails():\n    wanted = 3\n    assert wanted == 4, 'not so'\n"}
    result = run(snapshot, files, ["tests/test_lines.py::test_fails"], tracebacks=tracebacks)
    (outcome,) = result.outcomes.values()
    assert (outcome.outcome, outcome.exception, outcome.where) == ("failed", "AssertionError", "tests/test_lines.py:3")
    assert "not so" in outcome.message and (b"    assert wanted == 4" in result.output) is tracebacks
