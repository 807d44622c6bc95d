"""The generator ``rename_api``: another name everywhere, an alias that warns, and tests that hold both apart."""

from __future__ import annotations

import random

import pytest
from helpers.light_checks import LIGHT

from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.library.refactor.vocabulary import new_name
from etude.generators.python.source import compile_error
from etude.models import Task

CONTEXT = StatementContext(package="ledger 1.0", failing=[], interface=[])


def named(candidates, name):
    return next(item for item in candidates if item.entity.endswith(f"::{name}"))


def test_public_names_that_tests_use_are_proposed(proposals):
    names = {item.entity.rpartition("::")[2] for item in proposals("rename_api")}
    assert names == {"read_rows", "Account", "Account.deposit_amount", "opened", "widths"}
    assert {item.entity for item in proposals("rename_api", kind="class")} == {"src/ledger/books.py::Account"}


def test_the_order_depends_on_the_seed_alone(proposals):
    orders = [[(item.entity, item.subject) for item in proposals("rename_api", seed)] for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1] and len({tuple(name for name, _ in order) for order in orders}) > 1


def test_a_function_has_its_new_name_in_every_file_and_a_warning_alias(proposals):
    candidate = named(proposals("rename_api"), "read_rows")
    new, solution = candidate.subject, {path: text.decode() for path, text in candidate.solution.items()}
    assert new in ("load_rows", "parse_rows") and not candidate.exercise
    assert (
        f"def {new}(text):" in solution["src/ledger/books.py"] and f"in {new}(text):" in solution["src/ledger/books.py"]
    )
    assert f'as in ``{new}("a;1")``' in solution["src/ledger/books.py"]
    assert "import warnings\n" in solution["src/ledger/books.py"]
    assert solution["src/ledger/__init__.py"] == (
        f'from .books import Account, {new}, read_rows\n\n__all__ = ["Account", "{new}", "read_rows"]\n'
    )
    assert f"from .books import {new}\n" in solution["src/ledger/reports.py"]
    assert "read_rows" not in solution["src/ledger/reports.py"]


def test_tests_keep_their_imports_so_that_only_users_of_the_name_fail(proposals):
    candidate = named(proposals("rename_api"), "read_rows")
    text = candidate.hidden_tests.added["tests/test_books.py"].decode()
    assert "from ledger import Account\nimport ledger as ledger_module\n" in text
    assert f'ledger_module.{candidate.subject}("a;1") == [["a", "1"]]' in text
    assert "def test_rows_under_the_old_name" in text and "def test_rows_under_the_new_name" in text
    assert "tests/test_books.py::test_rows_under_the_old_name" in candidate.hidden_tests.affected


def test_a_class_is_reached_under_its_old_name_by_the_module_itself(proposals):
    candidate = named(proposals("rename_api"), "Account")
    init = candidate.solution["src/ledger/__init__.py"].decode()
    assert f"from .books import {candidate.subject}, read_rows" in init and "def __getattr__(name):" in init
    assert '"Account"]' not in init


def test_solutions_and_tests_compile(proposals):
    for candidate in proposals("rename_api"):
        probe = candidate.probes["an alias that does not warn"]
        for path, text in [*candidate.solution.items(), *candidate.hidden_tests.added.items(), *probe.items()]:
            assert text is not None and not compile_error(path, text)


def test_the_statement_names_both_names_and_where_they_are(proposals):
    candidate = named(proposals("rename_api"), "read_rows")
    text = candidate.statement.render(CONTEXT)
    for part in ("`read_rows`", f"`{candidate.subject}`", "- `ledger.books`", "- `ledger`", "`DeprecationWarning`"):
        assert part in text
    method = named(proposals("rename_api"), "Account.deposit_amount").statement.render(CONTEXT)
    assert "the method `deposit_amount` of `ledger.books.Account`" in method


@pytest.mark.parametrize(
    ("name", "expected"), [("read_rows", {"load_rows", "parse_rows"}), ("HTMLParser", {"HTMLInterpreter"})]
)
def test_a_new_name_has_another_word_and_is_not_taken(name, expected):
    assert new_name(name, set(), random.Random(0)) in expected
    assert new_name(name, expected, random.Random(0)) not in {"", name, *expected}


def test_a_renaming_becomes_a_task(project, tmp_path):
    knobs = {"kind": "function", "max_share": 0.9, **LIGHT}
    report = generate([str(project)], generators=["rename_api"], count=1, seed=1, out=tmp_path, knobs=knobs)
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((tmp_path / "tasks.jsonl").read_text())
    assert task.workspace_patch == "" and task.assurance == "in_process"
    assert any(test.endswith("_under_the_old_name") for test in task.FAIL_TO_PASS)
