"""Values on the wire, without any protocol's types: cleaning what comes in, measuring it, choosing what goes out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..hints.transcript.parsing import clean
from ..models import Episode, Observation, Reward, Turn
from .session import Standing

MAX_DEPTH = 64
"""Nesting beyond which an action's values are cut: nothing deeper could be stored or served again."""
_TURN_BYTES, _VALUE_BYTES = 1024, 64
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def plain(value: Any, depth: int = 0) -> Any:
    """Return ``value`` as JSON that can be stored and sent: no lone surrogates, no nesting beyond MAX_DEPTH.

    A number that JSON cannot write (NaN, infinity) becomes its name. A value that needs no change is returned itself.
    """
    return value if _is_plain(value, MAX_DEPTH - depth) else _cleaned(value, depth)


def _is_plain(value: Any, room: int) -> bool:
    """Return whether nothing in ``value`` has to change; it may be nested ``room`` levels deep."""
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
        return clean(value)
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
    """Return whether a JSON value consists of more than ``most`` values, itself included."""
    waiting, count = [value], 0
    while waiting and count <= most:
        item = waiting.pop()
        count += 1
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return count + len(waiting) > most


def model_tokens(action: Mapping[str, Any]) -> int:
    """Return the tokens that the model wrote: ``usage.completion_tokens`` where it is given, else characters / 4."""
    usage = action.get("usage")
    counted = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    if isinstance(counted, int) and not isinstance(counted, bool) and counted >= 0:
        return counted
    parts = {name: action[name] for name in ("text", "content", "tool_calls", "tool", "arguments") if action.get(name)}
    try:
        return -(-len(_ENCODER.encode(parts)) // 4)
    except (ValueError, RecursionError):
        return 0


def message_text(observation: Observation) -> str:
    """Return the messages that answer a turn as one text."""
    return "\n".join(message.content for message in observation.messages)


def served_episode(episode: Episode) -> dict[str, Any]:
    """Return what the holder of a session's token may read: no seed, and no grade, which names hidden tests."""
    return episode.model_dump(mode="json", exclude={"seed", "grade"})


@dataclass(frozen=True)
class LeftBehind:
    """An episode that its session has ended or abandoned; the copy that is served is made on request."""

    episode: Callable[[], Episode]
    size: int
    """About how many bytes of memory it takes."""
    final: dict[str, Any]
    """The fields that its end decides."""

    @classmethod
    def now(cls, standing: Standing, *, void: bool) -> LeftBehind:
        """Return the episode as it is left. A void one has no valid reward; one that is not over is closed here."""
        record = standing.record
        closed = not void and record.end is None and record.reward is None
        reward = Reward(valid=False) if void or closed else record.reward
        final = {"end": "closed" if closed else record.end, "reward": reward, "seconds": record.seconds}
        size = len(record.model_dump_json(exclude={"turns"})) + sum(map(memory_of, record.turns))
        return cls(standing.episode, size, final)

    def served(self) -> dict[str, Any]:
        """Return what the holder of its token may read."""
        return served_episode(self.episode().model_copy(update=self.final))


def memory_of(turn: Turn) -> int:
    """Return about how many bytes of memory a turn takes."""
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
