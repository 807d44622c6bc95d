"""Arguments against schemas."""

from __future__ import annotations

from typing import Any

import pytest

from etude.hints.transcript.tool_schemas import argument_problem, parameters_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "on": {"type": ["boolean", "null"]},
        "where": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"name": "x"}, ""),
        ({"name": "x", "size": None, "on": True, "where": {"city": "Ulm", "tags": ["a"]}}, ""),
        ({}, "f needs the argument 'name' (string)"),
        ({"name": None}, "f needs the argument 'name' (string)"),
        ({"name": "x", "sise": 1}, "f has no argument 'sise'; did you mean 'size'?"),
        ({"name": 1}, "f: name must be of type string, got 1"),
        ({"name": "x", "size": True}, "f: size must be of type integer, got true"),
        ({"name": "x", "size": 0}, "f: size must be at least 1, got 0"),
        ({"name": "x", "size": 10**400}, "f: size must be at most 9, got 1000"),
        ({"name": "x", "kind": "c"}, 'f: kind must be one of "a", "b", got "c"'),
        ({"name": "x", "on": "yes"}, 'f: on must be of type boolean/null, got "yes"'),
        ({"name": "x", "where": {}}, "f needs the argument 'city' in where (string)"),
        ({"name": "x", "where": {"city": "Ulm", "zip": 1}}, "f has no argument 'zip' in where; it takes city, tags"),
        ({"name": "x", "where": {"city": "Ulm", "tags": ["a", 2]}}, "f: where.tags[1] must be of type string, got 2"),
    ],
)
def test_the_first_thing_that_is_wrong_is_named(arguments: dict[str, Any], problem: str) -> None:
    problem = argument_problem("f", SCHEMA, arguments)
    assert problem.startswith(problem) and bool(problem) == bool(problem)


def test_what_a_schema_does_not_say_is_allowed() -> None:
    assert argument_problem("f", {}, {"a": 1}) == ""
    assert argument_problem("f", {"properties": {"a": {"anyOf": [{"type": "string"}]}}}, {"a": 1, "b": 2}) == ""


def test_schemas_of_each_shape_are_read_and_junk_is_left_out() -> None:
    tools = [
        {"type": "function", "function": {"name": "f", "parameters": SCHEMA}},
        {"name": "g"},
        {"function": 3},
        7,
        {},
    ]
    assert parameters_of(tools) == {"f": SCHEMA, "g": {}}
