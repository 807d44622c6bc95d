"""Held-out sequences: the calls of a test with new data; only data is compared in their answers."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from etude.environments.grading.out_of_process.held_out.sequences import (
    held_out_sequences,
    kept_sequences,
    repeats_test,
)
from etude.environments.grading.out_of_process.judging.answers import _failed_sequences
from etude.environments.grading.out_of_process.judging.equal_data import comparable
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.grading.out_of_process.strength.requirements import too_weak

INIT, ADD = "m:Box.__init__", "m:Box.add"
NEW = ["n", 1, ["g", "m", "Box"]]


def answer(result: Any, after: Any = None, error: Any = None) -> dict[str, Any]:
    return {"result": result, "after": after, "error": error, "printed": ""}


def call(target: str, *arguments: Any, **given: Any) -> dict[str, Any]:
    return {"target": target, "arguments": list(arguments), "keywords": {}, "answer": answer(given.get("result"))}


TEST = [call(INIT, NEW, 3), call(ADD, ["h", 1, []], 4, result=7)]
OTHER = [call(INIT, NEW, 5), call(ADD, ["h", 1, []], 2, result=7)]


def box(calls: list[dict[str, Any]], wrong: int = 0, private: str = "x") -> list[dict[str, Any]]:
    """Return the answers of a solution whose boxes add to what they hold."""
    held = ["O", 1, ["g", "m", "Box"], [[private, 1]], None, None]
    start = calls[0]["arguments"][1]
    return [
        answer(None, [held, start]),
        *(
            answer(start + item["arguments"][1] + wrong, [held, item["arguments"][1]])
            for item in calls[1:]
            if item["target"] == ADD
        ),
    ]


@pytest.fixture(scope="module")
def kept() -> list[list[dict[str, Any]]]:
    proposed = held_out_sequences([TEST, OTHER], [INIT, ADD], random.Random(1))
    answers = [box(calls) for calls in proposed]
    nothing = [[answer(None, error=[["g", "builtins", "NotImplementedError"], "", []])] for _ in proposed]
    return kept_sequences(proposed, (answers, answers), nothing)


def record(sequences: list[Any]) -> RecordedCalls:
    return RecordedCalls([INIT, ADD], ["m:Box"], ["m"], {"t": TEST, "u": OTHER}, {}, copy.deepcopy(sequences))


def test_sequences_have_other_data_and_the_same_objects(kept: list[list[dict[str, Any]]]) -> None:
    assert len(kept) >= 4
    for calls in kept:
        assert [item["target"] for item in calls] == [INIT, ADD]
        assert calls[0]["arguments"][0] == NEW and calls[1]["arguments"][0] == ["h", 1, []]
        assert 3 <= calls[0]["arguments"][1] <= 5 and 2 <= calls[1]["arguments"][1] <= 4
    data = {(calls[0]["arguments"][1], calls[1]["arguments"][1]) for calls in kept}
    assert not data & {(3, 4), (5, 2)}


def test_they_strengthen_a_record_with_one_answer(kept: list[list[dict[str, Any]]]) -> None:
    assert too_weak(record([])) == f"every recorded call of {INIT} has the same answer"
    varied = record(kept)
    varied.tests["u"][0] = {
        **OTHER[0],
        "answer": answer(None, [["O", 1, ["g", "m", "Box"], [["x", 2]], None, None], 5]),
    }
    assert too_weak(varied) == ""
    for calls in varied.sequences:
        for item in calls:
            item["needs"] = False
    assert too_weak(varied) == f"every recorded call of {ADD} has the same answer"


@pytest.mark.parametrize(("wrong", "private", "is_right"), [(0, "x", True), (0, "other", True), (1, "x", False)])
def test_private_state_is_not_compared_and_a_guess_fails(
    kept: list[list[dict[str, Any]]], wrong: int, private: str, is_right: bool
) -> None:
    given = {f"sequence {number}": box(calls, wrong, private) for number, calls in enumerate(kept)}
    assert (_failed_sequences(record(kept), given) == {}) is is_right


def test_answers_that_are_missing_or_of_another_shape_fail(kept: list[list[dict[str, Any]]]) -> None:
    assert INIT in _failed_sequences(record(kept), {})
    for forged in ({}, {"broken": "x"}, {**answer(7), "after": [1]}, {**answer(7), "after": 3}, answer(True), None):
        given = {f"sequence {number}": [box(calls)[0], forged] for number, calls in enumerate(kept)}
        assert ADD in _failed_sequences(record(kept), given)
    assert _failed_sequences(record(kept), {f"sequence {i}": [*box(calls), {}] for i, calls in enumerate(kept)})


def test_data_that_a_call_changes_in_place_is_compared() -> None:
    items = ["l", 1, [3, 1]]
    sort = call("m:sort", items)
    changed = comparable(sort, answer(None, [["l", 1, [1, 3]]]))
    assert changed == comparable(sort, answer(None, [["l", 9, [1, 3]]]))
    assert changed != comparable(sort, answer(None)) == comparable(sort, answer(None, [items]))


def test_a_returned_object_is_asked_for_its_text_unless_that_is_examined() -> None:
    made = [call("m:make", 1, result=["o", "0.1", ["new", ["g", "m", "Box"]], [], None, None, None])]
    more = [[call("m:make", 2, result=made[0]["answer"]["result"])], made]
    targets = [[item["target"] for item in calls] for calls in held_out_sequences(more, ["m:make"], random.Random(2))]
    assert targets == [] or targets[0] == ["m:make", "builtins:repr", "builtins:str"]
    for examined in ("m:Box.__repr__", "m:Box.__format__"):
        found = held_out_sequences(more, ["m:make", examined], random.Random(2))
        assert all(len(calls) == 1 for calls in found)


def test_one_of_pythons_dictionaries_is_compared_as_data_and_not_by_its_text() -> None:
    form = ["o", "0.1", ["call", ["g", "collections", "defaultdict"]], [["g", "builtins", "list"]], None, None]
    made = [[call("m:make", number, result=[*form, [["a", number]]])] for number in (1, 9)]
    found = held_out_sequences(made, ["m:make"], random.Random(2))
    assert found and all([item["target"] for item in calls] == ["m:make"] for calls in found)
    own, plain, other = (
        comparable(made[0][0], answer(form))
        for form in ([*form, [["a", 1]]], ["d", "0.1", [["a", 1]]], ["d", "0.1", [["a", 2]]])
    )
    assert own == plain != other


def test_a_sequence_that_needs_a_number_of_private_state_is_left_out() -> None:
    inner = [call("m:make", 1, result=["t", [["o", "0.2", ["new", ["g", "m", "Box"]], [], None, None, None]]])]
    assert held_out_sequences([[*inner, call(ADD, ["r", "0.2"], 4)]], [ADD], random.Random(1)) == []
    assert held_out_sequences([[call(INIT, NEW, 3), call(ADD, ["h", 1, []], 4)], OTHER], [ADD], random.Random(1))


def test_a_sequence_ends_before_a_result_that_raises_when_it_is_used_up() -> None:
    first, second = call("m:f", 1), call("m:f", 2)
    late = answer(["I", [1], [["g", "builtins", "TypeError"], "", []]])
    good, at_once = answer(["I", [1, 2], None]), answer(None, error=[["g", "builtins", "TypeError"], "", []])
    nothing = [answer(None)] * 2
    assert kept_sequences([[first, second]], ([[late, good]], [[late, good]]), [nothing]) == []
    kept = kept_sequences([[first, second]], ([[good, late]], [[good, late]]), [nothing])
    assert [[item["arguments"] for item in calls] for calls in kept] == [[[1]]]
    wrong = answer(["I", [1, 3], None])
    for given, is_right in (([good, at_once], True), ([good, late], True), ([wrong, late], False), ([at_once], False)):
        answers = {"sequence 0": given[: len(kept[0])]}
        failed = _failed_sequences(RecordedCalls(["m:f"], [], ["m"], {}, {}, kept), answers)
        assert (failed == {}) is is_right


def test_a_sequence_may_end_with_an_exception_that_tests_show() -> None:
    first, second = call("m:f", 1), call("m:f", 2)
    error, other = ([["g", "builtins", name], "", []] for name in ("ValueError", "KeyError"))
    runs = [[answer(3), answer(None, error=error)]]
    nothing = [[answer(None), answer(None)]]
    kept = kept_sequences([[first, second]], (runs, runs), nothing, lambda _, kind: kind == error[0])
    assert [[item["arguments"] for item in calls] for calls in kept] == [[[1]], [[1], [2]]]
    assert ["is_bold" in calls[-1] for calls in kept] == [False, True], "kept only where it kills a mutant"
    assert len(kept_sequences([[first, second]], (runs, runs), nothing, lambda _, kind: kind == other[0])) == 1
    unsteady = [[answer(3), answer(None, error=other)]]
    assert len(kept_sequences([[first, second]], (runs, unsteady), nothing, lambda *_: True)) == 1
    own_kind = {**answer(None, error=[["g", "m", "Own"], "", []]), "classes": {"m:Own": [error[0][1:]]}}
    texts = answer(None, error=[error[0], "another text", []])
    for last, is_right in ((texts, True), (own_kind, True), (answer(None, error=other), False), (answer(3), False)):
        failed = _failed_sequences(
            RecordedCalls(["m:f"], [], ["m"], {}, {}, [kept[1]]), {"sequence 0": [answer(3), last]}
        )
        assert (failed == {}) is is_right


def test_what_a_test_begins_with_is_not_held_out() -> None:
    question = {"target": "builtins:repr", "arguments": [["r", "0.1"]], "keywords": {}}
    assert repeats_test([TEST[0], question], [OTHER, TEST]) and repeats_test(TEST, [TEST])
    assert not repeats_test([call(INIT, NEW, 4)], [TEST, OTHER])
    assert not repeats_test([*TEST, call(ADD, ["h", 1, []], 1)], [TEST])


def test_data_that_an_object_took_over_is_not_compared() -> None:
    item = call("m:Box.fill", ["h", 1, []], ["l", 2, [1, 2]])
    held, kept_list = ["O", 1, ["g", "m", "Box"], [], None, None], ["l", 2, [1, 2]]
    shared = comparable(item, answer(None, [held, ["r", "0.1/items"]]))
    assert shared == comparable(item, answer(None, [held, kept_list]))
    assert shared != comparable(item, answer(None, [held, ["l", 2, [1, 2, 3]]]))
