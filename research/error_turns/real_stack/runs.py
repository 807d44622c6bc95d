"""One run of one arm in a world: a recipe, ``ArmTrainer``, and evaluations on the way on held-out tasks."""

from __future__ import annotations

import copy
import functools
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from etude.research.error_turns.driver import Refused, Run
from etude.research.error_turns.real_stack import base_models
from etude.research.error_turns.real_stack.arm_trainer import ARMS, ArmTrainer, NoRounding
from etude.research.error_turns.real_stack.next_arms import NextTrainer, plain_tasks
from etude.research.error_turns.small_world import bases
from etude.research.error_turns.small_world.arms import Arm
from etude.research.error_turns.worlds.world import World
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.replay.channel.loss import DEFAULT
from etude.trainers.report.run_files import METRICS, RECIPE, read_metrics
from etude.trainers.rollouts.rollout import Rollout
from etude.trainers.run.builder import BuiltRun, build
from etude.trainers.run.callbacks import good_turns_kl
from etude.trainers.run.records import evaluation_of
from etude.trainers.run.run_dir import write_json

ERROR = "missed"
"""Field of ``Held`` that a curve takes as the error: it also counts a policy that submits at once."""
CHUNK = 4
"""Rollouts of one call of ``good_turns_kl``."""
RECORDED = ("gradient/rlvr", "gradient/distillation", "imitation/examples", "hindsight/played", "hindsight/solved")
"""Metrics of training that a row has."""


@dataclass(frozen=True)
class Held:
    """Shares measured on the held-out episodes of one split."""

    first: float
    """First turns that err."""
    missed: float
    """First turns that err or avoid what can err (``World.tries``)."""
    turns: float
    """Turns that err."""
    solved: float
    """Episodes that are solved."""


@dataclass
class Curve:
    """Measurements at update 0 and at each evaluation, on tasks with words of the splits ``train`` and ``eval``."""

    episodes: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    train: list[Held] = field(default_factory=list)
    eval: list[Held] = field(default_factory=list)


def recipe_of(
    world: World, arm: Arm, rate: float, seed: int, base: Path, url: str, out: Path, steps: int, pairs: Path | None
) -> Recipe:
    """Return the recipe of a run of ``steps`` updates; ``pairs`` is the file of an arm with replay."""
    return parse(
        {
            "seed": seed,
            "out": str(out),
            "model": {"name": str(base.resolve()), "template": {"enable_thinking": False}},
            "environment": {"url": url},
            "train": {
                "steps": steps, "prompts": plain_tasks(arm, world), "group": world.group,
                "micro": plain_tasks(arm, world) * world.group, "learning_rate": rate,
            },
            "optimizer": {"name": arm.optimizer},
            "channels": {
                "rlvr": float(bool(arm.reward or not (arm.hint or arm.replay))),
                "distillation": arm.weight if arm.hint else 0.0,
                "replay": float(arm.replay),
            },
            "replay": replay_of(arm, pairs) if arm.replay and pairs else {},
            "distillation": {"gate": arm.gate, "teacher": arm.teacher, "rate": arm.rate},
            "generation": {"max_ids": world.max_ids, "max_turn_ids": world.max_turn_ids,
                           "temperature": world.temperature},
            # Above log 2, so that the drift of a moving teacher is measured and stops nothing.
            "safety": {"teacher_drift": 1.0, "hack_rate": 0.0},
        },
        "the recipe of a run",
    )  # fmt: skip


def replay_of(arm: Arm, pairs: Path) -> dict[str, Any]:
    """Return the recipe's table for replay: the defaults, or their cross-entropy on chosen turns alone."""
    losses = {"losses": ["sft"], "weights": [DEFAULT["sft"]]} if arm.chosen_only else {}
    return {"pairs": str(pairs.resolve()), **losses}


def build_run(
    world: World,
    arm: Arm,
    rate: float,
    seed: int,
    base: Path,
    url: str,
    out: Path,
    steps: int,
    pairs: Path | None = None,
) -> BuiltRun:
    """Return a run that can start in the emptied folder ``out``; it saves no checkpoints.

    ``pairs`` is the file of an arm with replay.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    recipe = recipe_of(world, arm, rate, seed, base, url, out, steps, pairs)
    write_json(out / RECIPE, recipe.model_dump(mode="json"))
    trainer = functools.partial(NextTrainer, arm=arm, world=world)
    tasks = world.learned(seed, plain_tasks(arm, world) * steps)
    run = build(recipe, url, tasks, trainer=trainer, dialogues=None, progress=lambda phase, done, total: None)
    run.trainer.args.save_strategy = "no"
    run.trainer.add_callback(NoRounding())
    return run


def evaluated(trainer: ArmTrainer) -> tuple[Held, Held, list[Rollout]]:
    """Play both held-out sets with the current policy, sampled from the same seed each time.

    Return the shares on each set, and the rollouts of the first one.
    """
    training, world = trainer.model.training, trainer.world
    trainer.model.eval()
    torch.manual_seed(0)
    played = trainer.play([{"task_id": name} for name in world.tested()])
    trainer.model.train(training)
    train, other = played[: world.held], played[world.held :]
    return held(train, world.tries), held(other, world.tries), train


def held(played: list[Rollout], tries: Callable[[Rollout], bool]) -> Held:
    """Return the shares on the valid episodes. Raises Refused when there is none."""
    evaluation, valid = evaluation_of(played), [rollout for rollout in played if rollout.reward.valid]
    if not valid:
        raise Refused("the server's machine spoiled every episode of an evaluation: `etude doctor` says what it lacks")
    first = sum(0 in rollout.erring_turns for rollout in valid) / len(valid)
    missed = sum(0 in rollout.erring_turns or not tries(rollout) for rollout in valid) / len(valid)
    return Held(*(round(share, 5) for share in (first, missed, evaluation.error_turn_rate, evaluation.solved)))


@functools.cache
def of_base(world: World, base: Path, url: str, hint: bool) -> tuple[Held, Held]:
    """Return the shares of a base on both held-out sets, with or without the right hint before the first turn."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_run(world, Arm(), 1e-9, 0, base, url, Path(folder) / "run", 1).trainer
        if hint:
            texts = world.right_hints(world.tested())
            trainer._chat = base_models.Hinted(trainer._chat, texts)
        try:
            return evaluated(trainer)[:2]
        finally:
            trainer.close()


class Evaluate(TrainerCallback):
    """Evaluates the policy when an evaluation is due, and adds the result to a curve."""

    def __init__(self, trainer: ArmTrainer, curve: Curve, every: int, updates: int) -> None:
        self._trainer, self._curve, self._every, self._updates = trainer, curve, every, updates
        self.last: list[Rollout] = []

    def due(self, number: int, steps: int) -> bool:
        """Return whether an evaluation follows update ``number`` of ``steps``."""
        return due(number, self._every, self._updates) or number == steps

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self.due(state.global_step, state.max_steps):
            train, other, self.last = evaluated(self._trainer)
            episodes = state.global_step * self._trainer.world.episodes
            note(self._curve, episodes, self._trainer.read, train, other)


def finished(trainer: ArmTrainer, steps: int) -> bool:
    """Train. Return False when the weights became NaN, or when the policy can no longer be sampled from."""
    try:
        trainer.train()
    except RuntimeError as error:
        if "probability tensor" not in str(error):
            raise
        return False
    return bool(trainer.state.global_step == steps)


def lost(world: World, curve: Curve, watch: Evaluate, steps: int, tokens: int) -> None:
    """Record that a run that broke off errs in every turn from its next evaluation on."""
    for number in range(curve.episodes[-1] // world.episodes + 1, steps + 1):
        if watch.due(number, steps):
            note(curve, number * world.episodes, tokens, *[Held(1.0, 1.0, 1.0, 0.0)] * 2)


def due(number: int, every: int, updates: int) -> bool:
    """Return whether an evaluation is due: after each part of a run; in a longer run then every ``updates``."""
    return number % (every if number <= updates else updates) == 0


def note(curve: Curve, episodes: int, tokens: int, train: Held, other: Held) -> None:
    """Add an evaluation to a curve."""
    curve.episodes.append(episodes)
    curve.tokens.append(tokens)
    curve.train.append(train)
    curve.eval.append(other)


def train(
    world: World, run: Run, base: Path, url: str, out: Path, *, updates: int, pairs: Path | None = None
) -> dict[str, Any]:
    """Train one arm and return its row of the result file; the arm makes ``arm.times`` times ``updates`` updates."""
    torch.set_num_threads(1)
    first = of_base(world, base, url, False)
    arm, started, curve = ARMS[run.arm], time.process_time(), Curve()
    steps = updates * arm.times
    folder = out / "runs" / f"{run.arm}-{run.rate:g}-{run.seed}"
    trainer = build_run(world, arm, run.rate, run.seed, base, url, folder, steps, pairs).trainer
    note(curve, 0, 0, *first)
    before = copy.deepcopy(trainer.model).eval()
    watch = Evaluate(trainer, curve, max(updates // world.parts, 1), updates)
    trainer.add_callback(watch)
    try:
        broken = not finished(trainer, steps)
        kl = None if broken else kl_on_good_turns(trainer, before, watch.last)
    finally:
        trainer.close()
    if broken:
        lost(world, curve, watch, steps, trainer.read)
    drifts = drifts_at(folder, [episodes // world.episodes for episodes in curve.episodes])
    result = row(run, bases.digest(before), curve, broken=broken, drifts=drifts, kl=kl) | recorded(folder)
    return result | {"cpu_seconds": round(time.process_time() - started, 2), "updates": updates}


def kl_on_good_turns(trainer: ArmTrainer, before: Any, played: list[Rollout]) -> float | None:
    """Return KL(policy || base) in nats a token on the good turns of the last evaluation; None without such turns."""
    good = [rollout for rollout in played if len(rollout.erring_turns) < len(rollout.turns)]
    parts = [good[start : start + CHUNK] for start in range(0, len(good), CHUNK)]
    measured = [good_turns_kl(trainer.model, before, [(rollout, []) for rollout in part]) for part in parts]
    values = [value for value in measured if value is not None]
    return sum(values) / len(values) if values else None


def drifts_at(folder: Path, updates: list[int]) -> list[float]:
    """Return the last measured drift of the teacher at each of these updates; empty for a frozen teacher."""
    rows = [line for line in read_metrics(folder / METRICS) if "teacher_drift" in line]
    earlier = [[line["teacher_drift"] for line in rows if line["step"] <= number] for number in updates]
    return [round(drifts[-1], 5) if drifts else 0.0 for drifts in earlier] if rows else []


def recorded(folder: Path) -> dict[str, dict[str, list[float]]]:
    """Return each metric in ``RECORDED`` that a run has, in the order of its steps."""
    lines = read_metrics(folder / METRICS)
    values = {name: [round(float(line[name]), 6) for line in lines if name in line] for name in RECORDED}
    return {"metrics": {name: each for name, each in values.items() if each}}


def row(run: Run, digest: str, curve: Curve, *, broken: bool, drifts: list[float], kl: float | None) -> dict[str, Any]:
    """Return the row of a run: the fields of experiment A, and ``held`` with all shares of each evaluation."""
    return {
        **run._asdict(),
        "base": digest,
        "broken": broken,
        "episodes": curve.episodes,
        "tokens": curve.tokens,
        "errors": [float(getattr(shares, ERROR)) for shares in curve.train],
        "drifts": drifts,
        "good_turn_kl": None if kl is None else round(kl, 5),
        "follows": None,
        "held": {name: [asdict(shares) for shares in getattr(curve, name)] for name in ("train", "eval")},
    }
