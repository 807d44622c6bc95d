"""Experiment A: does distillation at error turns work, and why, in a world small enough for one core.

    python research/error_turns/mechanism.py --seeds 5 --out DIR [--arms a,b] [--tuning N] [--jobs N]
    python research/error_turns/mechanism.py --out DIR --report

PREREGISTERED.md says what is compared and what counts as support. The two bases are made once, in DIR/bases. Every run
adds one line to DIR/runs.jsonl, and a command that was stopped resumes. First each arm's learning rate is chosen on
tuning seeds, then the counted seeds, 1 and up, are run; ``--seeds 0`` only tunes. The report is printed and written to
DIR/report.json.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from etude.research.error_turns import driver, summary
from etude.research.error_turns.driver import EVALUATED, Refused, Run
from etude.research.error_turns.small_world import arms, bases, training

EXPERIMENT = driver.Experiment(arms.ARMS, summary.CONTRASTS, summary.checks)


def run_one(run: Run, folder: Path, updates: int) -> dict[str, Any]:
    """Return the row of one run."""
    torch.set_num_threads(1)
    first = bases.load(arms.ARMS[run.arm].base, folder)
    return training.train(*run, first, updates=updates) | {"updates": updates}


def evaluated(folder: Path, updates: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of the bases, without and with the hint."""
    for name, (base, hint) in EVALUATED.items():
        model = bases.load(base, folder)
        curve = training.Curve([0], [0], [round(training.error(model, hint), 5)])
        yield training.row(name, 0.0, 0, curve, model, model) | {"cpu_seconds": 0.0, "updates": updates}


def prepare(options: argparse.Namespace) -> driver.Ready:
    """Make the bases, and return what the driver needs to run the arms."""
    folder, updates = options.out / "bases", options.updates
    digests = {name: bases.digest(bases.base(name, folder, progress=print_progress)) for name in bases.SKILL}
    run = functools.partial(run_one, folder=folder, updates=updates)
    return driver.Ready(digests, lambda known: evaluated(folder, updates), run)


def print_progress(step: int, loss: float) -> None:
    """Print a step of the pretraining of a base."""
    print(f"base: step {step} of {bases.STEPS}, {loss:.4f} nats above its targets", file=sys.stderr, flush=True)


def go(options: argparse.Namespace) -> None:
    driver.go(EXPERIMENT, options, prepare)


def main() -> int:
    torch.set_num_threads(1)
    parser = driver.parser_of(EXPERIMENT, __doc__, updates=training.UPDATES, episodes=arms.GROUPS * arms.GROUP)
    options = parser.parse_args()
    return driver.status(lambda: go(options))


__all__ = ["EXPERIMENT", "Refused", "Run", "evaluated", "go", "run_one"]

if __name__ == "__main__":
    sys.exit(main())
