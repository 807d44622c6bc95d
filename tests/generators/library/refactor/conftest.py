"""A small package with re-exports and typed code, and the parts of its Snapshot that a proposal needs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from helpers.small_tasks import write_project

from etude.generators import GENERATORS
from etude.generators.knob_parsing import parse_knobs

PROJECT = '[project]\nname = "ledger"\nversion = "1.0"\nlicense = "MIT"\n'
FILES = {
    "pyproject.toml": PROJECT + '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    "src/ledger/__init__.py": 'from .books import Account, read_rows\n\n__all__ = ["Account", "read_rows"]\n',
    "src/ledger/books.py": '''\
"""Accounts and their rows."""

import re

SEPARATOR = re.compile(r"[;,]")


def read_rows(text):
    """Return the rows of a text, as in ``read_rows("a;1")``."""
    return [SEPARATOR.split(line) for line in text.splitlines()]


class Account:
    """An account with a balance."""

    def __init__(self, balance=0):
        self.balance = balance

    def deposit_amount(self, amount):
        """Add an amount."""
        self.balance += amount
        return self.balance


def opened(text):
    account = Account()
    for row in read_rows(text):
        account.deposit_amount(int(row[1]))
    return account
''',
    "src/ledger/reports.py": '''\
"""Reports on accounts."""

from .books import read_rows


def widths(text):
    """Return the number of columns of each row."""
    return [len(row) for row in read_rows(text)]
''',
    "tests/test_books.py": """\
from ledger import Account, read_rows
from ledger.books import opened


def test_rows():
    assert read_rows("a;1") == [["a", "1"]]


def test_account():
    account = Account(2)
    assert account.deposit_amount(3) == 5


def test_opened():
    assert opened("a;1").balance == 1


def test_nothing():
    assert True
""",
    "tests/test_reports.py": """\
from ledger.reports import widths


def test_widths():
    assert widths("a;1") == [2]


def test_no_widths():
    assert widths("") == []
""",
}
ROWS, ACCOUNT, OPENED, NOTHING = (f"tests/test_books.py::test_{n}" for n in ("rows", "account", "opened", "nothing"))
WIDTHS = ["tests/test_reports.py::test_widths", "tests/test_reports.py::test_no_widths"]
BOOKS, REPORTS = "src/ledger/books.py", "src/ledger/reports.py"
TESTS_OF = {
    f"{BOOKS}::read_rows": [ROWS, OPENED, *WIDTHS],
    f"{BOOKS}::Account.__init__": [ACCOUNT, OPENED],
    f"{BOOKS}::Account.deposit_amount": [ACCOUNT, OPENED],
    f"{BOOKS}::opened": [OPENED],
    f"{REPORTS}::widths": WIDTHS,
}


@pytest.fixture
def ledger(tmp_path):
    """Return the parts of the Snapshot of the package ``ledger``."""
    baseline = SimpleNamespace(passed=[ROWS, ACCOUNT, OPENED, NOTHING, *WIDTHS], at_import=[], tests_of=TESTS_OF)
    return SimpleNamespace(
        tree=write_project(tmp_path, FILES),
        source_roots=["src/ledger"],
        source_globs=["src/ledger/**"],
        verifier=SimpleNamespace(python_path=["src"]),
        baseline=baseline,
    )


@pytest.fixture
def proposals(ledger):
    """Return ``proposals(generator, seed, knob=value)``, which gives every candidate."""

    def propose(generator, seed=0, **knobs):
        maker = GENERATORS.load(generator)()
        return list(maker.candidates(ledger, seed, parse_knobs(maker.knobs, {"max_share": 0.9, **knobs})))

    return propose


@pytest.fixture
def project(tmp_path_factory):
    """Return a folder with the package ``ledger``."""
    return write_project(tmp_path_factory.mktemp("ledger"), FILES)
