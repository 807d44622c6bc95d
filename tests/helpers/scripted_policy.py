"""A trainer whose turns a script writes: some rollouts solve, some name a tool that there is not."""

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
def known() -> dict[str, str]:
    """The id of each listed task, by its question."""
    return {ASKED.findall(TASKS.drill(task.task_id).statement)[0]: task.task_id for task in TASKS}


class Scripted(EtudeTrainer):
    """Errs first in half of the rollouts, as torch's chance has it; in some of those it then gives up."""

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        draws = torch.rand(len(prompts), 2).tolist()
        each = zip(prompts, rooms, draws, strict=True)
        return [
            Sample(self._turn(ids, errs < self.erring, gives < self.giving)[:room]) for ids, room, (errs, gives) in each
        ]

    def task_of(self, ids: list[int]) -> str:
        return known()[ASKED.findall(self.processing_class.decode(ids))[0]]

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
        return self._said(name, arguments)

    def _said(self, name: str, arguments: dict[str, Any]) -> list[int]:
        call = json.dumps({"name": name, "arguments": arguments})
        said: list[int] = self.processing_class.encode(
            f"<tool_call>\n{call}\n</tool_call><|im_end|>", add_special_tokens=False
        )
        return said

    erring, giving = 0.5, 0.3


def base(folder: Path) -> Path:
    """A tiny random model with its tokenizer, saved: what a recipe's model.name may name."""
    made: Any = tokenizer("qwen3-no-thinking")
    made.pad_token = "<|endoftext|>"
    qwen(len(made)).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder
