"""One run of one arm of experiment (B): a recipe, ``ArmTrainer``, and evaluations on the way on held-out drills."""

from __future__ import annotations

import copy
import functools
import random
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from etude.benchmarks.error_turns import bases, stack_bases
from etude.benchmarks.error_turns.arms import Arm
from etude.benchmarks.error_turns.driver import Run
from etude.benchmarks.error_turns.stack_arms import ARMS, ArmTrainer, NoRounding, erred
from etude.environments.drills.tasks import Name
from etude.environments.drills.words import READING
from etude.trainers.building import Made, build
from etude.trainers.folder import write_json
from etude.trainers.metrics import METRICS, good_turns_kl, read_metrics
from etude.trainers.recipe import Recipe, parse
from etude.trainers.rollouts import Rollout
from etude.trainers.train import RECIPE, summary

UPDATES, PROMPTS, GROUP, HELD, PARTS = 40, 4, 8, 48, 5
MAX_IDS, MAX_TURN_IDS = 512, 48
ERROR = "missed"
"""What of ``Held`` is the error of a curve: a policy that submits at once never errs in its first turn."""
CHUNK = 4
"""Rollouts that ``good_turns_kl`` reads at a time."""
FIRST, LAST = 10**6, 10**9
"""Seeds of drills that are trained on; held-out ones are below, those of pretraining above."""


@dataclass(frozen=True)
class Held:
    """Of one split's held-out episodes: the share of first turns that err, of first turns that do not read (they err,
    or submit at once), of all turns that err, and of solved episodes."""

    first: float
    missed: float
    turns: float
    solved: float


@dataclass
class Curve:
    """At update 0 and at each evaluation. ``train`` and ``eval`` are the splits: known nouns, and others."""

    episodes: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    train: list[Held] = field(default_factory=list)
    eval: list[Held] = field(default_factory=list)


def held_out(split: str) -> list[str]:
    seeds = [seed for seed in range(10 * HELD) if (seed % 10 == 9) == (split == "eval")]
    return [Name(stack_bases.FAMILY, seed, stack_bases.LEVEL).task_id for seed in seeds[:HELD]]


def learned(seed: int, number: int) -> list[str]:
    """Drills of the split ``train`` that the run of this seed learns from, each once."""
    chance = random.Random(f"drills {seed}")
    seeds = [chance.randrange(FIRST, LAST, 10) + chance.randrange(9) for _ in range(number)]
    return [Name(stack_bases.FAMILY, each, stack_bases.LEVEL).task_id for each in seeds]


def recipe_of(
    arm: Arm, rate: float, seed: int, base: Path, url: str, out: Path, steps: int, pairs: Path | None = None
) -> Recipe:
    return parse(
        {
            "seed": seed,
            "out": str(out),
            "model": {"name": str(base.resolve()), "template": {"enable_thinking": False}},
            "environment": {"url": url},
            "train": {
                "steps": steps, "prompts": PROMPTS, "group": GROUP, "micro": PROMPTS * GROUP, "learning_rate": rate,
            },
            "channels": {
                "rlvr": float(bool(arm.reward or not (arm.hint or arm.replay))),
                "distillation": float(bool(arm.hint)),
                "replay": float(arm.replay),
            },
            "replay": {"pairs": str(pairs.resolve())} if arm.replay and pairs else {},
            "distillation": {"gate": arm.gate, "teacher": arm.teacher, "rate": arm.rate},
            "generation": {"max_ids": MAX_IDS, "max_turn_ids": MAX_TURN_IDS},
            # Above log 2, so that the drift of a moving teacher is measured and stops nothing.
            "safety": {"teacher_drift": 1.0, "hack_rate": 0.0},
        },
        "a run's recipe",
    )  # fmt: skip


def made(
    arm: Arm, rate: float, seed: int, base: Path, url: str, out: Path, steps: int, pairs: Path | None = None
) -> Made:
    """A run that can begin, in a folder of its own; nothing is saved on the way. ``pairs``: for an arm with replay."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    recipe = recipe_of(arm, rate, seed, base, url, out, steps, pairs)
    write_json(out / RECIPE, recipe.model_dump(mode="json"))
    trainer = functools.partial(ArmTrainer, arm=arm)
    tasks = learned(seed, PROMPTS * steps)
    found = build(recipe, url, tasks, trainer=trainer, dialogues=None, progress=lambda what, done, of: None)
    found.trainer.args.save_strategy = "no"
    found.trainer.add_callback(NoRounding())
    return found


def evaluated(trainer: ArmTrainer) -> tuple[Held, Held, list[Rollout]]:
    """The policy as it is on both held-out sets, sampled with the same luck each time; the first set's rollouts too."""
    training = trainer.model.training
    trainer.model.eval()
    torch.manual_seed(0)
    played = trainer.play([{"task_id": name} for split in ("train", "eval") for name in held_out(split)])
    trainer.model.train(training)
    return held(played[:HELD]), held(played[HELD:]), played[:HELD]


def held(played: list[Rollout]) -> Held:
    found = summary(played)
    first = sum(0 in erred(rollout) for rollout in played) / len(played)
    missed = sum(0 in erred(rollout) or not reads_first(rollout) for rollout in played) / len(played)
    return Held(*(round(share, 5) for share in (first, missed, found.error_turn_rate, found.solved)))


def reads_first(rollout: Rollout) -> bool:
    """Whether its first turn calls a tool that reads, of whatever name: one that submits at once cannot err."""
    turn = next((message for message in rollout.messages if message["role"] == "assistant"), {})
    return any(call["name"].endswith(READING) for call in turn.get("tool_calls") or [])


@functools.cache
def of_base(base: Path, url: str, hint: bool) -> tuple[Held, Held]:
    """Before any update, with or without the right hint before the first turn."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = made(Arm(), 1e-9, 0, base, url, Path(folder) / "run", 1).trainer
        if hint:
            texts = stack_bases.right_hints([*held_out("train"), *held_out("eval")])
            trainer._chat = stack_bases.Hinted(trainer._chat, texts)
        try:
            return evaluated(trainer)[:2]
        finally:
            trainer.close()


class Evaluate(TrainerCallback):
    """Adds to a curve when an evaluation is due."""

    def __init__(self, trainer: ArmTrainer, curve: Curve, every: int, updates: int) -> None:
        self._trainer, self._curve, self._every, self._updates = trainer, curve, every, updates
        self.last: list[Rollout] = []

    def due(self, number: int, steps: int) -> bool:
        return due(number, self._every, self._updates) or number == steps

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self.due(state.global_step, state.max_steps):
            train, other, self.last = evaluated(self._trainer)
            note(self._curve, state.global_step, self._trainer.read, train, other)


def finished(trainer: ArmTrainer, steps: int) -> bool:
    """Train. False for a run that was stopped because it is no number any more, or that cannot be sampled from."""
    try:
        trainer.train()
    except RuntimeError as error:
        if "probability tensor" not in str(error):
            raise
        return False
    return bool(trainer.state.global_step == steps)


def lost(curve: Curve, watch: Evaluate, steps: int, tokens: int) -> None:
    """A run that broke off errs in every turn from its next evaluation on."""
    for number in range(curve.episodes[-1] // (PROMPTS * GROUP) + 1, steps + 1):
        if watch.due(number, steps):
            note(curve, number, tokens, *[Held(1.0, 1.0, 1.0, 0.0)] * 2)


def due(number: int, every: int, updates: int) -> bool:
    """After each of a run's ``PARTS``; of a longer one, behind these, once in so many updates."""
    return number % (every if number <= updates else updates) == 0


def note(curve: Curve, number: int, tokens: int, train: Held, other: Held) -> None:
    curve.episodes.append(number * PROMPTS * GROUP)
    curve.tokens.append(tokens)
    curve.train.append(train)
    curve.eval.append(other)


def train(run: Run, base: Path, url: str, out: Path, *, updates: int, pairs: Path | None = None) -> dict[str, Any]:
    """One run as a row of the result file. ``updates`` of an arm with ``times`` are that many times more."""
    torch.set_num_threads(1)
    first = of_base(base, url, False)
    arm, started, curve = ARMS[run.arm], time.process_time(), Curve()
    steps = updates * arm.times
    folder = out / "runs" / f"{run.arm}-{run.rate:g}-{run.seed}"
    trainer = made(arm, run.rate, run.seed, base, url, folder, steps, pairs).trainer
    note(curve, 0, 0, *first)
    before = copy.deepcopy(trainer.model).eval()
    watch = Evaluate(trainer, curve, max(updates // PARTS, 1), updates)
    trainer.add_callback(watch)
    try:
        broken = not finished(trainer, steps)
        kl = None if broken else kl_on_good_turns(trainer, before, watch.last)
    finally:
        trainer.close()
    if broken:
        lost(curve, watch, steps, trainer.read)
    drifts = drifts_at(folder, [episodes // (PROMPTS * GROUP) for episodes in curve.episodes])
    found = row(run, bases.digest(before), curve, broken=broken, drifts=drifts, kl=kl)
    return found | {"cpu_seconds": round(time.process_time() - started, 2), "updates": updates}


def kl_on_good_turns(trainer: ArmTrainer, before: Any, played: list[Rollout]) -> float | None:
    """KL(policy || base), nats a token, on the good turns of the last evaluation; None without any."""
    good = [rollout for rollout in played if len(erred(rollout)) < len(rollout.turns)]
    parts = [good[start : start + CHUNK] for start in range(0, len(good), CHUNK)]
    each = [good_turns_kl(trainer.model, before, [(one, []) for one in part]) for part in parts]
    return sum(each) / len(each) if each else None


def drifts_at(folder: Path, updates: list[int]) -> list[float]:
    """The teacher's drift as it was last measured at each of these; empty for a teacher that stands still."""
    rows = [line for line in read_metrics(folder / METRICS) if "teacher_drift" in line]
    known = [[line["teacher_drift"] for line in rows if line["step"] <= number] for number in updates]
    return [round(some[-1], 5) if some else 0.0 for some in known] if rows else []


def row(run: Run, digest: str, curve: Curve, *, broken: bool, drifts: list[float], kl: float | None) -> dict[str, Any]:
    """As (A)'s, with what the real stack has besides."""
    return {
        **run._asdict(),
        "base": digest,
        "broken": broken,
        "episodes": curve.episodes,
        "tokens": curve.tokens,
        "errors": [float(getattr(each, ERROR)) for each in curve.train],
        "drifts": drifts,
        "good_turn_kl": None if kl is None else round(kl, 5),
        "follows": None,
        "held": {name: [asdict(each) for each in getattr(curve, name)] for name in ("train", "eval")},
    }
