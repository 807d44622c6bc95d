"""What hidden tests ask for by name or wording is compared with what the agent can read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from etude.generators.validation.checks.adequacy import MAX_ADDED, completed, missing_items
from etude.generators.validation.checks.exercise import Exercise
from etude.models import GeneratorRef, InterfaceItem, Task

SOLUTION = b'''
class StaleError(Exception):
    pass


def load(path, *, strict=False, **options):
    """Load a file."""
    if strict and options.get("retry_limit"):
        raise StaleError(f"cannot load {path}: the index is stale")
    load.last_path = path
    return "loaded with warnings"
'''


@dataclass
class Trees:
    agent_tree: Path
    grading_tree: Path


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    trees = Trees(tmp_path / "agent", tmp_path / "grading")
    for tree in (trees.agent_tree, trees.grading_tree):
        (tree / "tests").mkdir(parents=True)
    (trees.agent_tree / "store.py").write_text("def other():\n    pass\n")
    return trees


def unreadable(
    trees: Trees, test: str, statement: str = "Implement `load(path)`.", workspace: bytes = b""
) -> list[tuple[str, str]]:
    (trees.grading_tree / "tests" / "test_store.py").write_text(test)
    task = Task(
        task_id="t",
        generator=GeneratorRef(name="g", version="1", seed=0),
        problem_statement=statement,
        FAIL_TO_PASS=["tests/test_store.py::test_it[1]"],
    )
    exercise = Exercise(task, {"store.py": workspace}, {"store.py": SOLUTION})
    return [(item.kind, item.name) for item in missing_items(task, trees, exercise)]


def test_a_keyword_an_attribute_and_an_exception_are_missing(trees: Trees):
    test = (
        "def test_it(n):\n    with pytest.raises(StaleError):\n        load(1, strict=True, retry_limit=n)\n"
        "    assert load.last_path == 1\n"
    )
    assert unreadable(trees, test) == [
        ("exception", "StaleError"),
        ("keyword", "retry_limit"),
        ("keyword", "strict"),
        ("attribute", "last_path"),
    ] or unreadable(trees, test) == [("exception", "StaleError"), ("keyword", "strict"), ("attribute", "last_path")]


def test_nothing_is_missing_when_statement_and_workspace_contain_it(trees: Trees):
    test = "def test_it(n):\n    load(1, strict=True)\n    load.last_path\n"
    (trees.agent_tree / "store.py").write_text("store.last_path = None\n")
    assert unreadable(trees, test, "Implement `load(path, *, strict=False)`.") == []


def test_a_name_is_not_missing_when_the_solution_does_not_have_it(trees: Trees):
    assert unreadable(trees, "def test_it(n):\n    other.attribute(keyword=1)\n") == []


def test_a_pattern_of_a_message_is_missing_unless_the_statement_quotes_it(trees: Trees):
    test = "def test_it(n):\n    with pytest.raises(ValueError, match='is stale'):\n        load(1)\n"
    assert unreadable(trees, test) == [("message", "is stale")]
    assert unreadable(trees, test, "It says that the index is\n> stale.") == []


def test_a_compared_message_is_missing(trees: Trees):
    test = "def test_it(n):\n    assert str(error) == 'cannot load x: the index is stale'\n"
    assert unreadable(trees, test) == [("message", "cannot load x: the index is stale")]


def test_of_a_long_text_only_the_constants_of_the_code_are_missing(trees: Trees):
    page = "line of a page\\n" * 30
    test = f"def test_it(n):\n    assert load(1) == '{page}cannot load x: the index is stale'\n"
    assert unreadable(trees, test) == [("message", ": the index is stale"), ("message", "cannot load")]


def test_an_expected_text_is_missing_when_it_is_a_parameter(trees: Trees):
    test = "@pytest.mark.parametrize('x', ['loaded with warnings'])\ndef test_it(x):\n    assert load(1) == x\n"
    assert unreadable(trees, test) == [("message", "loaded with warnings")]


def test_an_input_is_not_a_message_when_the_solution_does_not_quote_it(trees: Trees):
    assert unreadable(trees, "def test_it(n):\n    load('some other file name')\n") == []


def test_a_text_with_a_constant_that_the_wrong_code_has_too_is_not_missing(trees: Trees):
    test = "def test_it(n):\n    assert str(error) == 'cannot load x: the index is stale'\n"
    wrong = SOLUTION.replace(b"if strict and", b"if strict or")
    assert wrong != SOLUTION and unreadable(trees, test, workspace=wrong) == []
    other = SOLUTION.replace(b"cannot load", b"cannot read").replace(b"is stale", b"is old")
    assert unreadable(trees, test, workspace=other) == [("message", "cannot load x: the index is stale")]


def test_tests_outside_fail_to_pass_ask_for_nothing(trees: Trees):
    assert unreadable(trees, "def test_it(n):\n    pass\n\ndef test_other():\n    load(strict=1)\n") == []


def test_a_message_of_several_lines_can_be_read_in_a_statement_that_lists_it(trees: Trees):
    test = "def test_it(n):\n    assert str(error) == \"cannot load 'x':\\nthe index is stale\"\n"
    missing = [("message", "cannot load 'x':\nthe index is stale")]
    assert unreadable(trees, test) == missing
    task = Task(
        task_id="t", generator=GeneratorRef(name="g", version="1", seed=0), problem_statement="Implement `load(path)`."
    )
    listed = completed(task, [InterfaceItem(kind="message", name=missing[0][1])])
    assert listed is not None and unreadable(trees, test, listed.problem_statement) == []


def test_missing_items_are_added_to_interface_and_statement():
    task = Task(
        task_id="t", generator=GeneratorRef(name="g", version="1", seed=0), problem_statement="# Implement `load`\n"
    )
    items = [InterfaceItem(name="strict", kind="keyword"), InterfaceItem(name="is stale", kind="message")]
    complete = completed(task, items)
    assert complete is not None and complete.interface == items
    assert complete.problem_statement.endswith("- keyword `strict`\n- message `is stale`\n")
    assert complete.problem_statement.count("## Interface") == 1
    again = completed(complete, [InterfaceItem(name="more", kind="attribute")])
    assert again is not None and again.problem_statement.count("## Interface") == 1
    assert completed(task, []) is task


def test_missing_items_are_added_before_a_remark_that_follows_the_list():
    remark = "\n\nIn this environment 2 tests of `tests/test_a.py` fail with the right code too. They are not graded."
    text = "# Implement `load`\n\n## Interface\n\nThe hidden tests also rely on:\n\n- keyword `load(strict=)`"
    reference = GeneratorRef(name="g", version="1", seed=0)
    task = Task(task_id="t", generator=reference, problem_statement=f"{text}{remark}\n")
    complete = completed(task, [InterfaceItem(name="is stale", kind="message")])
    assert complete is not None and complete.problem_statement == f"{text}\n- message `is stale`{remark}\n"


def test_missing_items_are_added_to_the_interface_section_wherever_it_is():
    text = (
        "# Implement `load`\n\n## Interface\n\nThe tests use:\n\n- `def load(path)`\n\n## Where it is used\n\n- here\n"
    )
    listed = InterfaceItem(name="strict", kind="keyword")
    reference = GeneratorRef(name="g", version="1", seed=0)
    task = Task(task_id="t", generator=reference, problem_statement=text, interface=[listed])
    complete = completed(task, [listed])
    assert complete is not None and complete.interface == [listed]
    assert complete.problem_statement.count("## Interface") == 1
    assert "- `def load(path)`\n- keyword `strict`\n\n## Where it is used\n\n- here\n" in complete.problem_statement


def test_missing_items_are_added_to_the_list_of_a_statement_without_headings():
    text = "Write `load`.\n\nThe hidden tests also rely on:\n\n- keyword `load(strict=)`\n"
    reference = GeneratorRef(name="g", version="1", seed=0)
    task = Task(task_id="t", generator=reference, problem_statement=text)
    complete = completed(task, [InterfaceItem(name="is stale", kind="message")])
    assert complete is not None and complete.problem_statement == text + "- message `is stale`\n"


def test_an_attribute_that_the_solution_only_reads_is_not_missing(trees: Trees):
    test = "def test_it(n):\n    results.get(1)\n    load.last_path\n"
    assert unreadable(trees, test) == [("attribute", "last_path")]


def test_a_statement_cannot_be_completed_when_too_much_is_missing():
    task = Task(task_id="t", generator=GeneratorRef(name="g", version="1", seed=0), problem_statement="x")
    many = [InterfaceItem(name=f"n{number}", kind="attribute") for number in range(MAX_ADDED + 1)]
    assert completed(task, many) is None
    assert completed(task, many, definitions=len(many)) is not None
    assert completed(task, [InterfaceItem(name="x" * 1000, kind="message")]) is None
