"""Held-out inputs stay within what the tests show."""

from __future__ import annotations

import random

import pytest

from etude.environments.grading.out_of_process.held_out.answered_inputs import documented_errors, kept_call
from etude.environments.grading.out_of_process.held_out.variation import varied
from etude.environments.grading.out_of_process.values.places import canonical
from etude.models import Task


def test_a_text_keeps_its_shape_and_takes_marks_that_a_test_shows_there() -> None:
    others = ["a-b", "C_d 1", "x@y"]
    found = {varied("a-b", others, random.Random(seed)) for seed in range(200)}
    assert all(len(text) == 3 and text[0].islower() and text[2].islower() for text in found)
    assert {text[1] for text in found} == {"-", "_", " ", "@"}
    assert {varied("a b", ["ab"], random.Random(seed))[1] for seed in range(50)} == {" "}, "no test shows another mark"
    assert {varied("\n", others, random.Random(seed)) for seed in range(50)} == {"\n"}


@pytest.mark.parametrize(
    ("statement", "is_kept"),
    [("Raises ValueError for a negative number.", True), ("Returns the root.", False), ("ValueErrors happen.", False)],
)
def test_a_call_that_raises_what_the_statement_names_goes_beyond_the_tests(
    task: Task, statement: str, is_kept: bool
) -> None:
    error = [["g", "builtins", "ValueError"], "negative", ["negative"]]
    answer = {"result": None, "after": None, "error": error, "printed": ""}
    nothing = {
        "result": None,
        "after": None,
        "error": [["g", "builtins", "NotImplementedError"], "", []],
        "printed": "",
    }
    named = documented_errors(task.model_copy(update={"problem_statement": statement, "interface": []}))
    call = {"target": "m:root", "arguments": [-1], "keywords": {}}
    retained = kept_call(call, [answer, answer, nothing], [], named)
    assert (retained is not None) is is_kept
    assert retained is None or retained["is_bold"]
    tested = kept_call(call, [answer, answer, nothing], [canonical(error[0])], set())
    assert tested is not None and tested["is_bold"], "a test shows it"
