"""Text of hints: whole sentences within a length, quotes on one line, lists of names, schemas of tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...models import Hint
from ..transcript.tool_schemas import required_names

LONGEST = 400
"""Characters of a hint."""
LONGEST_LIST = 900
"""Characters of a hint that lists the tools: a name that is left out may be the right one."""


def make_hint(template: str, *sentences: str, longest: int = LONGEST) -> Hint:
    """Return the sentences as a Hint of at most ``longest`` characters: whole sentences, as many as fit in order."""
    text = ""
    for sentence in (" ".join(map(str.strip, sentence.splitlines())).strip() for sentence in sentences):
        longer = f"{text} {sentence}".strip()
        if len(longer) > longest:
            text = text or longer[: longest - 3] + "..."
            break
        text = longer
    return Hint(text=text, source="template", template=template, role="user")


def quote(text: str, longest: int = 60) -> str:
    """Return a piece of text on one line, in quotes, cut to ``longest`` characters."""
    return _quoted(" ".join(text.split()), longest)


def quote_verbatim(line: str) -> str:
    """Return one line of a file in quotes with all its spaces, a tab as ``\\t``, cut to 90 characters."""
    return _quoted(line.rstrip("\r\n").replace("\t", "\\t"), 90)


def _quoted(text: str, longest: int) -> str:
    return f"`{text if len(text) <= longest else text[: longest - 3] + '...'}`"


def listed(names: Iterable[str], room: int = 220) -> str:
    """Return names in a row, as many as fit into ``room`` characters, and the number of the others."""
    names = list(names)
    shown: list[str] = []
    for name in names:
        if shown and len(", ".join([*shown, name])) > room:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(name[:room])
    return ", ".join(shown)


def signature(name: str, schema: Mapping[str, Any]) -> str:
    """Return ``bash(command: string, timeout_s?: number >= 0.1)``; ``?`` marks an optional argument."""
    return f"{name}({_fields(schema)})"


def _fields(schema: Mapping[str, Any]) -> str:
    required, properties = required_names(schema), schema.get("properties")
    if not isinstance(properties, Mapping):
        return ""
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
    text = "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    bounds = [f"{sign} {schema[key]}" for key, sign in (("minimum", ">="), ("maximum", "<=")) if key in schema]
    return " ".join([text, *bounds])
