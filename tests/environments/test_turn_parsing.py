"""Nothing that a model can emit is an error: it becomes calls, some of them with a problem."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from etude.environments.wire_values import model_tokens
from etude.hints.transcript.parsing import MAX_ANSWERS, MAX_CALLS, Call, parse_turn


def calls(action: dict[str, Any]) -> list[Call]:
    return parse_turn(action, 3).calls


@pytest.mark.parametrize(
    "item",
    [
        {"id": "a", "name": "bash", "arguments": {"command": "ls"}},
        {"id": "a", "name": "bash", "arguments": '{"command": "ls"}'},
        {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}},
        {"id": "a", "type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}},
        {"id": "a", "tool": "bash", "arguments": {"command": "ls"}},
    ],
)
def test_each_shape_of_a_call_means_the_same(item: dict[str, Any]) -> None:
    assert calls({"tool_calls": [item]}) == [Call("a", "bash", {"command": "ls"})]


def test_the_short_form_is_one_call_with_a_made_up_id() -> None:
    assert calls({"tool": "bash", "arguments": {"command": "ls"}}) == [Call("call_3_0", "bash", {"command": "ls"})]


@pytest.mark.parametrize("arguments", [None, "", "  ", "{}", {}])
def test_absent_arguments_are_an_empty_object(arguments: Any) -> None:
    assert calls({"tool_calls": [{"id": "a", "name": "submit", "arguments": arguments}]}) == [Call("a", "submit")]


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ({"tool_calls": "bash"}, "tool_calls must be a list of calls, got string"),
        ({"tool_calls": {"name": "bash"}}, "tool_calls must be a list of calls, got object"),
        ({"tool_calls": [7]}, "a call must be an object, got number"),
        ({"tool_calls": [{}]}, "the call names no tool"),
        ({"tool_calls": [{"name": ["bash"]}]}, "tool name must be a string, got list"),
        ({"tool_calls": [{"function": {"arguments": "{}"}}]}, "the call names no tool"),
        ({"tool_calls": [{"name": "bash", "arguments": "{'command'"}]}, "not valid JSON: Expecting property name"),
        ({"tool_calls": [{"name": "bash", "arguments": "[1]"}]}, "must be a JSON object, got list"),
        ({"tool_calls": [{"name": "bash", "arguments": 1.5}]}, "must be a JSON object, got number"),
        ({"tool_calls": [{"name": "bash", "arguments": "[" * 100_000}]}, "nested too deeply"),
        ({"tool_calls": [{"name": "bash", "arguments": '{"n": ' + "9" * 5000 + "}"}]}, "a number is too long"),
    ],
)
def test_a_broken_call_says_what_is_wrong(action: dict[str, Any], problem: str) -> None:
    (call,) = calls(action)
    assert call.problem.startswith("malformed_call: ")
    assert problem in call.problem


def test_a_duplicate_id_is_a_malformed_call_and_the_first_runs() -> None:
    first, second = calls({"tool_calls": [{"id": "a", "name": "bash"}, {"id": "a", "name": "bash"}]})
    assert first.problem == ""
    assert "duplicate id 'a'" in second.problem


def test_calls_beyond_the_sixteenth_are_not_run() -> None:
    parsed = calls({"tool_calls": [{"name": "bash"}] * (MAX_CALLS + 2)})
    assert [bool(call.problem) for call in parsed] == [False] * MAX_CALLS + [True, True]
    assert len({call.id for call in parsed}) == MAX_CALLS + 2


def test_very_many_calls_are_one_malformed_call_and_none_is_run() -> None:
    assert len(calls({"tool_calls": [{}] * MAX_ANSWERS})) == MAX_ANSWERS
    parsed = calls({"tool_calls": [{"name": "submit"}] * 90_000})
    assert [call.problem for call in parsed] == [
        "malformed_call: 90000 calls in a turn, of which at most 16 are run; none was run"
    ]
    assert len(parse_turn({"tool_calls": [{}] * 300}, 0, strict=False).calls) == 300


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        (None, ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ({"x": 1}, '{"x": 1}'),
        ("\ud800", "?"),
    ],
)
def test_text_of_any_type_is_text(text: Any, expected: str) -> None:
    assert parse_turn({"text": text}, 0).text == expected


def test_tokens_are_the_ones_given_or_a_quarter_of_the_characters() -> None:
    assert model_tokens({"text": "x", "usage": {"completion_tokens": 12}}) == 12
    assert model_tokens({"text": "x" * 400, "usage": {"completion_tokens": -1}}) in range(100, 110)


def test_random_junk_never_raises() -> None:
    rng = random.Random(0)

    def junk(depth: int) -> Any:
        kind = rng.randrange(9 if depth else 6)
        scalars = [
            None,
            True,
            rng.randrange(-9, 9),
            rng.random(),
            "".join(rng.choices('a{["\\\x00\ud800é:,', k=6)),
            "bash",
        ]
        if kind < 6:
            return scalars[kind]
        if kind == 6:
            return [junk(depth - 1) for _ in range(rng.randrange(4))]
        keys = ["id", "name", "arguments", "function", "tool", "tool_calls", "text", "content", "usage", "x"]
        created = {rng.choice(keys): junk(depth - 1) for _ in range(rng.randrange(5))}
        return created if kind == 7 else json.dumps(created)

    for number in range(3000):
        action = {key: junk(3) for key in rng.sample(["text", "tool_calls", "tool", "arguments", "usage"], k=3)}
        for call in parse_turn(action, number).calls:
            assert call.id
            assert call.problem or call.name
        assert model_tokens(action) >= 0


def test_arguments_that_cannot_be_encoded_are_cleaned_where_they_are_read() -> None:
    written = '{"\\\\ud800": ["\\\\udfff", {"a\\\\ud801": "\\\\ud83d\\\\ude00"}], "n": 1}'.replace("\\\\", "\\")
    (call,) = calls({"tool_calls": [{"id": "a", "name": "bash", "arguments": written}]})
    assert call.arguments == {"?": ["?", {"a?": "\U0001f600"}], "n": 1}


def test_arguments_of_any_depth_are_a_call_or_a_problem() -> None:
    for depth in (50, 400, 900, 5000, 100_000):
        written = '{"a":' * depth + "1" + "}" * depth
        (call,) = calls({"tool_calls": [{"id": "a", "name": "bash", "arguments": written}]})
        assert call.arguments or "nested too deeply" in call.problem
