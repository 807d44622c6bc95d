"""Optional parameters that no test passes get values of the type in the signature."""

from __future__ import annotations

import random
from typing import Any

import pytest

from etude.environments.grading.out_of_process.held_out.inputs import held_out_calls
from etude.environments.grading.out_of_process.held_out.parameters import is_free, unused_options
from etude.environments.grading.out_of_process.held_out.sequences import held_out_sequences

SOURCE = b"""
import re

class Version:
    def next(self, part, token="rc", *, strict: bool = False, limit=None, width: int | None = None):
        return part

def shout(text, times=2, mark="!", pattern=re.compile("a"), ratio=0.5, /):
    return text

def quiet(text, mark="!"):
    return text

def uncalled(text, mark="!"):
    return text
"""
TEXTS = ["alpha", "beta", "rc", "no", "1.2.3"]


def call(target: str, *arguments: Any, **keywords: Any) -> dict[str, Any]:
    answer = {"result": "x", "after": None, "error": None, "printed": ""}
    return {"target": target, "arguments": list(arguments), "keywords": keywords, "answer": answer}


def options(*calls: dict[str, Any]) -> dict[str, dict[str, list[Any]]]:
    return unused_options({"m.py": SOURCE, "README.md": b"\xff"}, ["."], calls, TEXTS, random.Random(1))


def test_values_have_the_type_of_the_default_or_of_the_annotation() -> None:
    found = options(call("m:Version.next", ["o", 1], "major"))["m:Version.next"]
    assert set(found) == {"token", "strict", "width"}, "nothing says what a limit is"
    assert found["strict"] == [True]
    assert all(type(value) is int for value in found["width"])
    assert "no" in found["token"] and "rc" not in found["token"] and "1.2.3" not in found["token"]


def test_what_a_call_passes_and_what_has_no_name_is_left_out() -> None:
    assert set(options(call("m:Version.next", ["o", 1], "major", "beta", strict=True))["m:Version.next"]) == {"width"}
    assert options(call("m:shout", "a")) == {} == options(call("m:other", "a"))


def test_a_value_that_another_function_gets_by_this_name_comes_first() -> None:
    found = options(call("m:quiet", "a"), call("m:other", "a", mark="?"))
    assert found == {"m:quiet": {"mark": ["?"]}}


@pytest.mark.parametrize("is_bold", [True, False])
def test_bold_calls_pass_options(is_bold: bool) -> None:
    tests = [[call("m:quiet", text)] for text in ("ab", "cd", "ef")]
    new = held_out_calls(tests, random.Random(2), is_bold, TEXTS, {"m:quiet": {"mark": ["?", "."]}})["m:quiet"]
    passing = [item for item in new if "mark" in item["keywords"]]
    assert {item["keywords"]["mark"] for item in passing} == ({"?", "."} if is_bold else set())
    assert all("is_bold" in item for item in passing) and len(passing) < len(new)


@pytest.mark.parametrize(
    ("value", "answer", "expected"),
    [("gz", "1.2.3-gz.1", True), ("gz", "1.2.3", False), (True, "1.2.3", True), (7, [], True), ('a"b', 'a"b', True)],
)
def test_a_text_is_free_where_an_answer_has_it(value: Any, answer: Any, expected: bool) -> None:
    passing = {**call("m:quiet", "a", mark=value), "option": "mark"}
    assert is_free(passing, [{"result": answer}]) is expected
    assert is_free(call("m:quiet", "a", mark=value), [{"result": answer}]), "a test passes this one"


def test_sequences_pass_options() -> None:
    tests = [[call("m:quiet", text), call("m:quiet", text + "x")] for text in ("ab", "cd")]
    sequences = held_out_sequences(tests, ["m:quiet"], random.Random(3), {"m:quiet": {"mark": ["?"]}})
    marks = [item["keywords"].get("mark") for calls in sequences for item in calls]
    assert set(marks) == {None, "?"}
