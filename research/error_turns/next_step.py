"""Three other second terms beside RLVR, as registered in PREREGISTERED_NEXT.md and PREREGISTERED_NEXT_REPAIRS.md.

    python research/error_turns/next_step.py --out FILE --work FOLDER [--world repairs] [--seeds 5] [--explore]
    python research/error_turns/next_step.py --out FILE [--world repairs] --print

Rows go to ``--out``; a run that is there is not made again. The base and the folders of the runs are in ``--work``.
The length of a run on drills, and the measures and intervals of both worlds, are those of ``research/muon_rl``; a run
on repairs is as long as in experiment C.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from etude.research.error_turns.driver import Refused, Run, append, check_same_setup, load, status
from etude.research.error_turns.real_stack import base_models, runs
from etude.research.error_turns.worlds.drill_world import DRILLS
from etude.research.error_turns.worlds.repair_world import REPAIRS
from etude.research.error_turns.worlds.world import World
from etude.research.muon_rl import compare
from etude.research.muon_rl.compare import MEASURES, Measure, Row, interval, paired, share, table_head, table_row

CONTROL = "sparse_tenth"
ARMS = ("gap_gated", "dagger", "hindsight")
EXPLORED = ("dagger_right",)
"""Arms that were added after the registered ones had been looked at."""
RATE = 3e-4
"""Learning rate of all arms."""
GRADIENTS = ("gradient/rlvr", "gradient/distillation")
SMALLEST = 5e-5
"""Smallest norm that four decimals do not round to 0."""


def after(part: int) -> Measure:
    """Return a measure: the solved share at the evaluation after a part of the run."""
    return lambda row: share(row, "solved", part)


@dataclass(frozen=True)
class Study:
    """The arms in one world: the length of a run, what is measured, and what is contrasted with the control."""

    world: World
    updates: int
    """Updates of a run."""
    measures: Mapping[str, Measure]
    contrasts: Mapping[str, tuple[str, str]]
    """Arm and measure of each contrast, by its name."""
    details: bool
    """Whether new words and the first update have separate tables."""


STUDIES = {
    "drills": Study(
        replace(DRILLS, parts=compare.PARTS),
        compare.UPDATES,
        MEASURES,
        {
            "N1": ("gap_gated", "error, mean of run"),
            "N2": ("gap_gated", "solved, end"),
            "N3": ("dagger", "solved, end"),
            "N4": ("dagger", "error, mean of run"),
            "N5": ("hindsight", "error, mean of run"),
            "N6": ("hindsight", "solved, end"),
        },
        details=False,
    ),
    "repairs": Study(
        REPAIRS,
        REPAIRS.updates,
        {**MEASURES, "solved, 128 episodes": after(1), "solved, 256 episodes": after(2)},
        {
            "N1r": ("gap_gated", "error, mean of run"),
            "N2r": ("gap_gated", "solved, end"),
            "N3r": ("dagger", "solved, end"),
            "N4r": ("dagger", "error, mean of run"),
            "N5r": ("hindsight", "error, mean of run"),
            "N6r": ("hindsight", "solved, end"),
            "N7r": ("gap_gated", "solved, mean of run"),
            "N8r": ("dagger", "solved, mean of run"),
            "N9r": ("hindsight", "solved, mean of run"),
            "N10r": ("gap_gated", "solved, 128 episodes"),
            "N11r": ("dagger", "solved, 128 episodes"),
            "N12r": ("hindsight", "solved, 128 episodes"),
        },
        details=True,
    ),
}


def make_runs(study: Study, rows: list[Row], options: argparse.Namespace) -> None:
    """Make the missing runs, seed by seed. Raises Refused when the base is not that of the rows."""
    torch.set_num_threads(1)
    world, seeds = study.world, range(compare.FIRST_SEED, compare.FIRST_SEED + options.seeds)
    os.environ.setdefault("MAX_CONCURRENT_ENVS", str(4 * world.held))
    base = base_models.base(world, "strong", options.work / "bases")
    check_same_setup(rows, {"strong": base_models.digest(base)}, study.updates)
    done = {(row["arm"], row["seed"]) for row in rows}
    with world.served(options.work, world.needed(seeds, study.updates)) as url:
        for seed in seeds:
            for arm in EXPLORED if options.explore else (CONTROL, *ARMS):
                if (arm, seed) not in done:
                    run = Run(arm, RATE, seed)
                    made = runs.train(world, run, base, url, options.work, updates=study.updates)
                    rows.append(made)
                    append(options.out, made)
                    print(arm, seed, *(f"{measure(made):.3f}" for measure in study.measures.values()), flush=True)


def show(study: Study, rows: Sequence[Row]) -> None:
    """Print the measures of all arms, the contrasts, the curves and the seeds. Raises Refused."""
    if any(row["updates"] != study.updates for row in rows):
        raise Refused("the rows are of runs of another length: choose their --world")
    arms = {arm: by_seed([row for row in rows if row["arm"] == arm]) for arm in (CONTROL, *ARMS)}
    seeds = set.intersection(*({row["seed"] for row in arm_rows} for arm_rows in arms.values()))
    arms = {arm: [row for row in arm_rows if row["seed"] in seeds] for arm, arm_rows in arms.items()}
    if len(seeds) < 2:
        raise Refused("fewer than two seeds have all arms: make the runs first")
    show_measures(study, arms)
    show_contrasts(study, arms)
    show_curves(study, arms)
    print("\n" + table_head(["solved at the end, by seed", *map(str, sorted(seeds))]))
    for arm, arm_rows in arms.items():
        print(table_row([arm, *(f"{share(row, 'solved', -1):.2f}" for row in arm_rows)]))
    print("\n" + table_head(["median norm of the weighted gradient", "RLVR", "second term"]))
    for arm, arm_rows in arms.items():
        print(table_row([arm, *(norm(arm_rows, name) for name in GRADIENTS)]))
    if study.details:
        show_details(study, arms)
    explored = {arm: by_seed([row for row in rows if row["arm"] == arm]) for arm in EXPLORED}
    if all(len(arm_rows) > 1 for arm_rows in explored.values()):
        print()
        show_measures(study, explored)


def show_measures(study: Study, arms: Mapping[str, Sequence[Row]]) -> None:
    """Print the measures of arms."""
    print(table_head(["arm", "seeds", *study.measures, "KL on good turns", "M tokens", "CPU s"]))
    for arm, arm_rows in arms.items():
        cells = [with_interval([measure(row) for row in arm_rows]) for measure in study.measures.values()]
        drift = [row["good_turn_kl"] for row in arm_rows if row["good_turn_kl"] is not None]
        tokens = statistics.fmean(row["tokens"][-1] for row in arm_rows) / 1e6
        seconds = statistics.fmean(row["cpu_seconds"] for row in arm_rows)
        drifted = f"{statistics.fmean(drift):.3f}" if drift else "-"
        print(table_row([arm, str(len(arm_rows)), *cells, drifted, f"{tokens:.2f}", f"{seconds:.0f}"]))


def show_contrasts(study: Study, arms: Mapping[str, Sequence[Row]]) -> None:
    """Print the paired difference of each contrast and how it is read."""
    print("\n" + table_head(["", "contrast", "measure", "difference", "95 % interval", "reading"]))
    for name, (arm, title) in study.contrasts.items():
        mean, low, high = paired(arms[arm], arms[CONTROL], study.measures[title])
        cells = [name, f"{arm} - {CONTROL}", title, f"{mean:+.3f}", f"{low:+.3f} to {high:+.3f}"]
        print(table_row([*cells, reading(low, high, better="solved" in title)]))


def show_curves(study: Study, arms: Mapping[str, Sequence[Row]]) -> None:
    """Print the mean curves of the solved share and of the error."""
    steps = evaluated_steps(study)
    print("\n" + table_head(["share", "arm", *(f"step {step}" for step in steps)]))
    for title, name in {"solved": "solved", "error": "missed"}.items():
        for arm, arm_rows in arms.items():
            curve = [statistics.fmean(share(row, name, place) for row in arm_rows) for place in range(len(steps))]
            print(table_row([title, arm, *(f"{value:.2f}" for value in curve)]))


def show_details(study: Study, arms: Mapping[str, Sequence[Row]]) -> None:
    """Print the curves on tasks with new words, and the gradients of the first update."""
    steps = evaluated_steps(study)
    print("\n" + table_head(["share, new names alone", "arm", *(f"step {step}" for step in steps)]))
    for title, name in {"solved": "solved", "error": "missed"}.items():
        for arm, arm_rows in arms.items():
            values = [[float(row["held"]["eval"][place][name]) for row in arm_rows] for place in range(len(steps))]
            print(table_row([title, arm, *map(with_interval, values)]))
    print("\n" + table_head(["median norm of the weighted gradient, first update", "RLVR", "second term"]))
    for arm, arm_rows in arms.items():
        print(table_row([arm, *(norm(arm_rows, name, steps=1) for name in GRADIENTS)]))


def evaluated_steps(study: Study) -> range:
    """Return the numbers of updates after which a run is evaluated."""
    return range(0, study.updates + 1, study.updates // study.world.parts)


def with_interval(values: Sequence[float]) -> str:
    """Return the mean of values and its 95 % interval as a table's cell."""
    return "{:.3f} [{:.3f}, {:.3f}]".format(*interval(values))


def reading(low: float, high: float, *, better: bool) -> str:
    """Return how an interval of a difference is read; ``better``: whether more of the measure is better."""
    if low <= 0 <= high:
        return "not told apart"
    return "better" if (low > 0) == better else "worse"


def by_seed(rows: Sequence[Row]) -> list[Row]:
    """Return rows in the order of their seeds."""
    return sorted(rows, key=lambda row: row["seed"])


def norm(rows: Sequence[Row], name: str, *, steps: int | None = None) -> str:
    """Return the median of a gradient's norm over runs and their first ``steps`` measurements, by default all."""
    values: list[Any] = [value for row in rows for value in row["metrics"].get(name, [])[:steps]]
    if not values:
        return "-"
    middle = statistics.median(values)
    return f"{middle:.4f}" if middle == 0 or middle >= SMALLEST else f"{middle:.0e}"


def go(options: argparse.Namespace) -> None:
    """Make the missing runs, unless only the tables are wanted, and print the tables. Raises Refused."""
    study, rows = STUDIES[options.world], load(options.out)
    if not options.print:
        make_runs(study, rows, options)
    show(study, rows)


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="File of the rows.")
    parser.add_argument("--work", type=Path, help="Folder of the base and of the runs.")
    parser.add_argument("--world", default="drills", choices=sorted(STUDIES), help="World of the runs.")
    parser.add_argument("--seeds", type=int, default=5, choices=sorted(compare.T_95), help="Counted seeds of each arm.")
    parser.add_argument("--explore", action="store_true", help="Make the runs of the arms that are not registered.")
    parser.add_argument("--print", action="store_true", help="Only print the tables.")
    options = parser.parse_args()
    if not options.print and options.work is None:
        parser.error("--work is needed to make runs")
    return status(lambda: go(options))


if __name__ == "__main__":
    sys.exit(main())
