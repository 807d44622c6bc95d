"""Tools of a server as Python methods, as TRL takes them: type hints and a Google docstring, made from the schemas."""

from __future__ import annotations

import inspect
import json
import keyword
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import GenericAlias
from typing import Any, Literal

Schema = Mapping[str, Any]
"""A tool, OpenAI's function style."""
Call = Callable[..., Awaitable[Any]]
"""``call(self, name, arguments)``: what every method does."""

GENERIC = "call_tool"
_GENERIC = {
    "name": GENERIC,
    "description": "Calls one of the task's tools.",
    "parameters": {
        "properties": {
            "name": {"type": "string", "description": "The tool's name."},
            "arguments": {"type": "object", "description": "The tool's arguments."},
        },
        "required": ["name", "arguments"],
    },
}
TAKEN = frozenset({"reset", "get_reward"})
_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def alike(sets: Sequence[Sequence[Schema]]) -> list[Schema] | None:
    """The one set of tools that all tasks have, when each can be a method; else None."""
    if not sets or any(list(tools) != list(sets[0]) for tools in sets):
        return None
    return list(sets[0]) if all(map(_fits, sets[0])) else None


def methods(tools: Sequence[Schema], call: Call) -> dict[str, Any]:
    """A coroutine method for each tool, by its name. It takes whatever a model wrote: the server judges arguments."""
    return {tool["function"]["name"]: _method(tool["function"], call) for tool in tools}


def generic(call: Call) -> dict[str, Any]:
    """One method, ``call_tool(name, arguments)``, for tasks whose tools differ."""

    def passed(self: Any, _: str, given: Mapping[str, Any]) -> Awaitable[Any]:
        return call(self, given.get("name", ""), given.get("arguments", {}))

    return {GENERIC: _method(_GENERIC, passed)}


def described(tools: Sequence[Schema]) -> str:
    """Tools as text for the prompt, where only ``call_tool`` can be offered as a tool."""
    lines = [json.dumps(tool["function"], ensure_ascii=False) for tool in tools]
    return "\n".join([f"These are the tools; use {GENERIC} to call one:", *lines])


def _method(function: Mapping[str, Any], call: Call) -> Any:
    name = function["name"]
    properties, required = _arguments(function)

    async def method(self: Any, /, **arguments: Any) -> Any:
        return await call(self, name, arguments)

    hints = {each: _hint(schema) for each, schema in properties.items()}
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for each in sorted(properties, key=lambda each: each not in required):  # those with a default come last
        default = inspect.Parameter.empty if each in required else None
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(each, kind, default=default, annotation=hints[each]))
    method.__name__ = method.__qualname__ = name
    method.__doc__ = _docstring(function, properties)
    method.__annotations__ = {**hints, "return": str}
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return method


def _docstring(function: Mapping[str, Any], properties: Mapping[str, Schema]) -> str:
    lines = [_line(function.get("description")) or f"Calls {function['name']}."]
    if properties:
        lines += ["", "Args:"]
        lines += [f"    {each}: {_line(schema.get('description')) or each}" for each, schema in properties.items()]
    return "\n".join(lines)


def _hint(schema: Schema) -> Any:
    if schema.get("enum"):
        return Literal[tuple(schema["enum"])]
    kind = schema.get("type")
    if isinstance(kind, list):
        hint = _TYPES[kind[0]]
        for other in kind[1:]:
            hint = hint | _TYPES[other]
        return hint
    items = schema.get("items")
    if kind == "array" and items and set(items) == {"type"} and isinstance(items["type"], str):
        return GenericAlias(list, (_TYPES[items["type"]],))
    return _TYPES.get(str(kind), Any)


def _arguments(function: Mapping[str, Any]) -> tuple[dict[str, Schema], set[str]]:
    parameters = function.get("parameters") or {}
    return dict(parameters.get("properties") or {}), set(parameters.get("required") or ())


def _fits(tool: Schema) -> bool:
    """Whether a method can be called so, and its arguments."""
    name = tool["function"]["name"]
    properties, _ = _arguments(tool["function"])
    words = [name, *properties]
    fit = all(word.isidentifier() and not keyword.iskeyword(word) for word in words)
    return fit and not name.startswith("_") and name not in TAKEN and "self" not in properties


def _line(text: Any) -> str:
    return " ".join(str(text or "").split())
