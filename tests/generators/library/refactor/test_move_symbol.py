"""The generator ``move_symbol``: a definition in another module, a re-export at its old place, no import cycle."""

from __future__ import annotations

from helpers.light_checks import LIGHT

from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.python.source import compile_error
from etude.models import Task

BOOKS, REPORTS = "src/ledger/books.py", "src/ledger/reports.py"


def test_definitions_that_need_nothing_of_their_module_are_proposed(proposals):
    names = {item.entity.rpartition("::")[2] for item in proposals("move_symbol", min_lines=1)}
    assert names == {"Account", "widths"}, "read_rows needs a constant, opened a class of the module"
    assert {item.entity for item in proposals("move_symbol", kind="class")} == {f"{BOOKS}::Account"}


def test_the_order_depends_on_the_seed_alone(proposals):
    orders = [[(c.entity, sorted(c.solution)) for c in proposals("move_symbol", s, min_lines=1)] for s in (0, 0, 1, 2)]
    assert orders[0] == orders[1] and orders[1:].count(orders[0]) < 3


def test_a_new_module_holds_the_definition_and_the_old_one_imports_it(proposals):
    (candidate,) = proposals("move_symbol", kind="class", target="new")
    (path,) = set(candidate.solution) - {BOOKS}
    moved, old = candidate.solution[path].decode(), candidate.solution[BOOKS].decode()
    assert moved.endswith("        self.balance += amount\n        return self.balance\n")
    assert "class Account" not in old and "account = Account()" in old
    module = path.removesuffix(".py").rpartition("/")[2]
    assert f"import re\nfrom .{module} import Account" in old


def test_an_existing_module_must_not_lead_back_to_the_old_one(proposals):
    assert not proposals("move_symbol", kind="class", target="existing"), "reports imports books"
    (candidate,) = proposals("move_symbol", kind="function", target="existing", min_lines=1)
    assert "v0" not in candidate.entity and set(candidate.solution) == {BOOKS, REPORTS}


def test_solutions_and_tests_compile(proposals):
    for candidate in proposals("move_symbol", min_lines=1):
        probe = candidate.probes["an import at the new place"]
        for path, text in [*candidate.solution.items(), *candidate.hidden_tests.added.items(), *probe.items()]:
            assert text is not None and not compile_error(path, text)


def test_the_statement_says_where_the_definition_must_be(proposals):
    (candidate,) = proposals("move_symbol", kind="class", target="new")
    text = candidate.statement.render(StatementContext(package="ledger 1.0", failing=[], interface=[]))
    module = candidate.interface[0].name.removesuffix(".Account")
    for part in ("from `ledger.books`", f"a new module `{module}`", f"`{module}.Account`", "no import cycle"):
        assert part in text


def test_a_move_becomes_a_task(project, tmp_path):
    knobs = {"kind": "class", "max_share": 0.9, **LIGHT}
    report = generate([str(project)], generators=["move_symbol"], count=1, seed=1, out=tmp_path, knobs=knobs)
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((tmp_path / "tasks.jsonl").read_text())
    assert len(task.FAIL_TO_PASS) == 5 and len(task.PASS_TO_PASS) == 6 and task.workspace_patch == ""
