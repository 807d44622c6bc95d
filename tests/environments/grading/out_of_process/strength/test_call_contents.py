"""Calls that differ only in the numbers of objects count as one."""

from __future__ import annotations

from typing import Any

import pytest

from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.grading.out_of_process.strength import call_contents as contents_module
from etude.environments.grading.out_of_process.strength.call_contents import call_contents
from etude.environments.grading.out_of_process.strength.requirements import too_weak


def call(target: str, *arguments: Any, result: Any = None, after: Any = None) -> dict[str, Any]:
    answer = {"result": result, "after": after, "error": None, "printed": ""}
    return {"target": target, "arguments": list(arguments), "keywords": {}, "answer": answer}


def box(number: int, held: int) -> list[dict[str, Any]]:
    """Return the calls that make a box and ask it."""
    kind = ["g", "m", "Box"]
    made = call(
        "m:Box.__init__", ["n", number, kind], held, after=[["O", number, kind, [["x", held]], None, None], held]
    )
    return [made, call("m:Box.get", ["h", number, []], result=held)]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ([call("m:f", ["l", 1, [3]])], [call("m:f", ["l", 9, [3]])], True),
        ([call("m:f", ["l", 1, [3]])], [call("m:f", ["l", 1, [4]])], False),
        ([call("m:f", ["l", 1, [3]])], [call("m:g", ["l", 1, [3]])], False),
        (box(1, 5), box(2, 5), True),
        (box(1, 5), box(1, 6), False),
        ([call("m:f", ["t", ["l", 1]])], [call("m:f", ["t", ["l", 2]])], False),
    ],
)
def test_contents_are_equal_when_only_numbers_differ(one: Any, other: Any, is_same: bool) -> None:
    assert (call_contents(one)[-1] == call_contents(other)[-1]) is is_same


def test_a_record_of_one_call_with_many_objects_is_too_weak() -> None:
    def record(lists: list[list[int]]) -> RecordedCalls:
        tests = {str(n): [call("m:f", ["l", n, items], result=len(items) % 2)] for n, items in enumerate(lists)}
        return RecordedCalls(["m:f"], [], ["m"], tests)

    assert too_weak(record([[1], [1, 2]] * 4)) == "only 2 different calls are recorded"
    assert too_weak(record([[n] * (n % 3) for n in range(1, 12)])) == ""


def test_named_forms_inside_each_other_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    depth, searched = 60, []
    form: Any = 0
    for number in range(depth, 0, -1):
        form = ["l", number, [form]]
    original = contents_module._is_numbered
    monkeypatch.setattr(contents_module, "_is_numbered", lambda form: searched.append(form) or original(form))
    call_contents([call("m:f", form), call("m:f", *(["r", number] for number in range(1, depth + 1)))])
    assert len(searched) < 20 * depth
