"""Tasks of a real package: cases in code, dialogues about them, and a task that the scripted solution solves."""

from __future__ import annotations

import ast
import asyncio
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from etude.environments.coding.session import CodingSession
from etude.environments.running import Budget
from etude.environments.snapshots import make_patch
from etude.environments.tasks.task_set import TaskSet
from etude.models import Episode, GeneratorRef, Task
from etude.research.error_turns.worlds import real_code, real_dialogues, repairs
from etude.research.error_turns.worlds.real_code import Case, case_of, edit, search, shown
from etude.research.error_turns.worlds.real_dialogues import TOOLS, dialogues, wrong_paths
from etude.research.error_turns.worlds.repair_dialogues import EDITED, GAVE_UP

PATH = "lib/limits.py"
RIGHT = '''"""Limits."""


def inside(value, low, high):
    """Return whether a value is between two limits."""
    if low is None:
        return value < high
    return low <= value < high


def outside(value, low, high):
    return not inside(value, low, high)
'''
WRONG = RIGHT.replace("low is None", "low is not None")
AGAIN = "if low is not None:\n    x = 1\n"
FAR = 9 * "\n" + "    if"
TESTS = """from lib.limits import inside, outside


def test_inside():
    assert inside(2, 1, 3) and inside(2, None, 3) and not inside(0, 1, 3)


def test_outside_of_one_limit():
    assert outside(4, None, 3)
"""


@pytest.fixture
def case() -> Case:
    found = case_of("limits 1.0", PATH, RIGHT, WRONG)
    assert found is not None
    return found


def calls_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [call["function"] for message in row["messages"] for call in message.get("tool_calls") or []]


def played(case: Case, *calls: tuple[str, dict[str, str]]) -> Episode:
    """Return the calls, each a turn, in the strongest sandbox that works here."""
    snapshot = repairs.snapshot()
    task = Task(
        task_id="limits",
        generator=GeneratorRef(name="bug_operator", version="4", seed=0),
        problem_statement="x",
        patch=make_patch({PATH: case.module.encode()}, {PATH: RIGHT.encode()}),
        test_patch=make_patch({}, {"tests/test_limits.py": TESTS.encode()}),
        workspace_patch=make_patch({}, {PATH: case.module.encode()}),
        FAIL_TO_PASS=["tests/test_limits.py::test_inside"],
        PASS_TO_PASS=[],
        source_globs=["lib/**"],
        protected_paths=["tests/**"],
        snapshot=snapshot.ref,
        verifier=snapshot.verifier,
    )

    async def run() -> Episode:
        session = CodingSession(TaskSet([task]), budget=Budget(turns=4), tools=TOOLS)
        try:
            await session.reset(task_id="limits")
            for name, arguments in calls:
                await session.step({"tool_calls": [{"id": "call", "name": name, "arguments": arguments}]})
            return session.episode()
        finally:
            await session.close()

    return asyncio.run(run())


# --- cases -------------------------------------------------------------------------------------------------------


def test_case_has_the_line_without_indentation_and_the_function_above_it(case: Case) -> None:
    assert (case.function, case.old, case.new) == ("inside", "if low is not None:", "if low is None:")
    assert case.module == WRONG


@pytest.mark.parametrize(
    "right, wrong",
    [
        pytest.param(RIGHT, RIGHT, id="nothing differs"),
        pytest.param(RIGHT, WRONG.replace("not inside", "inside"), id="two lines differ"),
        pytest.param(RIGHT, WRONG + "x = 1\n", id="a line more"),
        pytest.param(RIGHT + AGAIN, WRONG + AGAIN, id="the line is not unique"),
        pytest.param(RIGHT.replace("    if", FAR), WRONG.replace("    if", FAR), id="the line is not seen"),
    ],
)
def test_case_is_none_when_one_edit_of_a_seen_line_does_not_correct_it(right: str, wrong: str) -> None:
    assert case_of("limits 1.0", PATH, right, wrong) is None


def test_cases_of_a_module_are_its_wrong_operators() -> None:
    found = real_code._cases_of_module("limits 1.0", PATH, real_code.with_short_docstrings(RIGHT, keep=False))
    assert {case.new for case in found} == {
        "if low is None:", "return value < high", "return low <= value < high", "return not inside(value, low, high)"
    }  # fmt: skip
    assert all('"""Return' not in case.module for case in found)


def test_docstrings_keep_their_first_line_or_are_removed() -> None:
    text = '''class Box:
    """Holds values.

    Any number of them.
    """
    size = 1

    def only(self):
        """Return nothing."""

    def says(self):
        r"""Say \\d."""
        return 1

    def two(self):
        """Return two
        values."""
        return 1, 2
'''
    short = real_code.with_short_docstrings(text)
    assert short == text.replace("values.\n\n    Any number of them.\n    ", "values.").replace(
        '        r"""Say \\d."""\n', ""
    ).replace('two\n        values."""', 'two"""')
    assert ast.parse(short)
    without = real_code.with_short_docstrings(text, keep=False)
    assert "Holds" not in without and "Return nothing" in without and ast.parse(without)
    assert real_code.with_short_docstrings("def broken(") == ""


# --- dialogues ---------------------------------------------------------------------------------------------------


def test_dialogues_are_the_same_for_the_same_arguments(case: Case) -> None:
    one, two = (json.dumps(list(dialogues([case], 20, seed=3))) for _ in range(2))
    assert one == two != json.dumps(list(dialogues([case], 20, seed=4)))


def test_assistant_searches_for_the_first_failing_test_and_edits_where_the_hint_says(case: Case) -> None:
    rows = list(dialogues([case], 300, skill=1.0))
    paths: dict[bool, list[str]] = {False: [], True: []}
    for row in rows:
        looked, edited, *_, submitted = calls_of(row)
        assert looked == {"name": "bash", "arguments": {"command": search("inside")}}
        assert (edited["arguments"]["old"], edited["arguments"]["new"]) == (case.old, case.new)
        assert submitted["arguments"]["summary"] in (EDITED, GAVE_UP)
        is_hinted = any(message["role"] == "hint" for message in row["messages"])
        paths[is_hinted].append(edited["arguments"]["path"])
    assert set(paths[True]) == {PATH}
    assert set(paths[False]) == {PATH, *wrong_paths(PATH)}
    assert 0.2 < paths[False].count(PATH) / len(paths[False]) < 0.4


def test_renamed_case_has_the_other_names_everywhere(case: Case) -> None:
    other = replace(case, package="more 2.0", path="more/extra.py", function="within", module="")
    made = real_dialogues.renamed(case, other)
    assert (made.path, made.function, made.old) == ("more/extra.py", "within", case.old)
    assert "def within(" in made.module and "inside(" not in made.module


def test_statement_lists_a_test_that_is_named_after_the_function(case: Case) -> None:
    for seed in range(50):
        text = real_dialogues.statement(case, random.Random(seed))
        assert "::test_inside" in text


# --- the environment ---------------------------------------------------------------------------------------------


def test_task_is_solved_by_the_search_the_edit_and_the_submission_of_the_dialogues(case: Case) -> None:
    looked = ("bash", {"command": search(case.function)})
    wrong = ("edit_file", dict(edit(case, wrong_paths(PATH)[0])))
    right = ("edit_file", dict(edit(case)))
    episode = played(case, looked, wrong, right, ("submit", {"summary": EDITED}))
    assert episode.turns[0].messages[0].content == f"ok\n{shown(case.module, PATH, case.function)}"
    (error,) = episode.error_turns
    assert (error.turn, error.kind) == (1, "file_not_found")
    assert error.hints[0].text == asyncio.run(real_dialogues.hint(case, wrong_paths(PATH)[0]))
    assert episode.reward is not None and episode.reward.value == 1
    given_up = played(case, looked, wrong, ("submit", {"summary": GAVE_UP}))
    assert given_up.reward is not None and given_up.reward.value == 0
