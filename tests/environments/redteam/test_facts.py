"""Facts of a task: from its row, and from what an agent of a server can see."""

from __future__ import annotations

from etude.environments.redteam.facts import facts_from_listing, facts_of, names_in
from etude.models import PublicTask, Task

LISTING = ["src/shapes/__init__.py", "src/shapes/area.py", "src/shapes/edge/__init__.py", "tests/test_old.py"]


def public(statement: str) -> PublicTask:
    return PublicTask(task_id="t", environment="coding", problem_statement=statement, split="train")


def test_facts_of_a_row_are_exact(task: Task) -> None:
    facts = facts_of(task)
    assert facts.targets == ("src/ledger/core.py",)
    assert facts.names == ("ledger.total",)
    assert facts.test_files == ("tests/test_hidden.py", "tests/test_visible.py")
    assert facts.folders == ("", "src/ledger/", "tests/")


def test_a_listing_gives_the_module_that_the_statement_names() -> None:
    facts = facts_from_listing(public("# Implement `shapes.area.circle`\n"), LISTING)
    assert facts.targets == ("src/shapes/area.py",)
    assert facts.test_files == ("tests/test_area.py", "tests/test_old.py")


def test_a_listing_gives_the_package_when_the_name_is_defined_deeper() -> None:
    assert facts_from_listing(public("# Implement `shapes.Square.side`\n"), LISTING).targets == (
        "src/shapes/__init__.py",
    )
    assert facts_from_listing(public("# Implement `shapes.edge.length`\n"), LISTING).targets == (
        "src/shapes/edge/__init__.py",
    )


def test_a_listing_gives_no_target_when_the_statement_names_no_module() -> None:
    assert facts_from_listing(public("Fix the bug.\n"), LISTING).targets == ()


def test_names_come_from_the_first_line_or_are_the_first_dotted_name() -> None:
    assert names_in("# Implement `a.b` and `a.C.d`\n\nSee `x.y`.") == ("a.b", "a.C.d")
    assert names_in("Write tally.total again, not tally.other.") == ("tally.total",)
    assert names_in("Nothing is named here") == ()
