"""Rounds: the next one has the remaining recorded calls; private attributes do not count when calls are compared."""

from __future__ import annotations

from typing import Any

import pytest

from etude.environments.grading.out_of_process.judging.rounds import is_open, next_questions
from etude.environments.grading.out_of_process.processes.public_forms import attribute_names


def call(target: str, *arguments: Any) -> dict[str, Any]:
    return {"target": target, "arguments": list(arguments), "keywords": {}}


def url(number: Any, *pairs: Any, name: str = "URL") -> Any:
    return ["o", number, ["new", ["g", "m", name]], [], ["D", list(pairs)] if pairs else None, None, None]


SENT = [call("m:f", 1), call("m:g", url("0.1/_url.1")), call("m:h", ["r", "0.1/_url.1"], "0.1/_url.1"), call("@0.1", 2)]


def test_another_round_has_the_rest_of_the_record_with_the_solutions_numbers() -> None:
    asked = [SENT[0], {**call("m:g", url("0.1/_inner.1")), "answer": 3}]
    numbered = [call("m:h", ["r", "0.1/_inner.1"], "0.1/_url.1"), call("@0.1", 2)]
    assert next_questions(SENT, asked) == [SENT[0], call("m:g", url("0.1/_inner.1")), *numbered]
    assert next_questions(SENT, [*SENT[:1], call("m:other")]) == [SENT[0], call("m:other"), *SENT[2:]]
    assert next_questions(SENT, [*SENT, call("m:more")]) == [*SENT, call("m:more")]
    renamed = [call("m:f", ["r", "0.1"]), call("@0.1"), call("@0.2")]
    assert next_questions(renamed, [call("m:f", ["r", "0.2/x.1"])])[1:] == [call("@0.2/x.1"), call("@0.2")]


def test_a_number_stands_for_one_other() -> None:
    sent = [call("m:f", ["r", "0.1"], ["r", "0.1"]), call("m:g", ["r", "0.1"])]
    assert next_questions(sent, [call("m:f", ["r", "0.2"], ["r", "0.3"])])[1:] == sent[1:]
    assert next_questions(sent, [call("m:f", ["r", "0.2"], 5)])[1:] == sent[1:]


def test_a_test_that_had_an_answer_to_each_call_has_been_judged() -> None:
    assert is_open("Unanswered", {"unanswered": "call 1"}) and is_open("Unanswered", {})
    assert is_open("KeyError", {"unanswered": "call 1"})  # the test put another exception in the place of that one
    assert not is_open("AssertionError", {"unanswered": ""}) and not is_open("AssertionError", {})


def test_calls_that_are_nested_too_deeply_are_sent_alone() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = ["l", 1, [deep]]
    one, other = call("m:f", deep), call("m:f", deep, 1)
    assert [item["target"] for item in next_questions([one, call("m:g")], [one])] == ["m:f"]
    assert attribute_names([one, other]) == {}


KNOWN = attribute_names([call("m:f", url(1, ["_host", "a"], ["_port", 1]), url(2, name="Empty"))])


@pytest.mark.parametrize(
    ("asked", "is_same"),
    [
        (url(1, ["_host", "a"], ["_port", 1]), True),
        (url(1, ["_port", 1], ["_host", "a"]), True),
        (url(1, ["_host", "a"], ["_port", 1], ["_cache", ["d", "0.1/_cache.1", []]]), True),
        (url(1, ["_host", "b"], ["_port", 1]), False),
        (url(1, ["_host", "b"], ["_port", 1], ["_cache", 1]), False),
        (url(1, ["_host", "a"], ["_cache", 1]), False),
        (url(3, ["_host", "a"], ["_port", 1]), False),
        (url(1, ["_host", "a"], ["_port", 1], name="Other"), False),
        (["d", 1, [["_host", "a"], ["_port", 1], ["_cache", 1]]], False),
    ],
)
def test_a_call_is_the_same_without_what_a_solution_alone_has(side: dict[str, Any], asked: Any, is_same: bool) -> None:
    expected = call("m:f", url(1, ["_host", "a"], ["_port", 1]))
    assert side["same_call"](expected, call("m:f", asked), KNOWN) is is_same
    assert not side["same_call"](expected, call("m:g", asked), KNOWN)


def test_a_class_that_no_recorded_call_has_is_compared_whole(side: dict[str, Any]) -> None:
    one, two = (call("m:f", url(1, ["_x", value], name="Other")) for value in (1, 2))
    assert not side["same_call"](one, two, KNOWN) and side["same_call"](one, one, KNOWN)
    assert side["same_call"](call("m:f", url(2, name="Empty")), call("m:f", url(2, ["_n", 1], name="Empty")), KNOWN)
    assert not side["same_call"](call("m:f", url(2, name="Empty")), call("m:f", url(2, ["_n", 1], name="Empty")))


def test_what_a_cache_shows_first_is_in_full_where_it_is_seen(side: dict[str, Any]) -> None:
    """An object in a cache of the first argument is the second argument too, which then only names it."""
    held = url("0.1", ["_host", "b"])
    expected = call("m:f", url(1, ["_host", "a"]), held, ["t", [["r", "0.1"]]])
    cached = url(1, ["_cache", ["d", "0.1/_cache.1", [[1, held]]]], ["_host", "a"])
    asked = call("m:f", cached, ["r", "0.1"], ["t", [["r", "0.1"]]])
    assert side["same_call"](expected, asked, KNOWN)
    other = call("m:f", cached, ["r", "0.1"], ["t", [["r", 1]]])
    assert not side["same_call"](expected, other, KNOWN)


ALLOWED = {("new m", "Line"), ("m", "Page"), ("builtins", "ValueError")}


def stood_in(side: dict[str, Any], classes: Any, **parts: Any) -> dict[str, Any]:
    answer = {"after": None, "error": None, "result": None, "printed": "", "classes": classes, **parts}
    result = side["with_stand_ins"](answer, lambda module, name: (module, name) in ALLOWED)
    assert isinstance(result, dict)
    return result


def test_an_expected_base_stands_in_for_a_private_class_and_nothing_else_does(side: dict[str, Any]) -> None:
    private, expected = url("0.1", ["x", 1], name="_Line"), url("0.1", ["x", 1], name="Line")
    bases = {"m:_Line": [["m", "_Base"], ["m", "Line"]], "m:_Page": [["m", "Page"]]}
    assert stood_in(side, bases, result=["l", "0.2", [private]])["result"] == ["l", "0.2", [expected]]
    page = ["O", "0.1", ["g", "m", "_Page"], [], None, None]
    assert stood_in(side, bases, after=[page])["after"] == [["O", "0.1", ["g", "m", "Page"], [], None, None]]
    error = [["g", "m", "_Empty"], "x", ["x"]]
    found = stood_in(side, {"m:_Empty": [["builtins", "ValueError"]]}, error=error)["error"]
    assert found == [["g", "builtins", "ValueError"], "x", ["x"]]
    for bad in ({}, None, 3, {"m:_Line": 3}, {"m:_Line": [3, ["m"]]}, {"m:_Line": [["os", "system"], ["m", "Page"]]}):
        assert stood_in(side, bad, result=private)["result"] == private
    assert stood_in(side, {"m:Line": [["m", "Page"]]}, result=expected)["result"] == expected


def test_an_answer_says_what_its_classes_derive_from(side: dict[str, Any]) -> None:
    class Base(ValueError):
        pass

    class Private(Base):
        pass

    for kind, name in ((Base, "Base"), (Private, "Private")):
        kind.__module__, kind.__qualname__ = "environments", name
    assert side["bases_of"](Private, {"environments"}) == [["builtins", "ValueError"]]
    assert side["bases_of"](int, {"environments"}) == []
