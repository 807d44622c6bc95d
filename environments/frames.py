"""What crosses the wire, without any protocol's types: cleaning what came in, and what may go out."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from ..hints.status import read_status
from ..models import Episode, Observation

MAX_DEPTH = 64
"""Nesting beyond which an action's values are cut: nothing deeper could be stored or served again."""


class Infrastructure(RuntimeError):
    """The machine failed, not the agent: the episode is void. The message never carries a host path."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"infrastructure: {redact(cause)}")


def redact(text: str) -> str:
    """One line without absolute paths, except those that the agent sees anyway."""
    shown = re.sub(r"(?<![\w.])/(?!workspace\b|opt/etude\b)[\w.+@~-]+(?:/[\w.+@~-]*)*", "<path>", text)
    return " ".join(shown.split())[:500] or "unknown cause"


def plain(value: Any, depth: int = 0) -> Any:
    """``value`` as everything after us can store and send it: no lone surrogates, no bottomless nesting.

    A number that JSON cannot write (NaN, infinity) becomes its name.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if depth >= MAX_DEPTH and isinstance(value, (dict, list)):
        return "(nested too deep)"
    if isinstance(value, dict):
        return {plain(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, depth + 1) for item in value]
    return value


def holds_more_than(value: Any, most: int) -> bool:
    """Whether a JSON value consists of more than ``most`` values, itself included."""
    waiting, count = [value], 0
    while waiting and count <= most:
        item = waiting.pop()
        count += 1
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return count + len(waiting) > most


class ToolSchema(NamedTuple):
    """One tool; ``parameters`` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


def tool_schemas(tools: list[dict[str, Any]]) -> list[ToolSchema]:
    """OpenAI function schemas, flattened."""
    functions = [tool.get("function", tool) for tool in tools]
    return [ToolSchema(f["name"], f.get("description", ""), f.get("parameters", {})) for f in functions]


def message_text(observation: Observation) -> str:
    """The answer to a turn as one text."""
    return "\n".join(message.content for message in observation.messages)


def error_code(content: str) -> str:
    """The code of a tool message's status line (``error invalid_args: ...``); '' when the tool itself answered."""
    return read_status(content).code


def served_episode(episode: Episode) -> dict[str, Any]:
    """What the holder of a session's token may read: no seed, and no grade, since that names hidden tests."""
    return episode.model_dump(mode="json", exclude={"seed", "grade"})
