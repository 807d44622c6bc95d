"""A held-out call that spoils an object in its arguments is wrong; one that adds private state to it is right."""

from __future__ import annotations

from typing import Any

import pytest

from etude.environments.grading.out_of_process.held_out.sequences import kept_sequences
from etude.environments.grading.out_of_process.judging.answers import is_answer_as, is_same_held_out
from etude.environments.grading.out_of_process.judging.spoilt_arguments import spoilt_attributes

RESULT = "1.2.4"


def item(number: int = 1, **attributes: Any) -> list[Any]:
    state = ["D", [[name, value] for name, value in attributes.items()]]
    return ["o", number, ["new", ["g", "pkg", "Item"]], [], state, None, None]


BEFORE = {"major": 1, "build": "b1", "cache": None, "names": ["l", 2, ["a"]], "function": ["g", "builtins", "len"]}


def call(**more: Any) -> dict[str, Any]:
    return {"target": "pkg:f", "arguments": [item(**BEFORE)], "keywords": {}, **more}


def answer(*after: Any) -> dict[str, Any]:
    return {"result": RESULT, "after": list(after) or None, "error": None, "printed": ""}


SPOILT = {
    "another text": ({**BEFORE, "build": "b2"}, {"0.build"}),
    "no text": ({**BEFORE, "build": None}, {"0.build"}),
    "a longer list": ({**BEFORE, "names": ["l", 2, ["a", "b"]]}, {"0.names"}),
}
KEPT = {
    "a cache that was empty": {**BEFORE, "cache": 7},
    "a further attribute": {**BEFORE, "_seen": True},
    "a sequence of another type": {**BEFORE, "names": ["t", ["a"]]},
    "an attribute less": {name: value for name, value in BEFORE.items() if name != "major"},
    "what is no data": {**BEFORE, "function": ["g", "builtins", "max"]},
}


@pytest.mark.parametrize("name", SPOILT)
def test_an_attribute_with_other_data_is_spoilt(name: str) -> None:
    attributes, expected = SPOILT[name]
    assert spoilt_attributes(call(), answer(item(**attributes))) == expected
    assert not is_same_held_out(call(answer=answer()), answer(item(**attributes)))
    own = call(answer=answer(), changes=sorted(expected))
    assert is_answer_as(own, {**answer(), "after": [None]}, answer(item(**attributes))), "the task's own does so too"


@pytest.mark.parametrize("name", KEPT)
def test_what_a_solution_keeps_for_itself_is_not(name: str) -> None:
    assert spoilt_attributes(call(), answer(item(**KEPT[name]))) == set()
    assert is_same_held_out(call(answer=answer()), answer(item(**KEPT[name])))


@pytest.mark.parametrize("after", [[], [item(), item()], [["o"]], [["o", 1, 2]], [None], [item(3, build="b2")], "odd"])
def test_answers_of_another_shape_spoil_nothing(after: Any) -> None:
    assert spoilt_attributes(call(), {**answer(), "after": after}) == set()
    assert spoilt_attributes(call(), None) == set()


def test_a_sequence_notes_what_the_tasks_own_solution_changes() -> None:
    own, nothing = answer(item(**SPOILT["another text"][0])), {**answer(), "result": None}
    (sequence,) = kept_sequences([[call()]], [[[own]], [[own]]], [[nothing]])
    assert sequence[0]["changes"] == ["0.build"]
    (sequence,) = kept_sequences([[call()]], [[[answer()]], [[answer()]]], [[nothing]])
    assert "changes" not in sequence[0]
