"""A tool's schema in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def one_line(name: str, rule: Mapping[str, Any]) -> str:
    """``bash(command: string, timeout_s?: number >= 0.1)``; ``?`` marks what may be left out."""
    return f"{name}({_fields(rule)})"


def _fields(rule: Mapping[str, Any]) -> str:
    required = rule.get("required") or ()
    properties = rule.get("properties") or {}
    return ", ".join(f"{key}{'' if key in required else '?'}: {_type(part)}" for key, part in properties.items())


def _type(rule: Any) -> str:
    if not isinstance(rule, Mapping):
        return "any"
    if isinstance(rule.get("enum"), list):
        return "|".join(json.dumps(value, ensure_ascii=False) for value in rule["enum"])
    kind = rule.get("type", "any")
    if kind == "object" and rule.get("properties"):
        return "{" + _fields(rule) + "}"
    if kind == "array":
        return f"[{_type(rule.get('items', {}))}]"
    text = "|".join(kind) if isinstance(kind, list) else str(kind)
    bounds = [f"{sign} {rule[word]}" for word, sign in (("minimum", ">="), ("maximum", "<=")) if word in rule]
    return " ".join([text, *bounds])
