"""Invented episodes, and a recipe that learns from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from etude.models import Episode, ErrorTurn, Reward, ToolMessage, Turn
from etude.trainers.chat.chat_policy import TemplateChat, never_samples

TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}},
}


def episode(number: int = 0, *errors: ErrorTurn, task: str = "t", reward: float = 1.0, **more: Any) -> Episode:
    """Return an episode of three turns: two calls, then words alone."""
    turns = [
        Turn(
            action={"text": f"Now {turn}.", "tool_calls": [{"id": f"c{turn}", "name": "look", "arguments": {}}]},
            messages=[ToolMessage(tool_call_id=f"c{turn}", name="look", content=f"ok\nresult {number}")],
        )
        for turn in range(2)
    ]
    return Episode(
        episode_id=f"{task} {number}",
        task_id=task,
        prompt=f"Find {number}.",
        tools=[TOOL],
        turns=[*turns, Turn(action={"text": "It is done."})],
        error_turns=list(errors),
        reward=Reward(value=reward),
        **more,
    )


def erred(turn: int, **more: Any) -> ErrorTurn:
    return ErrorTurn(turn=turn, kind="invalid_args", **more)


def recipe(folder: Path, out: Path, /, *folders: Path, **tables: Any) -> dict[str, Any]:
    table: dict[str, Any] = {
        "stage": "sft",
        "episodes": [str(path) for path in folders] or ["runs/x"],
        "out": str(out),
        "model": {"name": str(folder), "template": {"enable_thinking": False}},
        "train": {"steps": 4, "micro": 2, "learning_rate": 3e-3, "save_every": 4},
        "sft": {"batch": 4},
    }
    for name, value in tables.items():
        table[name] = {**table.get(name, {}), **value} if isinstance(value, dict) else value
    return table


def chat_of(model: Path) -> TemplateChat:
    return TemplateChat(AutoTokenizer.from_pretrained(model), never_samples, arguments={"enable_thinking": False})


def learned_text(row: dict[str, list[int]], model: Path) -> str:
    labels = [label for label in row["labels"] if label != -100]
    return str(AutoTokenizer.from_pretrained(model).decode(labels))
