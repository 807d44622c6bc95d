"""Check of arguments against a tool's JSON schema: the part of JSON Schema with which tools are described."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from .parsing import read_arguments

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}
_DEPTH = 32


def parameters_of(tools: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return the schemas of the tools' arguments by tool; anything but a tool schema is skipped.

    Both of OpenAI's shapes are read (``function`` nested or not), and Anthropic's ``input_schema``.
    """
    schemas: dict[str, dict[str, Any]] = {}
    for tool in tools if isinstance(tools, Sequence) and not isinstance(tools, str) else ():
        body = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if not isinstance(body, Mapping) or not isinstance(body.get("name"), str):
            continue
        schema = body.get("parameters", body.get("input_schema"))
        schemas[body["name"]] = dict(schema) if isinstance(schema, Mapping) else {}
    return schemas


def required_names(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that a tool's schema requires."""
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list | tuple) else []


def typed_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that were all written as text with the types that the schema states, where they can be read."""
    typed = dict(arguments)
    for name, rule in _mapping(schema.get("properties")).items():
        value, kind = typed.get(name), _mapping(rule).get("type")
        if isinstance(value, str) and kind in ("integer", "number", "boolean", "array", "object"):
            table, problem = read_arguments(f'{{"value": {value}}}')
            typed[name] = value if problem else table.get("value", value)
    return typed


def argument_problem(name: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Return the first thing that is wrong with the arguments of the tool ``name``; '' when they fit the schema.

    An optional argument that is null counts as absent, because models write it like that.
    """
    return _object(name, "", schema, arguments, 0)


def _object(name: str, place: str, schema: Mapping[str, Any], value: Mapping[str, Any], depth: int) -> str:
    properties = _mapping(schema.get("properties"))
    of = f" in {place}" if place else ""
    if schema.get("additionalProperties") is False:
        for key in value:
            if key not in properties:
                near = difflib.get_close_matches(str(key), properties, n=1, cutoff=0.5)
                guess = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(properties) or 'none'}"
                return f"{name} has no argument {str(key)[:80]!r}{of}{guess}"
    for key in required_names(schema):
        if value.get(key) is None and "null" not in _types(_mapping(properties.get(key))):
            kind = "/".join(_types(_mapping(properties.get(key))))
            return f"{name} needs the argument {key!r}{of}" + (f" ({kind})" if kind else "")
    for key, item in value.items():
        if key not in properties or item is None:
            continue
        wrong = _value(name, f"{place}.{key}" if place else str(key), _mapping(properties[key]), item, depth + 1)
        if wrong:
            return wrong
    return ""


def _value(name: str, place: str, schema: Mapping[str, Any], value: Any, depth: int) -> str:
    """Return what is wrong with one value; other rules of JSON Schema (``anyOf``, ``pattern``) are not checked."""
    if depth > _DEPTH:
        return ""
    types = _types(schema)
    if types and not any(_is(value, kind) for kind in types):
        return f"{name}: {place} must be of type {'/'.join(types)}, got {_shown(value)}"
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return f"{name}: {place} must be one of {', '.join(map(_shown, allowed))[:300]}, got {_shown(value)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if isinstance(low, int | float) and value < low:
            return f"{name}: {place} must be at least {low}, got {_shown(value)}"
        if isinstance(high, int | float) and value > high:
            return f"{name}: {place} must be at most {high}, got {_shown(value)}"
    if isinstance(value, Mapping):
        return _object(name, place, schema, value, depth)
    if isinstance(value, list):
        items = _mapping(schema.get("items"))
        problems = (_value(name, f"{place}[{index}]", items, item, depth + 1) for index, item in enumerate(value))
        return next(filter(None, problems), "")
    return ""


def _types(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema allows; empty when it names none or an unknown one."""
    kind = schema.get("type")
    kinds = list(kind) if isinstance(kind, list | tuple) else [kind]
    names = [name for name in kinds if isinstance(name, str) and name in _TYPES]
    return names if len(names) == len(kinds) else []


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _TYPES[kind])


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _shown(value: Any) -> str:
    try:
        return json.dumps(value, default=str)[:60]
    except (ValueError, TypeError, RecursionError):
        return type(value).__name__
