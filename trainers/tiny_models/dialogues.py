"""Dialogues of a JSONL file as ids, exactly as a rollout has them: the same template, hints inserted the same way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import RecipeError
from ..chat.chat_policy import TemplateChat

Row = Mapping[str, Any]
CALL = "<tool_call>\n{}\n</tool_call>"


@dataclass(frozen=True)
class Dialogue:
    """A dialogue as ids; ``targets`` is 1 where the assistant wrote, else 0."""

    ids: list[int]
    targets: list[int]


def read_dialogues(path: Path) -> list[Row]:
    """Read rows with ``messages`` and ``tools``; a ``hint`` message precedes its turn. Raises RecipeError."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    except (OSError, ValueError) as error:
        raise RecipeError(f"cannot read {path} as JSON lines ({error}); write it again") from None
    if not rows or not all(isinstance(row, dict) and row.get("messages") for row in rows):
        raise RecipeError(f"{path} holds no dialogues; each line needs messages and tools")
    return rows


def with_roles(row: Row) -> list[dict[str, Any]]:
    """Return the messages for any template: a hint has the system's role."""
    return [{**message, "role": "system"} if message["role"] == "hint" else message for message in row["messages"]]


def encode(row: Row, chat: TemplateChat, tokenizer: Any) -> Dialogue:
    """Return prompt, hints, turns and results as ids, in their order; they end with the last turn."""
    before, turns = _split_turns(row["messages"])
    written = chat.prompt(before, row.get("tools") or [])
    ids, targets, generation = list(written.ids), [0] * len(written.ids), written.generation
    for number, (hint, turn, answers) in enumerate(turns):
        if hint:
            insertion = chat.hint(hint, number == 0)
            place = generation - insertion.back
            ids[place:place] = insertion.ids
            targets[place:place] = [0] * len(insertion.ids)
        sampled = tokenizer.encode(_turn_text(turn) + tokenizer.eos_token, add_special_tokens=False)
        ids += sampled
        targets += [1] * len(sampled)
        if number + 1 < len(turns):
            reply = chat.reply(sampled, answers)
            generation = len(ids) + reply.generation
            ids += reply.ids
            targets += [0] * len(reply.ids)
    return Dialogue(ids, targets)


Turn = tuple[str, Row, list[Row]]
"""A hint ('' for none), the assistant's message, and its answers."""


def _split_turns(messages: Sequence[Row]) -> tuple[list[Row], list[Turn]]:
    """Return the messages before the first turn, and the turns."""
    before: list[Row] = []
    turns: list[Turn] = []
    hint = ""
    for message in messages:
        if message["role"] == "hint":
            hint = message["content"]
        elif message["role"] == "assistant":
            turns.append((hint, message, []))
            hint = ""
        elif turns:
            turns[-1][2].append(message)
        else:
            before.append(message)
    return before, turns


def _turn_text(turn: Row) -> str:
    calls = [call["function"] for call in turn.get("tool_calls") or []]
    parts = [CALL.format(json.dumps({"name": call["name"], "arguments": call["arguments"]})) for call in calls]
    return "\n".join([turn["content"], *parts] if turn.get("content") else parts)
