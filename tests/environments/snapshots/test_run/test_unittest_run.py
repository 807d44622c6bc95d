"""Runs of a project's own unittest program: what it proves, and what the code under test can do to it."""

from __future__ import annotations

import pytest
from helpers.row_repository import git, write
from helpers.sandboxes import in_sandbox

from etude.environments.snapshots import Snapshot, TestRun, run_tests
from etude.environments.snapshots.builder.specification import Specification
from etude.environments.snapshots.builder.specified import build_commit

PROGRAM = """
import argparse, importlib, sys, unittest

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--verbosity", type=int, default=1)
    parser.add_argument("--reverse", action="store_true")
    parser.add_argument("labels", nargs="*")
    options = parser.parse_args()
    suite = unittest.defaultTestLoader.loadTestsFromNames(options.labels)
    def cases(item):
        return [case for part in item for case in cases(part)] if isinstance(item, unittest.TestSuite) else [item]
    if options.reverse:
        suite = unittest.TestSuite(reversed(cases(suite)))
    sys.exit(not unittest.TextTestRunner(verbosity=options.verbosity).run(suite).wasSuccessful())
"""
TESTS = '''
import unittest
import thing


class Adding(unittest.TestCase):
    def test_right(self):
        """One and one are two."""
        self.assertEqual(thing.add(1, 1), 2)

    def test_wrong(self):
        self.assertEqual(thing.add(1, 1), 3)

    def test_error(self):
        raise KeyError("gone")

    @unittest.skip("later")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)


class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("no database")

    def test_never(self):
        pass
'''
FORGING = """
import unittest


class Forging(unittest.TestCase):
    def test_forged(self):
        unittest.TestResult.addFailure = unittest.TestResult.addSuccess
        self.fail()
"""
FILES = {
    "setup.py": "from setuptools import setup\nsetup(name='thing', version='1', py_modules=['thing'])\n",
    "thing.py": "def add(a, b):\n    return a + b\n",
    "tests/run.py": PROGRAM,
    "tests/adding.py": TESTS,
    "tests/forging.py": FORGING,
    "tests/leaving.py": "import os\nos._exit(0)\n",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "init", "--quiet")
    write(clone, FILES)
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "all")
    commit = git(clone, "rev-parse", "HEAD").strip()
    stated = Specification(
        repo="a/thing", version="1", python="3.11", program="tests/run.py", arguments=("--verbosity=0",)
    )
    return build_commit(stated, clone, commit, commit)[0]


def run(snapshot: Snapshot, *labels: str, tests: list[str] | None = None, order: str = "given") -> TestRun:
    verifier = snapshot.verifier.model_copy(update={"args": list(labels)})

    layers = snapshot.layers(snapshot.tree)
    return in_sandbox(layers, lambda sandbox: run_tests(sandbox, verifier, tests, order=order))  # type: ignore[arg-type]


def test_every_outcome_of_unittest_is_reported(built: Snapshot) -> None:
    result = run(built, "adding")
    assert result.complete and not result.violations
    assert {test.rpartition(".")[2]: outcome.outcome for test, outcome in result.outcomes.items()} == {
        "test_right": "passed",
        "test_wrong": "failed",
        "test_error": "error",
        "test_skipped": "skipped",
        "test_expected": "xfailed",
        "test_parts": "failed",
    }
    wrong = result.outcomes["adding.Adding.test_wrong"]
    assert (wrong.exception, wrong.message, wrong.where) == ("AssertionError", "2 != 3", "tests/adding.py:12")
    assert result.descriptions == {"adding.Adding.test_right": "One and one are two."}
    assert "RuntimeError: no database" in str(result.collect_errors)


def test_the_order_can_be_reversed_and_requested_tests_name_their_modules(built: Snapshot) -> None:
    forward = run(built, tests=["adding.Adding.test_right"])
    assert "adding.Adding.test_wrong" in forward.outcomes
    assert run(built, "adding", order="reversed").order != forward.order


def test_a_program_that_ends_before_any_test_proves_nothing(built: Snapshot) -> None:
    result = run(built, "leaving")
    assert not result.complete and result.cause.startswith("ended early: exit 0")
    unknown = run(built, "no_such_module")
    assert not unknown.passed


def test_code_that_replaces_the_result_is_a_violation(built: Snapshot) -> None:
    result = run(built, "forging")
    assert result.violations == ["unittest.TestResult.addFailure changed"]
