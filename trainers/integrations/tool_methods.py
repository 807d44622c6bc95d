"""A server's tools as Python methods for TRL, which reads their type hints and Google docstrings."""

from __future__ import annotations

import inspect
import json
import keyword
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import GenericAlias
from typing import Any, Literal

Schema = Mapping[str, Any]
"""Schema of a tool in OpenAI's function style."""
Call = Callable[..., Awaitable[Any]]
"""``call(self, name, arguments)``, which every method calls."""

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
RESERVED = frozenset({"reset", "get_reward"})
"""Method names that TRL uses itself."""
_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def common_tools(toolsets: Sequence[Sequence[Schema]]) -> list[Schema] | None:
    """Return the tools that all tasks have in common; None when they differ, or when one cannot be a method."""
    if not toolsets or any(list(tools) != list(toolsets[0]) for tools in toolsets):
        return None
    return list(toolsets[0]) if all(map(_fits, toolsets[0])) else None


def methods(tools: Sequence[Schema], call: Call) -> dict[str, Any]:
    """Return a coroutine method for each tool, by name. It accepts any arguments: the server judges them."""
    return {tool["function"]["name"]: _method(tool["function"], call) for tool in tools}


def generic_method(call: Call) -> dict[str, Any]:
    """Return one method, ``call_tool(name, arguments)``, for tasks whose tools differ."""

    def call_named(self: Any, _: str, arguments: Mapping[str, Any]) -> Awaitable[Any]:
        return call(self, arguments.get("name", ""), arguments.get("arguments", {}))

    return {GENERIC: _method(_GENERIC, call_named)}


def tools_text(tools: Sequence[Schema]) -> str:
    """Return tools as text for the prompt, where TRL can only offer ``call_tool``."""
    lines = [json.dumps(tool["function"], ensure_ascii=False) for tool in tools]
    return "\n".join([f"These are the tools; use {GENERIC} to call one:", *lines])


def _method(function: Mapping[str, Any], call: Call) -> Any:
    name = function["name"]
    properties, required = _arguments(function)

    async def method(self: Any, /, **arguments: Any) -> Any:
        return await call(self, name, arguments)

    hints = {argument: _hint(schema) for argument, schema in properties.items()}
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for argument in sorted(properties, key=lambda argument: argument not in required):  # those with a default come last
        default = inspect.Parameter.empty if argument in required else None
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(argument, kind, default=default, annotation=hints[argument]))
    method.__name__ = method.__qualname__ = name
    method.__doc__ = _docstring(function, properties)
    method.__annotations__ = {**hints, "return": str}
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return method


def _docstring(function: Mapping[str, Any], properties: Mapping[str, Schema]) -> str:
    lines = [_line(function.get("description")) or f"Calls {function['name']}."]
    if properties:
        lines += ["", "Args:"]
        lines += [f"    {name}: {_line(schema.get('description')) or name}" for name, schema in properties.items()]
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
    """Return whether the names of a tool and its arguments are valid Python names that TRL does not use."""
    name = tool["function"]["name"]
    properties, _ = _arguments(tool["function"])
    words = [name, *properties]
    fit = all(word.isidentifier() and not keyword.iskeyword(word) for word in words)
    return fit and not name.startswith("_") and name not in RESERVED and "self" not in properties


def _line(text: Any) -> str:
    return " ".join(str(text or "").split())
