"""Asynchronous runs of a small policy that reads hints, and trainers over the micro-batches that such a run made."""

from __future__ import annotations

import itertools
import json
import queue
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from helpers.policy_server import Sampler
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

from etude.trainers.asynchronous.build import async_arguments
from etude.trainers.asynchronous.trainer import AsyncEtudeTrainer
from etude.trainers.chat.chat_policy import TemplateChat
from etude.trainers.distillation.distiller import Settings
from etude.trainers.distillation.teachers import Teacher
from etude.trainers.grpo.parts import ChannelWeights, Parts
from etude.trainers.grpo.scored_batch import ScoredBatch, ScoredRow, attach
from etude.trainers.grpo.trainer import EtudeTrainer
from etude.trainers.integrations.completions import Completions
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.replay.channel.loss import open_replay
from etude.trainers.rollouts.dataset_rows import reset_rows
from etude.trainers.rollouts.session_pool import Limits
from etude.trainers.run.builder import grpo_arguments

BASE = Path(__file__).parents[2] / "recipes" / "drill_base"
"""A policy that reads hints: without one it guesses the verb of a drill's tool."""
WEIGHTS = {"rlvr": 1.0, "distillation": 0.5, "replay": 0.25}
LIMITS = Limits(640, 48)
NOWHERE = "http://127.0.0.1:9"


def recipe(url: str, vllm: str, out: Path, pairs: Path, **tables: Any) -> Recipe:
    """Return a recipe of two steps, each of two micro-batches with a group of four episodes."""
    table: dict[str, Any] = {
        "out": str(out),
        "model": {"name": str(BASE)},
        "environment": {"url": url, "tasks": 8},
        "train": {
            "steps": 2,
            "prompts": 2,
            "group": 4,
            "micro": 4,
            "learning_rate": 3e-4,
            "save_every": 2,
            "evaluate_tasks": 2,
            "gradients_every": 1,
        },
        "objective": {"name": "bnpo"},
        "channels": WEIGHTS,
        "distillation": {"gate": False},
        "replay": {"pairs": str(pairs), "batch": 3},
        "generation": {
            "max_ids": LIMITS.max_ids,
            "max_turn_ids": LIMITS.max_turn_ids,
            "vllm": "server",
            "vllm_url": vllm,
        },
        "asynchronous": {"episodes": 8},
    }
    return parse({**table, **{name: {**table.get(name, {}), **keys} for name, keys in tables.items()}})


def erring_first(words: Any) -> Sampler:
    """Return a script in which every other episode calls an unknown tool first; the policy writes all other turns."""
    begun = itertools.count()
    call = f"<tool_call>\n{json.dumps({'name': 'no_such_tool', 'arguments': {}})}\n</tool_call><|im_end|>"
    ids: list[int] = words.encode(call, add_special_tokens=False)

    def script(body: dict[str, Any]) -> list[int] | None:
        first = words.decode(body["prompt"]).count("<|im_start|>assistant") == 1
        return ids if first and next(begun) % 2 == 0 else None

    return script


@dataclass(frozen=True)
class Seen:
    """One micro-batch that a trainer has learned from."""

    step: int
    inputs: dict[str, Any]
    loss: float

    @property
    def rows(self) -> list[ScoredRow]:
        return ScoredBatch.from_inputs(self.inputs).rows

    def advantages(self) -> list[float]:
        """Return the advantage of each sample, in the order of ``rows``."""
        samples, values = self.inputs["segment_id"].flatten(), self.inputs["advantages"].flatten()
        return [float(values[samples == sample][0]) for sample in range(len(self.rows))]


class Recording(AsyncEtudeTrainer):
    """Trainer that keeps the micro-batches that it learns from, with their losses."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.seen: list[Seen] = []
        super().__init__(*arguments, **options)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *arguments: Any, **options: Any) -> torch.Tensor:
        loss = super().compute_loss(model, inputs, *arguments, **options)
        self.seen.append(Seen(self.state.global_step, dict(inputs), float(loss.detach())))
        return loss


def words() -> Any:
    return AutoTokenizer.from_pretrained(BASE)


def policy() -> Any:
    return AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)


def parts(weights: dict[str, float], model: Any, pairs: Path | None = None) -> Parts:
    """Return the parts of a trainer whose teacher and reference are ``model`` as it is now."""
    teacher = Teacher("frozen")
    teacher.start(model)
    replay = None
    if pairs is not None:
        replay, _ = open_replay(pairs, words(), max_ids=640, batch=3, template={"enable_thinking": False})
        replay.prepare(model)
    constant: Callable[[float], Callable[[float], float]] = lambda weight: lambda share: weight  # noqa: E731
    return Parts(
        url=NOWHERE,
        chat=lambda sampler: TemplateChat(words(), sampler, arguments={"enable_thinking": False}),
        channels=ChannelWeights(**{name: constant(weight) for name, weight in weights.items()}),
        distillation=Settings(gate=False),
        teacher=teacher,
        replay=replay,
        limits=LIMITS,
    )


def asynchronous(made: Recipe, out: Path, built: Parts | None = None) -> Any:
    """Return a trainer with the first weights that plays nothing: TRL's own, or ours with these parts."""
    stub = SimpleNamespace(rollout_buffer=queue.Queue(), metrics_queue=queue.Queue(), check_health=lambda age: None)
    arguments: dict[str, Any] = {
        "model": str(BASE),
        "args": AsyncGRPOConfig(**async_arguments(made, out)),
        "train_dataset": Dataset.from_list([{"prompt": [{"role": "user", "content": ""}]}]),
        "processing_class": words(),
        "rollout_worker": stub,
        "weight_transfer": SimpleNamespace(init_weight_transfer=lambda: None),
    }
    if built is None:
        trainer: Any = AsyncGRPOTrainer(**arguments)
    else:
        trainer = AsyncEtudeTrainer(arguments.pop("model"), built, policy=Completions(NOWHERE, "served"), **arguments)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 2
    return trainer


def synchronous(made: Recipe, out: Path, pairs: Path) -> EtudeTrainer:
    """Return the synchronous trainer of the same recipe with the first weights; it plays nothing."""
    model = policy()
    arguments = {**grpo_arguments(made, out), "use_vllm": False, "use_cpu": True}
    arguments = {name: value for name, value in arguments.items() if not name.startswith("vllm_")}
    trainer = EtudeTrainer(
        model,
        parts(WEIGHTS, model, pairs),
        args=GRPOConfig(**arguments),
        train_dataset=Dataset.from_list(reset_rows([{"task_id": "t"}])),
        processing_class=words(),
    )
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 2
    return trainer


def scored_batch(seen: Seen, rows: list[ScoredRow], site_weight: float) -> dict[str, Any]:
    """Return the micro-batch of the same episodes and advantages as TRL's GRPOTrainer makes it."""
    rollouts = [row.rollout for row in rows]
    before, after = (max(sizes) for sizes in zip(*((r.prompt, len(r.ids) - r.prompt) for r in rollouts), strict=True))

    def padded(lists: list[list[Any]], width: int, left: bool, filler: float = 0) -> torch.Tensor:
        fill = [[filler] * (width - len(values)) for values in lists]
        pairs = zip(fill, lists, strict=True)
        return torch.tensor([[*pad, *values] if left else [*values, *pad] for pad, values in pairs])

    lengths = [len(rollout.ids) - rollout.prompt for rollout in rollouts]
    inputs = {
        "prompt_ids": padded([rollout.ids[: rollout.prompt] for rollout in rollouts], before, True),
        "prompt_mask": padded([[1] * rollout.prompt for rollout in rollouts], before, True),
        "completion_ids": padded([rollout.ids[rollout.prompt :] for rollout in rollouts], after, False),
        "completion_mask": padded([[1] * length for length in lengths], after, False),
        "tool_mask": padded([rollout.mask for rollout in rollouts], after, False, 1),
        "old_per_token_logps": padded([rollout.logprobs for rollout in rollouts], after, False, 0.0),
        "advantages": torch.tensor(seen.advantages()),
        "num_items_in_batch": torch.tensor(1),
    }
    attach(inputs, rows, torch.tensor(site_weight))
    return inputs
