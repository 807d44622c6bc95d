"""Conversations that any chat template takes: messages with a role and a text, and nothing else.

A tool call is part of the assistant's text, a result is a user message, both in the Hermes notation that Qwen's
templates write. Without a run the rows are the prompts of the tasks; with one they are all its valid episodes, failed
ones included, with their rewards.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from ...environments.tasks.task_set import TaskSet
from ...models import Episode
from . import nemo_gym, sft

_SYSTEM = """You solve tasks with these tools:
<tools>
{tools}
</tools>
Call a tool with its name and arguments in JSON:
<tool_call>
{{"name": "NAME", "arguments": {{}}}}
</tool_call>"""


def rows(tasks: TaskSet, episodes: Path | None = None) -> list[dict[str, Any]]:
    """Return the prompts of a set, or the episodes of a run, as messages of plain text, in order.

    Raises ExportError.
    """
    if episodes is None:
        return [_prompt_row(row) for row in asyncio.run(nemo_gym.collect_rows(tasks))]
    task_ids = {task.task_id for task in tasks}
    valid = (episode for episode in sft.read(episodes) if episode.reward is not None and episode.reward.valid)
    return [episode_row(episode) for episode in valid if episode.task_id in task_ids]


def episode_row(episode: Episode) -> dict[str, Any]:
    """Return one episode: its messages, its reward and its ids."""
    conversation = sft.row(episode)
    messages = [_message("system", _system(episode.tools))]
    for message in map(_plain, conversation["messages"]):
        if message["role"] == messages[-1]["role"]:  # several results; templates want roles to alternate
            messages[-1]["content"] += "\n" + message["content"]
        else:
            messages.append(message)
    reward = episode.reward.value if episode.reward else 0.0
    return {"messages": messages, "reward": reward, "task_id": episode.task_id, "episode_id": episode.episode_id}


def _prompt_row(row: dict[str, Any]) -> dict[str, Any]:
    params = row["responses_create_params"]
    names = ("name", "description", "parameters")
    tools = [{"type": "function", "function": {name: tool[name] for name in names}} for tool in params["tools"]]
    return {"messages": [_message("system", _system(tools)), *params["input"]], "task_id": row["task_id"]}


def _system(tools: list[dict[str, Any]]) -> str:
    return _SYSTEM.format(tools="\n".join(map(json.dumps, tools)))


def _plain(message: dict[str, Any]) -> dict[str, str]:
    if message["role"] == "tool":
        return _message("user", f"<tool_response>\n{message['content']}\n</tool_response>")
    calls = [json.dumps(call["function"]) for call in message.get("tool_calls", [])]
    parts = [message["content"], *(f"<tool_call>\n{call}\n</tool_call>" for call in calls)]
    return _message(message["role"], "\n".join(part for part in parts if part))


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
