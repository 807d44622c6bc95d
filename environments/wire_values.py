"""What crosses the wire, without any protocol's types: cleaning what came in, and what may go out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..hints.transcript.status_line import read_status
from ..models import Episode, Observation, Reward, Turn
from .base import Standing

MAX_DEPTH = 64
"""Nesting beyond which an action's values are cut: nothing deeper could be stored or served again."""
_TURN_BYTES, _VALUE_BYTES = 1024, 64


def plain(value: Any, depth: int = 0) -> Any:
    """``value`` as everything after us can store and send it: no lone surrogates, no bottomless nesting.

    A number that JSON cannot write (NaN, infinity) becomes its name. What needs no change comes back itself.
    """
    return value if _is_plain(value, MAX_DEPTH - depth) else _cleaned(value, depth)


def _is_plain(value: Any, room: int) -> bool:
    """Whether nothing in it is to be changed; ``room`` is how deep it may go."""
    if isinstance(value, str):
        return value.isascii() or _is_encodable(value)
    if isinstance(value, dict):
        if room <= 0:
            return False
        for key, item in value.items():
            if not (_is_plain(key, room) and _is_plain(item, room - 1)):
                return False
    elif isinstance(value, list):
        if room <= 0:
            return False
        for item in value:
            if not _is_plain(item, room - 1):
                return False
    elif isinstance(value, float):
        return math.isfinite(value)
    return True


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cleaned(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if depth >= MAX_DEPTH and isinstance(value, (dict, list)):
        return "(nested too deep)"
    if isinstance(value, dict):
        return {plain(key): _cleaned(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, depth + 1) for item in value]
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


@dataclass(frozen=True)
class LeftBehind:
    """An episode that its session has left, made when somebody asks for it. ``size`` is about its bytes in memory."""

    episode: Callable[[], Episode]
    size: int
    as_left: dict[str, Any]

    @classmethod
    def now(cls, standing: Standing, *, void: bool) -> LeftBehind:
        """A void episode has no valid reward; nor has one that nobody finished, which ends here."""
        record = standing.record
        closed = not void and record.end is None and record.reward is None
        reward = Reward(valid=False) if void or closed else record.reward
        as_left = {"end": "closed" if closed else record.end, "reward": reward, "seconds": record.seconds}
        size = len(record.model_dump_json(exclude={"turns"})) + sum(map(memory_of, record.turns))
        return cls(standing.episode, size, as_left)

    def served(self) -> dict[str, Any]:
        """What the holder of its token may read."""
        return served_episode(self.episode().model_copy(update=self.as_left))


def memory_of(turn: Turn) -> int:
    """About how many bytes of memory a turn takes."""
    waiting: list[Any] = [turn.action, *(message.content for message in turn.messages)]
    total = _TURN_BYTES
    while waiting:
        value = waiting.pop()
        total += _VALUE_BYTES + (len(value) if isinstance(value, str) else 0)
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
    return total
