"""Trainer that plays nothing: its rollouts are made up, so that a test chooses rewards, masks and lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from helpers.model_factory import on_cpu, qwen
from helpers.tokenizer_factory import tokenizer
from trl import GRPOConfig

from etude.models import Reward
from etude.trainers.chat.chat_policy import TemplateChat
from etude.trainers.grpo.objectives import objective
from etude.trainers.grpo.parts import Parts
from etude.trainers.grpo.trainer import EtudeTrainer
from etude.trainers.rollouts.dataset_rows import reset_rows
from etude.trainers.rollouts.rollout import Rollout, Span
from etude.trainers.rollouts.session_pool import Limits

GROUP = 4
ROOM = 64
"""TRL's max_completion_length, the constant by which Dr.GRPO divides."""


def made_up(
    reward: float | None, task: str = "t", *, turns: Sequence[int] = (3, 2), truncated: bool = False
) -> Rollout:
    """Return a rollout: a prompt of 4 ids, and turns of these lengths with 2 ids of the environment between them.

    The ids depend on the task alone. Without a reward the episode is invalid.
    """
    generator = torch.Generator().manual_seed(sum(map(ord, task)))
    spans: list[Span] = []
    end = 4
    for length in turns:
        begin = end + 2 * bool(spans)
        spans.append(Span(begin, begin, begin + length))
        end = begin + length
    ids = torch.randint(3, 90, (end,), generator=generator).tolist()
    result = Reward(valid=False) if reward is None else Reward(value=reward)
    return Rollout(task, "e", ids, 4, spans, [], result, "submit", truncated)


Invent = Callable[[str, int], Rollout]
"""Returns a rollout of a task; the number counts the rollouts of this task so far."""


class Unplayed(EtudeTrainer):
    """Trainer with made-up rollouts; ``rounds`` are the tasks of each round of generation."""

    invent: Invent = staticmethod(lambda task, number: made_up(float(number % 2), task))

    def play(self, tasks: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        names = [task["task_id"] for task in tasks]
        self.rounds = [*getattr(self, "rounds", []), names]
        return [type(self).invent(name, names[:number].count(name)) for number, name in enumerate(names)]


def unplayed(
    out: Path, name: str = "dr_grpo", invent: Invent | None = None, parts: Any = None, tasks: int = 12, **config: Any
) -> Unplayed:
    """Return a trainer with two groups of four a step, in micro-batches of two, and an objective by name."""
    kind = type("Invented", (Unplayed,), {"invent": staticmethod(invent)}) if invent else Unplayed
    options = {
        "url": "http://127.0.0.1:9",
        "objective": objective(name),
        "limits": Limits(max_ids=ROOM, max_turn_ids=ROOM),
        **(parts or {}),
    }
    settings = {"gradient_accumulation_steps": 4, "max_completion_length": ROOM, **objective(name).arguments, **config}
    rows = [{"task_id": f"task-{number}"} for number in range(tasks)]
    trainer: Unplayed = _build(kind, out, options, rows, {"per_device_train_batch_size": 2, **settings})
    return trainer


def _build(kind: Any, out: Path, parts: dict[str, Any], tasks: Sequence[Any], config: dict[str, Any]) -> Any:
    words = tokenizer("qwen3-no-thinking")
    arguments = {
        **on_cpu(out),
        "disable_tqdm": True,
        "max_steps": 1,
        "num_generations": GROUP,
        "shuffle_dataset": False,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        **config,
    }
    built = Parts(chat=lambda sampler: TemplateChat(words, sampler, arguments={"enable_thinking": False}), **parts)
    rows = Dataset.from_list(reset_rows(tasks))
    model = qwen(len(words))
    for teacher in filter(None, (built.teacher, built.reference)):
        teacher.start(model)  # as the builder does: before TRL has changed the model
    return kind(model, built, args=GRPOConfig(**arguments), train_dataset=rows, processing_class=words)


def batch(trainer: Unplayed, *tasks: int) -> dict[str, Any]:
    """Return TRL's scored batch for a group of each of these rows."""
    trainer.model.train()
    rows = [{**trainer.train_dataset[task]} for task in tasks for _ in range(trainer.num_generations)]
    scored: dict[str, Any] = trainer._generate_and_score_completions(rows)
    return scored


def drilled(kind: Any, url: str, out: Path, parts: dict[str, Any], *, tasks: Sequence[Any] = (), **config: Any) -> Any:
    """Return a trainer that plays choose drills of a server: two groups of four, in micro-batches of four."""
    rows = tasks or [{"task_id": f"drill-choose-{seed}-l1"} for seed in (1, 2)]
    return _build(
        kind,
        out,
        {"url": url, "limits": Limits(max_ids=6000, max_turn_ids=400), **parts},
        rows,
        {
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 2,
            "max_completion_length": 6000,
            **objective("dr_grpo").arguments,
            **config,
        },
    )
