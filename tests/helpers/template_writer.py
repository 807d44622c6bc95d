"""A well-trained model of each family, and dialogues for it: writes what the family's template writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from helpers.tokenizer_factory import FAMILIES, Family, tokenizer

from etude.client import Client
from etude.models import Observation, Reward, State, ToolMessage
from etude.trainers.chat.chat_policy import TemplateChat, never_samples
from etude.trainers.rollouts.rollout import Rollout, Sample, rollout

families = pytest.mark.parametrize("name", list(FAMILIES))

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"It can {name}.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string", "description": "Where."}}},
        },
    }
    for name in ("read_file", "submit")
]
TASK = {"role": "user", "content": "Find the answer, and submit it."}
HINT = 'Reminder: there is no tool "grep"; the tools are: read_file, submit.\nRead the file that is named (a/b.py).'
RESULTS = ["ok\nthe ledger is read by id.", "error file_not_found: no such file: a/c.py\n", "exit 1", 'ok\n{"a": "b"}']
NO_CALL = "No tool was called."


def call(name: str, number: int, **arguments: Any) -> dict[str, Any]:
    return {"id": f"call{number:05}", "type": "function", "function": {"name": name, "arguments": arguments}}


class Writer:
    """Model of one family that writes exactly what the family's template writes."""

    def __init__(self, name: str) -> None:
        self.name, self.family = name, FAMILIES[name]
        self.tokenizer = tokenizer(name)
        self.chat = TemplateChat(self.tokenizer, never_samples, arguments=self.family.arguments)
        opened = not self.family.thought or self.family.thought.startswith("<think>")
        self.thought = self.family.thought if opened else f"<think>\n{self.family.thought}"

    def rendered(self, messages: Sequence[Mapping[str, Any]], *, generation: bool = False, text: bool = False) -> Any:
        if self.name == "deepseek-r1":
            messages = json.loads(json.dumps(messages))
            for message in messages:
                for tool_call in message.get("tool_calls", []):
                    tool_call["function"]["arguments"] = json.dumps(tool_call["function"]["arguments"])
        return self.tokenizer.apply_chat_template(
            messages,
            tools=TOOLS,
            add_generation_prompt=generation,
            tokenize=not text,
            return_dict=False,
            **self.family.arguments,
        )

    def words(self, message: Mapping[str, Any]) -> str:
        """Return an assistant's turn up to its end, after a thought where the family thinks."""
        before = self.rendered([TASK], generation=True, text=True)
        whole = self.rendered([TASK, message], text=True)
        written = whole[len(before) :] if whole.startswith(before) else whole.split("<｜Assistant｜>")[-1]
        written = written.removeprefix("<think>\n").removeprefix("\n</think>\n\n")
        ends = [written.index(end) + len(end) for end in map(self.decode, self.chat.stops) if end in written]
        return self.family.thought + written[: min(ends)]

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int] | int) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))


class Scripted:
    """Environment with scripted answers."""

    def __init__(self, answers: Sequence[Sequence[ToolMessage]]) -> None:
        self.answers = list(answers)
        self.actions: list[Mapping[str, Any]] = []

    async def reset(self, **arguments: Any) -> Observation:
        return Observation(prompt=TASK["content"], tools=TOOLS)

    async def step(self, action: Mapping[str, Any]) -> Observation:
        self.actions.append(action)
        answers = self.answers[len(self.actions) - 1] if len(self.actions) <= len(self.answers) else []
        return Observation(messages=list(answers), done=len(self.actions) >= len(self.answers))

    async def state(self) -> State:
        return State(episode_id="e", task_id="t", reward=Reward(value=1.0), end="submit")


def answer(number: int, content: str, name: str = "read_file") -> ToolMessage:
    return ToolMessage(tool_call_id=f"call{number:05}", name=name, content=content)


def dialogue(family: Family, *, calls_only: bool = False) -> tuple[list[dict[str, Any]], list[list[ToolMessage]]]:
    """Return assistant messages and the answers to each: a call, several calls, words alone, the end."""
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "tool_calls": [call("read_file", 1, path="a/b.py")]},
        {"role": "assistant", "content": "", "tool_calls": [call("read_file", 2, path="c"), call("read_file", 3)]},
        {"role": "assistant", "content": "It is found."},
        {"role": "assistant", "content": "", "tool_calls": [call("submit", 4, answer=7)]},
    ]
    answers = [
        [answer(1, RESULTS[0])],
        [answer(2, RESULTS[1]), answer(3, RESULTS[2])],
        [ToolMessage(role="user", content=NO_CALL)],
        [answer(4, "ok\nsubmitted", "submit")],
    ]
    if not family.several:
        messages[1]["tool_calls"].pop()
        answers[1].pop()
    numbers = [turn for turn in range(4) if not (calls_only and turn == 2)]
    return [messages[turn] for turn in numbers], [answers[turn] for turn in numbers]


def played(writer: Writer, turns: Sequence[str], answers: Sequence[Sequence[ToolMessage]]) -> tuple[Rollout, Scripted]:
    """Play a rollout in which the model writes ``turns``; return it and the environment."""
    script = iter(turns)

    async def sample(ids: Sequence[int], room: int) -> Sample:
        written = writer.encode(next(script))[:room]
        return Sample(written, [-0.5] * len(written))

    chat = TemplateChat(writer.tokenizer, sample, arguments=writer.family.arguments)
    client = Scripted(answers)
    return asyncio.run(rollout({}, chat, cast("Client", client))), client


def unquoted(text: str) -> str:
    """Undo the JSON in which some templates write results."""
    return text.replace("\\n", "\n").replace('\\"', '"')
