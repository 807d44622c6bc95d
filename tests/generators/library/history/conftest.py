"""A small git repository with several kinds of commits, and the parts of a Snapshot that a proposal needs."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest

from etude.environments.snapshots.source.history import remember
from etude.generators import GENERATORS
from etude.generators.knob_parsing import parse_knobs

DIGEST = "d" * 64
PYPROJECT = """\
[project]
name = "till"
version = "1.0"
license = "MIT"

[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
"""
MONEY = '''\
"""Amounts of money in cents."""


def total(amounts):
    """Return the sum of the amounts."""
    return sum(amounts)


def change(price, paid):
    """Return what a customer gets back."""
    return paid - price
'''
TEST_MONEY = """\
from till.money import change, total


def test_total():
    assert total([1, 2]) == 3


def test_change():
    assert change(3, 5) == 2


def test_nothing_to_pay():
    assert total([]) == 0


def test_exact_payment():
    assert change(4, 4) == 0
"""


class History:
    """A git repository that grows commit by commit, at fixed dates; the author's name is Ada Lovelace."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.day = 0
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments):
        """Run git in the work tree and return what it prints."""
        date = f"2024-01-{self.day + 1:02}T12:00:00Z"
        people = {"GIT_AUTHOR_NAME": "Ada Lovelace", "GIT_AUTHOR_EMAIL": "ada@example.invalid", "GIT_AUTHOR_DATE": date}
        people |= {key.replace("AUTHOR", "COMMITTER"): value for key, value in people.items()}
        settings = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={**os.environ, **people, **settings},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def read(self, path):
        return (self.folder / path).read_text()

    def commit(self, message, files):
        """Write the files and commit them on the next day; return the commit's id."""
        for path, text in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)
        self.git("add", "--all")
        self.day += 1
        self.git("commit", "--quiet", "--no-verify", "-m", message)
        return self.git("rev-parse", "HEAD")

    def edit(self, message, *, code=("", ""), test="", imported=""):
        """Commit one replacement in the module, and a test at the end of its test file; return the commit's id."""
        tests = self.read("tests/test_money.py").replace("import change", f"import {imported}change") + test
        return self.commit(
            message, {"till/money.py": self.read("till/money.py").replace(*code), "tests/test_money.py": tests}
        )


@pytest.fixture
def history(tmp_path):
    """Return a repository whose package ``till`` has one commit."""
    repository = History(tmp_path / "till")
    files = {"till/__init__.py": "", "till/money.py": MONEY, "tests/test_money.py": TEST_MONEY}
    repository.commit("Initial commit", {**files, "pyproject.toml": PYPROJECT})
    return repository


@pytest.fixture
def propose(tmp_path):
    """Return ``propose(history, generator, tests, knob=value)``, which gives the candidates by the message's title."""

    def proposals(history, generator="history_revert", passed=None, noted=True, **knobs):
        spec = f"git+local:till@{history.git('rev-parse', 'HEAD')}"
        if noted:
            remember(tmp_path / "cache", DIGEST, f"git+file://{history.folder}@main")
        tests = [
            f"tests/{path.name}::{line[4:].partition('(')[0]}"
            for path in sorted(history.folder.glob("tests/*.py"))
            for line in path.read_text().splitlines()
            if line.startswith("def test_")
        ]
        snapshot = SimpleNamespace(
            tree=history.folder,
            digest=DIGEST,
            cache=tmp_path / "cache",
            recipe=SimpleNamespace(source=SimpleNamespace(spec=spec)),
            source_roots=["till"],
            verifier=SimpleNamespace(python_path=["."]),
            baseline=SimpleNamespace(passed=tests if passed is None else passed),
        )
        maker = GENERATORS.load(generator)()
        return list(maker.candidates(snapshot, 0, parse_knobs(maker.knobs, {"min_lines": 1, **knobs})))

    return proposals
