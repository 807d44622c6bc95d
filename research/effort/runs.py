"""Runs of the real trainer from a folder of weights, and what is measured on held-out drills."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from etude.environments.drill.tasks import Name, default_drills
from etude.research.effort.base import TEMPLATE
from etude.research.error_turns.real_stack.arm_trainer import NoRounding
from etude.research.error_turns.worlds.world import first_calls, learned_seeds, split_seeds
from etude.trainers.grpo.effort import count_effort
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Environment
from etude.trainers.rollouts.local_server import local_server
from etude.trainers.rollouts.rollout import Rollout
from etude.trainers.run.builder import BuiltRun, build

GROUP = 8
"""Episodes of a task in one update, unless a run says otherwise."""
MAX_IDS, MAX_TURN_IDS = 1600, 96
SESSIONS = 256
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}
"""Student's t for a two-sided 95 % interval of the mean of so many values."""

Cell = dict[str, float]
"""Means over the episodes of one set of tasks."""


@contextmanager
def drills() -> Iterator[str]:
    """Serve drills of all families and levels, and yield the server's address."""
    os.environ.setdefault("MAX_CONCURRENT_ENVS", str(SESSIONS))
    with local_server(Environment(serve="drill")) as url:
        yield url


def held_out(family: str, level: int, number: int) -> list[str]:
    """Return ids of tasks that no run learns from; their words are those of training."""
    return [Name(family, seed, level).task_id for seed in split_seeds(0, "train", number)]


def learned(family: str, levels: Sequence[int], seed: int, number: int) -> list[str]:
    """Return ids of tasks that the run of a seed learns from, their levels in turn."""
    seeds = learned_seeds(f"{family} {levels}", seed, number)
    return [Name(family, drill, levels[place % len(levels)]).task_id for place, drill in enumerate(seeds)]


def prepare(
    base: Path,
    out: Path,
    url: str,
    tasks: Sequence[str],
    *,
    seed: int,
    rate: float,
    steps: int,
    episodes: int,
    group: int = GROUP,
    tables: Mapping[str, Any] | None = None,
    trainer: Any = None,
) -> BuiltRun:
    """Return a run of ``steps`` updates of ``episodes`` each, in the emptied folder ``out``; it saves no checkpoints.

    ``tables`` are tables of the recipe beside those of the length limits and batches.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    recipe = parse(
        {
            "seed": seed,
            "out": str(out),
            "model": {"name": str(base.resolve()), "template": TEMPLATE},
            "environment": {"url": url},
            "train": {
                "steps": steps, "prompts": episodes // group, "group": group, "micro": episodes,
                "learning_rate": rate, "gradients_every": 0,
            },
            "generation": {"max_ids": MAX_IDS, "max_turn_ids": MAX_TURN_IDS},
            # Above log 2, so that the drift of a moving teacher is measured and stops nothing.
            "safety": {"teacher_drift": 1.0, "hack_rate": 0.0},
            **(tables or {}),
        },
        "the recipe of a run",
    )  # fmt: skip
    run = build(recipe, url, tasks, trainer=trainer, dialogues=None, progress=lambda phase, done, total: None)
    run.trainer.args.save_strategy = "no"
    run.trainer.add_callback(NoRounding())
    return run


def measure(trainer: Any, sets: Mapping[str, Sequence[str]]) -> dict[str, Cell]:
    """Play every set of tasks with the current policy, sampled from the same seed each time."""
    training = trainer.model.training
    trainer.model.eval()
    torch.manual_seed(0)
    cells = {}
    for name, tasks in sets.items():
        played = [rollout for rollout in trainer.play([{"task_id": task} for task in tasks]) if rollout.reward.valid]
        cells[name] = summary(played, trainer.processing_class.decode)
    trainer.model.train(training)
    return cells


def summary(played: Sequence[Rollout], decode: Any) -> Cell:
    """Return the share of solved episodes and the means of their effort; ``tokens`` are the sampled ones."""
    counts = [asdict(count_effort(rollout, decode)) for rollout in played]
    cell = {name: statistics.fmean(count[name] for count in counts) for name in counts[0]}
    cell["tokens"] = cell["thinking_tokens"] + cell["call_tokens"] + cell["message_tokens"]
    cell["first_right"] = statistics.fmean(map(starts_right, played))
    cell["solved"] = statistics.fmean(float(rollout.reward.value >= 1) for rollout in played)
    cell["episodes"] = float(len(played))
    return {name: round(value, 4) for name, value in cell.items()}


def starts_right(rollout: Rollout) -> bool:
    """Return whether the first turn makes the first call of the solution, and nothing else."""
    (name, arguments), *_ = default_drills().drill(rollout.task_id).solution()
    made = [(call["name"], call.get("arguments")) for call in first_calls(rollout)]
    return made == [(name, arguments)]


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of values of different seeds and its 95 % interval by Student's t."""
    mean = statistics.fmean(values)
    half = statistics.stdev(values) * T_95[len(values)] / len(values) ** 0.5
    return mean, mean - half, mean + half
