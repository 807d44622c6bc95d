"""Solved episodes as chat messages with tool calls: TRL's SFTTrainer format.

``messages`` are OpenAI's, with two choices that chat templates and ``datasets`` need: the ``arguments`` of a call are
an object (the templates of Qwen 2.5 and Llama encode them, so a string would be encoded twice), and a key without a
value is absent. ``datasets`` (4.7 or later) then keeps each message as JSON and fills nothing in. ``tools`` is one JSON
text, which TRL reads; in a column of objects every tool would get the parameters of all others, as nulls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...environments.runs.reader import read_run
from ...environments.tasks.task_set import TaskSet
from ...errors import ExportError, RunError
from ...hints.transcript.parsing import parse_turn
from ...models import Episode, Turn


def rows(tasks: TaskSet, episodes: Path | None = None) -> list[dict[str, Any]]:
    """Return the solved episodes of a run as chat messages with tool calls, in the order played. Raises ExportError."""
    if episodes is None:
        raise ExportError("the format sft needs episodes; name a run with --episodes runs/x")
    task_ids = {task.task_id for task in tasks}
    return [row(episode) for episode in read(episodes) if episode.task_id in task_ids and solved(episode)]


def read(folder: Path) -> Iterator[Episode]:
    """Yield the episodes of a run. Raises ExportError."""
    try:
        yield from (stored.episode for stored in read_run(folder))
    except RunError as error:
        raise ExportError(str(error)) from error


def solved(episode: Episode) -> bool:
    """Return whether an episode has reward 1, is valid, and has no confirmed finding."""
    findings = [*episode.findings, *(episode.grade.findings if episode.grade else [])]
    confirmed = any(finding.severity == "confirmed" for finding in findings)
    return episode.reward is not None and episode.reward.valid and episode.reward.value == 1.0 and not confirmed


def row(episode: Episode) -> dict[str, Any]:
    """Return the messages from the prompt to the agent's last turn; later results are left out."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": episode.prompt}]
    for number, turn in enumerate(episode.turns):
        messages.extend(turn_messages(turn, number))
    while messages[-1]["role"] != "assistant" and len(messages) > 1:
        messages.pop()
    return {"messages": messages, "tools": json.dumps(episode.tools), "task_id": episode.task_id}


def turn_messages(turn: Turn, number: int) -> Iterator[dict[str, Any]]:
    """Yield one assistant message and its answers, without malformed calls, which were not run."""
    parsed = parse_turn(turn.action, number)
    calls = [call for call in parsed.calls if not call.problem]
    if not parsed.text and not calls:
        return
    message: dict[str, Any] = {"role": "assistant", "content": parsed.text}
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    yield message
    waiting = {call.id for call in calls}
    for answer in turn.messages:
        if answer.role == "user":
            yield {"role": "user", "content": answer.content}
        elif answer.tool_call_id in waiting:  # once: a duplicate id is a malformed call
            waiting.remove(answer.tool_call_id)
            about = {"tool_call_id": answer.tool_call_id, "name": answer.name}
            yield {"role": "tool", **about, "content": answer.content}
