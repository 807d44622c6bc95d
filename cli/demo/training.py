"""Training of the demo: the reference trainer with ``recipes/demo.toml``, on drills over a separate server."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from ...intervals import Interval, wilson
from ..commands.train import DIALOGUES, silence_libraries
from ..names import RECIPES
from ..progress import Progress
from .stages import Training

RECIPE = RECIPES / "demo.toml"
BASE = RECIPES / "drill_base"
"""Weights that the training starts from; ``make_base`` makes them."""
NEEDED = ("torch", "transformers", "trl", "datasets", "accelerate")


def can_train() -> bool:
    """Return whether the packages of the trainer are installed."""
    return all(find_spec(name) is not None for name in NEEDED)


def train(out: Path, progress: Progress, seed: int = 0) -> Training | None:
    """Train from the shipped base and write the run to ``out``, which is emptied first.

    Returns None when the run was interrupted. Raises what the trainer raises.
    """
    # For a model this small one thread is as fast as two, and it does not slow down beside other work.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from ...trainers.recipe.load import load
    from ...trainers.report.page import REPORT
    from ...trainers.run.train import run

    silence_libraries()
    shutil.rmtree(out, ignore_errors=True)
    recipe = load(RECIPE, [f"out={out}", f"seed={seed}"])

    def count_steps(phase: str, done: int, total: int) -> None:
        # The trainer's text for a step lists losses and divergences, which a newcomer cannot read.
        progress("training" if phase.startswith("step ") else phase, done, total)

    result = run(recipe, count_steps, dialogues=DIALOGUES)
    if result.interrupted or result.before is None:
        return None
    after = result.after or result.before
    return Training(
        steps=result.steps,
        seconds=result.seconds,
        parameters=_parameters(BASE / "model.safetensors"),
        drills=result.before.episodes,
        error_turns_before=_share(result.before.error_turn_rate, result.before.turns),
        error_turns_after=_share(after.error_turn_rate, after.turns),
        solved_before=_share(result.before.solved, result.before.valid),
        solved_after=_share(after.solved, after.valid),
        report=str(out / REPORT),
        stopped=result.stopped,
    )


def _share(measured: float, trials: int) -> Interval:
    """Return a measured share with its interval, computed from the whole number of successes that it stands for."""
    rate = round(measured * trials) / max(trials, 1)
    return Interval(rate, *wilson(rate, trials))


def _parameters(weights: Path) -> int:
    """Return the number of parameters in a file of float16 weights: half its bytes, its short header included."""
    return weights.stat().st_size // 2
