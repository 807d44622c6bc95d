"""TRL's own GRPOTrainer over our environments, with scripted turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from helpers.model_factory import on_cpu, qwen
from helpers.scripted_policy import ASKED, TASKS, tasks_by_question
from helpers.tokenizer_factory import tokenizer
from trl import GRPOConfig, GRPOTrainer

from etude.trainers.integrations.environment import EnvironmentFactory

END = "<|im_end|>"
Turn = Callable[[str, int, int], str]
"""``turn(task_id, place, number)``: the text of turn ``number`` of the sample at ``place`` in its batch."""


def called(name: str, arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def through(name: str, arguments: Any) -> str:
    """Return a call through ``call_tool``."""
    return called("call_tool", {"name": name, "arguments": arguments})


class Scripted(GRPOTrainer):
    """GRPOTrainer whose sampler is the script ``turn``; nothing else is replaced. ``batches`` records its batches."""

    turn: Turn

    def _generate_single_turn(self, prompt_ids: Any, *others: Any, **more: Any) -> Any:
        if "has_tool_images" not in more:  # the first turn of a batch; later only samples that called a tool are passed
            self.places, self.number = list(range(len(prompt_ids))), 0
        texts = [self.processing_class.decode(ids) for ids in prompt_ids]
        answers = [
            self.turn(tasks_by_question()[ASKED.findall(text)[0]], place, self.number)
            for text, place in zip(texts, self.places, strict=True)
        ]
        self.places = [place for place, answer in zip(self.places, answers, strict=True) if "<tool_call>" in answer]
        self.number += 1
        return [self.processing_class.encode(text + END, add_special_tokens=False) for text in answers], None

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        self.batches: list[Any] = [*getattr(self, "batches", []), output]
        return output


def build_trainer(
    base: type,
    factory: EnvironmentFactory | dict[str, EnvironmentFactory],
    turn: Turn,
    out: Path,
    tasks: Sequence[str] = (),
    **config: Any,
) -> Any:
    words = tokenizer("qwen3-no-thinking")
    words.pad_token = "<|endoftext|>"
    arguments = {
        **on_cpu(out),
        "max_steps": 2,
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "max_completion_length": 4096,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "chat_template_kwargs": {"enable_thinking": False},
        **config,
    }
    rows = [row for one in (factory.values() if isinstance(factory, dict) else [factory]) for row in one.rows()]
    rows = [row for row in rows if not tasks or any(name in row["etude_reset"] for name in tasks)]
    torch.manual_seed(0)
    trainer = base(
        qwen(len(words)),
        args=GRPOConfig(**arguments),
        train_dataset=Dataset.from_list(rows),
        processing_class=words,
        environment_factory=factory,
    )
    trainer.turn = turn
    return trainer


def solved(task_id: str, number: int, say: Callable[[str, Any], str]) -> str:
    """Return turn ``number`` of the solution."""
    drill = TASKS.drill(task_id)
    calls = [*drill.solution(), ("submit", {"answer": drill.answer})]
    return say(*calls[number]) if number < len(calls) else "Done."
