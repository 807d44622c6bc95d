"""A tool's schema as one line of text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def signature(name: str, schema: Mapping[str, Any]) -> str:
    """Return ``bash(command: string, timeout_s?: number >= 0.1)``; ``?`` marks an optional argument."""
    return f"{name}({_fields(schema)})"


def _fields(schema: Mapping[str, Any]) -> str:
    required = schema.get("required") or ()
    properties = schema.get("properties") or {}
    return ", ".join(f"{key}{'' if key in required else '?'}: {_type(part)}" for key, part in properties.items())


def _type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if isinstance(schema.get("enum"), list):
        return "|".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "object" and schema.get("properties"):
        return "{" + _fields(schema) + "}"
    if kind == "array":
        return f"[{_type(schema.get('items', {}))}]"
    text = "|".join(kind) if isinstance(kind, list) else str(kind)
    bounds = [f"{sign} {schema[key]}" for key, sign in (("minimum", ">="), ("maximum", "<=")) if key in schema]
    return " ".join([text, *bounds])
