"""Command of the experiments through the real stack: server, bases, pairs, runs and report."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from etude.errors import RecipeError, ReplayError
from etude.research.error_turns import driver
from etude.research.error_turns.driver import EVALUATED, Refused, Run
from etude.research.error_turns.real_stack import base_models, runs, teacher_pairs
from etude.research.error_turns.real_stack.arm_trainer import ARMS
from etude.research.error_turns.real_stack.measures import show
from etude.research.error_turns.small_world.bases import SKILL
from etude.research.error_turns.summary import TUNING
from etude.research.error_turns.worlds.world import World

RATES = (1e-4, 3e-4, 1e-3)


@dataclass(frozen=True)
class Stack:
    """An experiment and its world; ``arms`` are run unless others are named; without any, all are.

    ``bases`` are used instead of bases that are made, unless the command names a folder.
    """

    world: World
    experiment: driver.Experiment
    arms: Sequence[str] = ()
    bases: Mapping[str, Path] = field(default_factory=dict)


def run_one(
    run: Run, world: World, places: Mapping[str, Path], pairs: Mapping[str, Path], url: str, out: Path, updates: int
) -> dict[str, Any]:
    base = ARMS[run.arm].base
    return runs.train(world, run, places[base], url, out, updates=updates, pairs=pairs.get(base))


def evaluated(
    known: set[str], world: World, places: Mapping[str, Path], url: str, updates: int
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the bases, without and with the hint, except the ``known`` ones. Raises UnfitBase."""
    missing = {name: EVALUATED[name] for name in EVALUATED if EVALUATED[name][0] in places and name not in known}
    results = {name: runs.of_base(world, places[base], url, hint) for name, (base, hint) in missing.items()}
    errors = {missing[name]: splits[0].missed for name, splits in results.items()}
    for base in places:
        if {(base, False), (base, True)} <= set(errors):
            base_models.check(world, base, errors[base, False], errors[base, True])
    for name, splits in results.items():
        curve = runs.Curve()
        runs.note(curve, 0, 0, *splits)
        digest = base_models.digest(places[missing[name][0]])
        row = runs.row(Run(name, 0.0, 0), digest, curve, broken=False, drifts=[], kl=None)
        yield row | {"cpu_seconds": 0.0, "updates": updates}


def places_of(world: World, options: argparse.Namespace) -> dict[str, Path]:
    """Return the folders of the bases. Without --bases, those of the chosen arms are made. Raises Refused."""
    needed, folder = {ARMS[name].base for name in options.arms}, options.bases or options.out / "bases"
    if options.bases is None and needed <= set(options.ready_bases):
        return {name: options.ready_bases[name] for name in sorted(needed)}
    if options.bases is None:
        for name in sorted(needed):
            base_models.base(world, name, folder)
    present = {name: folder / name for name in SKILL if (folder / name / "config.json").is_file()}
    if missing := sorted(needed - set(present)):
        raise Refused(f"--bases {folder} holds no {' and no '.join(missing)}")
    return present


def pairs_of(world: World, options: argparse.Namespace, places: Mapping[str, Path], url: str) -> dict[str, Path]:
    """Return the file of pairs of each base with a chosen arm that learns from pairs. Raises Refused, ReplayError."""
    needed = sorted({ARMS[name].base for name in options.arms if ARMS[name].replay})
    return {name: teacher_pairs.pairs(world, places[name], url, options.out / "pairs") for name in needed}


def tasks_of(world: World, options: argparse.Namespace) -> list[str]:
    """Return the ids of all tasks that may be played: held-out ones, those of pairs, and those of every run."""
    arms = [ARMS[name] for name in options.arms]
    tuning = options.tuning if len(options.rates) > 1 else 0
    seeds = [*range(1, options.seeds + 1), *range(TUNING, TUNING + tuning)]
    pairs = world.played(teacher_pairs.EPISODES) if any(arm.replay for arm in arms) else []
    return [*world.needed(seeds, options.updates * max(arm.times for arm in arms)), *pairs]


def prepare(options: argparse.Namespace, world: World, url: str) -> driver.Ready:
    """Make the bases and pairs of the chosen arms, and return what the driver needs to run them."""
    places = places_of(world, options)
    digests = {name: base_models.digest(path) for name, path in places.items()}
    shared: dict[str, Any] = {"world": world, "places": places, "url": url, "updates": options.updates}
    run = functools.partial(run_one, out=options.out, pairs=pairs_of(world, options, places, url), **shared)
    return driver.Ready(digests, functools.partial(evaluated, **shared), run)


def go(stack: Stack, options: argparse.Namespace) -> None:
    """Make the bases alone, print the report alone, or run what is missing. Raises Refused and UnfitBase."""
    world, experiment = stack.world, replace(stack.experiment, rates=options.rates)
    if options.make_bases:
        for name in SKILL:
            print(base_models.base(world, name, options.out / "bases"))
        return
    if options.report:
        show(driver.go(experiment, options, functools.partial(prepare, world=world, url="")), experiment.measures)
        return
    os.environ.setdefault("MAX_CONCURRENT_ENVS", str(4 * world.held * options.jobs))
    try:
        with world.served(options.out, tasks_of(world, options)) as url:
            show(driver.go(experiment, options, functools.partial(prepare, world=world, url=url)), experiment.measures)
    except (RecipeError, ReplayError) as error:
        raise Refused(str(error)) from None


def command(stack: Stack, description: str | None) -> int:
    """Run the command of an experiment and return its exit code."""
    torch.set_num_threads(1)
    world = stack.world
    parser = driver.parser_of(stack.experiment, description, updates=world.updates, episodes=world.episodes)
    parser.add_argument("--bases", type=Path, help="Folder with the bases strong and weak.")
    rates = stack.experiment.rates
    parser.add_argument("--rates", type=rates_of, default=rates, help="Learning rates to try; one is not tuned.")
    parser.add_argument("--make-bases", action="store_true", help="Only make the bases strong and weak in DIR/bases.")
    if stack.arms:
        parser.set_defaults(arms=list(stack.arms))
    parser.set_defaults(ready_bases=stack.bases)
    options = parser.parse_args()
    return driver.status(lambda: go(stack, options))


def rates_of(text: str) -> tuple[float, ...]:
    """Return the learning rates in a comma-separated text, sorted."""
    return tuple(sorted(map(float, text.split(","))))
