"""Experiment (B): the question of (A) through the real stack.

    python benchmarks/error_turns/stack.py --seeds 5 --out DIR [--arms a,b] [--updates N] [--bases DIR] [--jobs N]
    python benchmarks/error_turns/stack.py --out DIR --report

Drills of the family ``verbs``, level 1, served by ``etude serve`` (one process for all runs of a command), and the real
trainer on small bases that ``trainers.small`` makes in DIR/bases, unless --bases says where they are: DIR/strong and
DIR/weak. What arms with replay-DPO learn from is made in DIR/pairs. Runs, result file and report are as in
mechanism.py; each run's metrics are in DIR/runs.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from etude.benchmarks.error_turns import driver, stack_bases, stack_pairs, stack_training
from etude.benchmarks.error_turns.bases import SKILL
from etude.benchmarks.error_turns.driver import EVALUATED, Refused, Run
from etude.benchmarks.error_turns.stack_arms import ARMS
from etude.benchmarks.error_turns.stack_summary import CONTRASTS, MEASURES, checks, show
from etude.trainers.recipe import Environment, RecipeError
from etude.trainers.replay.settings import ReplayError
from etude.trainers.serving import DRILL, served

EXPERIMENT = driver.Experiment(ARMS, CONTRASTS, checks, MEASURES)
RATES = (1e-4, 3e-4, 1e-3)
SERVED = Environment(serve=DRILL, knobs={"families": [stack_bases.FAMILY], "level": stack_bases.LEVEL})


def run_one(
    run: Run, places: Mapping[str, Path], pairs: Mapping[str, Path], url: str, out: Path, updates: int
) -> dict[str, Any]:
    base = ARMS[run.arm].base
    return stack_training.train(run, places[base], url, out, updates=updates, pairs=pairs.get(base))


def evaluated(known: set[str], places: Mapping[str, Path], url: str, updates: int) -> Iterator[dict[str, Any]]:
    """The bases, without and with the hint. Raises UnfitBase."""
    wanted = {name: EVALUATED[name] for name in EVALUATED if EVALUATED[name][0] in places and name not in known}
    found = {name: stack_training.of_base(places[base], url, hint) for name, (base, hint) in wanted.items()}
    errors = {wanted[name]: splits[0].missed for name, splits in found.items()}
    for base in places:
        if {(base, False), (base, True)} <= set(errors):
            stack_bases.check(base, errors[base, False], errors[base, True])
    for name, splits in found.items():
        curve = stack_training.Curve()
        stack_training.note(curve, 0, 0, *splits)
        digest = stack_bases.digest(places[wanted[name][0]])
        row = stack_training.row(Run(name, 0.0, 0), digest, curve, broken=False, drifts=[], kl=None)
        yield row | {"cpu_seconds": 0.0, "updates": updates}


def places_of(options: argparse.Namespace) -> dict[str, Path]:
    """Where the bases are; those of the chosen arms are made unless --bases says where. Raises Refused."""
    needed, folder = {ARMS[name].base for name in options.arms}, options.bases or options.out / "bases"
    if options.bases is None:
        for name in sorted(needed):
            stack_bases.base(name, folder)
    there = {name: folder / name for name in SKILL if (folder / name / "config.json").is_file()}
    if missing := sorted(needed - set(there)):
        raise Refused(f"--bases {folder} holds no {' and no '.join(missing)}")
    return there


def pairs_of(options: argparse.Namespace, places: Mapping[str, Path], url: str) -> dict[str, Path]:
    """The files of pairs of those bases whose chosen arms learn from some. Raises Refused and ReplayError."""
    needed = sorted({ARMS[name].base for name in options.arms if ARMS[name].replay})
    return {name: stack_pairs.pairs(places[name], url, options.out / "pairs") for name in needed}


def prepare(options: argparse.Namespace, url: str) -> driver.Ready:
    places = places_of(options)
    digests = {name: stack_bases.digest(path) for name, path in places.items()}
    given: dict[str, Any] = {"places": places, "url": url, "updates": options.updates}
    run = functools.partial(run_one, out=options.out, pairs=pairs_of(options, places, url), **given)
    return driver.Ready(digests, functools.partial(evaluated, **given), run)


def go(options: argparse.Namespace) -> None:
    """Raises Refused and UnfitBase."""
    experiment = replace(EXPERIMENT, rates=options.rates)
    if options.report:
        show(driver.go(experiment, options, functools.partial(prepare, url="")))
        return
    os.environ.setdefault("MAX_CONCURRENT_ENVS", str(4 * stack_training.HELD * options.jobs))
    try:
        with served(SERVED) as url:
            show(driver.go(experiment, options, functools.partial(prepare, url=url)))
    except (RecipeError, ReplayError) as error:
        raise Refused(str(error)) from None


def main() -> int:
    torch.set_num_threads(1)
    episodes = stack_training.PROMPTS * stack_training.GROUP
    parser = driver.parser_of(EXPERIMENT, __doc__, updates=stack_training.UPDATES, episodes=episodes)
    parser.add_argument("--bases", type=Path, help="a folder that holds strong and weak")
    parser.add_argument("--rates", type=rates_of, default=RATES, help="learning rates that are tried")
    options = parser.parse_args()
    return driver.status(lambda: go(options))


def rates_of(text: str) -> tuple[float, ...]:
    return tuple(sorted(float(each) for each in text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
