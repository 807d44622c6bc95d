"""Preference pairs as rows that TRL's DPOTrainer loads: ``prompt``, ``chosen`` and ``rejected`` as messages.

TRL renders them with the chat template of the model that is trained; the channel of this package encodes pairs itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .pairs import Pair
from .turns.prefixes import as_message


def preference_rows(pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    """Return one row for each pair. A pair with a malformed call is left out: a chat template cannot write it."""
    return [row for pair in pairs if (row := preference_row(pair)) is not None]


def preference_row(pair: Pair) -> dict[str, Any] | None:
    """Return a pair as a row, or None when one of its messages holds a malformed call."""
    prompt = [_plain(message) for message in pair.messages]
    chosen, rejected = (_plain(as_message(action, pair.turn)) for action in (pair.chosen, pair.rejected))
    if not all(map(_is_writable, [*prompt, chosen, rejected])):
        return None
    return {
        "prompt": prompt,
        "chosen": [chosen],
        "rejected": [rejected],
        "tools": json.dumps(pair.tools),
        "task_id": pair.task_id,
        "episode_id": pair.episode_id,
        "turn": pair.turn,
        "kind": pair.kind,
        "error": pair.error,
        "share": pair.share,
        "margin": pair.margin,
    }


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without the model's raw text, which only this package's own encoding reads."""
    return {name: value for name, value in message.items() if name != "raw" and value is not None}


def _is_writable(message: Mapping[str, Any]) -> bool:
    calls = message.get("tool_calls") or []
    return all(isinstance(call["function"]["arguments"], dict) for call in calls)
