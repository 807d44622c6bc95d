"""Trainer with scripted turns: some rollouts solve their task, some call a tool that does not exist."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import torch
from helpers.model_factory import qwen
from helpers.tokenizer_factory import tokenizer

from etude.environments.drill.tasks import DrillTasks
from etude.trainers.grpo.trainer import EtudeTrainer
from etude.trainers.rollouts.rollout import Sample

TASKS = DrillTasks(["choose"], level=1)
ASKED = re.compile(r"What is the [a-z ]+ of the [a-z ]+ [A-Z]{3}-\d{5}\?")


@functools.cache
def tasks_by_question() -> dict[str, str]:
    """Return the id of each listed task, by its question."""
    return {ASKED.findall(TASKS.drill(task.task_id).statement)[0]: task.task_id for task in TASKS}


class Scripted(EtudeTrainer):
    """Trainer whose rollouts err first with the probability ``erring``, and then give up with ``giving_up``."""

    erring, giving_up = 0.5, 0.3

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        draws = torch.rand(len(prompts), 2).tolist()
        return [
            Sample(self._turn(ids, err < self.erring, give_up < self.giving_up)[:room])
            for ids, room, (err, give_up) in zip(prompts, rooms, draws, strict=True)
        ]

    def task_of(self, ids: list[int]) -> str:
        return tasks_by_question()[ASKED.findall(self.processing_class.decode(ids))[0]]

    def _turn(self, ids: list[int], errs: bool, gives_up: bool) -> list[int]:
        text = self.processing_class.decode(ids)
        drill = TASKS.drill(self.task_of(ids))
        ((name, arguments),) = drill.solution()
        failed = "there is no tool" in text
        done = text.count("<tool_response>") - failed
        if done or (failed and gives_up):
            name, arguments = "submit", {"answer": drill.answer if done else "unknown"}
        elif errs and not failed:
            name = "no_such_tool"
        return self._call(name, arguments)

    def _call(self, name: str, arguments: dict[str, Any]) -> list[int]:
        call = json.dumps({"name": name, "arguments": arguments})
        ids: list[int] = self.processing_class.encode(
            f"<tool_call>\n{call}\n</tool_call><|im_end|>", add_special_tokens=False
        )
        return ids


def base(folder: Path) -> Path:
    """Save a tiny random model with its tokenizer, for a recipe's model.name, and return the folder."""
    words: Any = tokenizer("qwen3-no-thinking")
    words.pad_token = "<|endoftext|>"
    qwen(len(words)).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
