"""Driver of all experiments: tunes and runs the arms, stores a line for each run, and reports.

First each arm's learning rate is chosen on tuning seeds, unless there is only one; then the counted seeds, 1 and up,
are run. Every run adds one line to DIR/runs.jsonl, and a command that was stopped resumes. The report is printed and
written to DIR/report.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from etude.research.error_turns import summary, tables
from etude.research.error_turns.small_world.arms import Arm
from etude.research.error_turns.small_world.bases import UnfitBase
from etude.research.error_turns.summary import MEASURES, Contrast, Measure, Row

RATES = (3e-4, 1e-3, 3e-3)
EVALUATED = {"base": ("strong", False), "ceiling": ("strong", True)}
EVALUATED |= {"weak_base": ("weak", False), "weak_ceiling": ("weak", True)}
"""Arms that are only evaluated: their base, and whether it gets the hint."""


class Run(NamedTuple):
    """One run of an arm."""

    arm: str
    rate: float
    seed: int


class Refused(Exception):
    """Raised when a command cannot run; the message is one line for the user."""


@dataclass(frozen=True)
class Experiment:
    """Arms of an experiment, and what is compared."""

    arms: Mapping[str, Arm]
    contrasts: Sequence[Contrast]
    checks: Callable[[Mapping[str, Sequence[Row]]], dict[str, str]]
    """Returns what is counted seed by seed, as "held of all", from the rows of each arm."""
    measures: Mapping[str, Measure] = field(default_factory=lambda: MEASURES)
    rates: Sequence[float] = RATES
    """Learning rates to choose from."""


@dataclass(frozen=True)
class Ready:
    """Prepared experiment."""

    digests: Mapping[str, str]
    """Digests of the bases' weights, by name."""
    evaluated: Callable[[set[str]], Iterable[dict[str, Any]]]
    """Returns the rows of the arms that are only evaluated, without those of the given names."""
    run: Callable[[Run], dict[str, Any]]
    """Returns one run as a row; can be pickled."""


# --- the result file ---------------------------------------------------------------------------------------------


def load(path: Path) -> list[dict[str, Any]]:
    """Return the rows so far; a cut last line is removed from the file. Raises Refused for any other bad line."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    complete, _, cut = text.rpartition("\n")
    if cut:
        path.write_text(complete + "\n" if complete else "", encoding="utf-8")
    try:
        return [json.loads(line) for line in complete.splitlines()]
    except ValueError as error:
        raise Refused(f"{path} has a line that is not JSON ({error}); fix it, or choose another --out") from None


def append(path: Path, row: dict[str, Any]) -> None:
    """Add a row to the result file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def check_same_setup(rows: Sequence[Row], digests: Mapping[str, str], updates: int) -> None:
    """Raise Refused when a row comes from another base or from a run of another length."""
    for row in rows:
        if row["base"] not in digests.values() or row["updates"] != updates:
            raise Refused("the result file holds runs from other bases or of another length: use another --out")


# --- the runs ----------------------------------------------------------------------------------------------------


def tuning_runs(experiment: Experiment, name: str, number: int) -> list[Run]:
    """Return the runs that tune an arm: each rate on the same seeds, and for a longer arm on the first seed only."""
    if len(experiment.rates) == 1:
        return []
    seeds = range(summary.TUNING, summary.TUNING + (number if experiment.arms[name].times == 1 else min(number, 1)))
    return [Run(name, rate, seed) for rate in experiment.rates for seed in seeds]


def chosen(experiment: Experiment, name: str, rows: Sequence[Row], number: int) -> float | None:
    """Return the rate with the lowest mean area on the tuning seeds, the first of equal ones; None before all ran."""
    if len(experiment.rates) == 1:
        return experiment.rates[0]
    runs = tuning_runs(experiment, name, number)
    areas = {Run(row["arm"], row["rate"], row["seed"]): summary.area(row) for row in rows}
    if not set(runs) <= set(areas):
        return None
    return min(experiment.rates, key=lambda rate: sum(areas[run] for run in runs if run.rate == rate))


def stage(
    experiment: Experiment, names: Sequence[str], rows: Sequence[Row], tuning: int, seeds: int, *, counting: bool
) -> list[Run]:
    """Return the runs of the tuning, or of the ``counting``, that are not done yet, the longest first."""
    runs: list[Run] = []
    for name in names:
        rate = chosen(experiment, name, rows, tuning) if counting else None
        runs += tuning_runs(experiment, name, tuning) if not counting else []
        runs += [Run(name, rate, seed) for seed in range(1, seeds + 1)] if rate is not None else []
    done = {Run(row["arm"], row["rate"], row["seed"]) for row in rows}
    return sorted((run for run in runs if run not in done), key=lambda run: -experiment.arms[run.arm].times)


def run_all(runs: Sequence[Run], run: Callable[[Run], dict[str, Any]], jobs: int) -> Iterator[dict[str, Any]]:
    """Yield the row of each run as soon as it is done, ``jobs`` runs at the same time."""
    if jobs == 1:
        yield from map(run, runs)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(run, pending) for pending in runs]):
                yield future.result()
        finally:  # after an error, or when the caller stops, runs that have not started are dropped
            pool.shutdown(wait=False, cancel_futures=True)


# --- the report --------------------------------------------------------------------------------------------------


def counted(experiment: Experiment, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the counted rows by arm. Raises Refused for an arm whose runs differ in their learning rate."""
    by_arm = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["seed"]):
        if row["seed"] < summary.TUNING:
            by_arm[row["arm"]].append(row)
    for name, arm_rows in by_arm.items():
        if len({row["rate"] for row in arm_rows}) > 1:
            raise Refused(f"{name} was counted at several learning rates: keep one's runs in the result file")
    return {name: by_arm[name] for name in (*EVALUATED, *experiment.arms) if name in by_arm}


def report(experiment: Experiment, rows: Sequence[Row], seeds: int) -> dict[str, Any]:
    """Return the report of the arms that have all their ``seeds`` seeds; the other arms are only counted."""
    every_arm, measures = counted(experiment, rows), experiment.measures
    done = {name: len({row["seed"] for row in arm_rows}) for name, arm_rows in every_arm.items()}
    begun = {name: number for name, number in done.items() if name not in EVALUATED and number < seeds}
    by_arm = {name: arm_rows for name, arm_rows in every_arm.items() if name not in begun}
    compared = [summary.compared(contrast, by_arm, measures) for contrast in experiment.contrasts]
    return {
        "arms": {name: summary.summarised(arm_rows, measures) for name, arm_rows in by_arm.items()},
        "begun": begun,
        "contrasts": [contrast for contrast in compared if contrast],
        "checks": experiment.checks(by_arm),
        "tuning": tuned(rows),
        "runs": Counter("tuning" if row["seed"] >= summary.TUNING else "counted" for row in rows),
        "cpu_minutes": sum(row["cpu_seconds"] for row in rows) / 60,
    }


def tuned(rows: Sequence[Row]) -> dict[str, dict[str, list[float]]]:
    """Return the areas on the tuning seeds, by arm and rate."""
    areas: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["seed"] >= summary.TUNING:
            areas[row["arm"]][f"{row['rate']:g}"].append(round(summary.area(row), 4))
    return areas


# --- the command -------------------------------------------------------------------------------------------------


def go(
    experiment: Experiment, options: argparse.Namespace, prepare: Callable[[argparse.Namespace], Ready]
) -> dict[str, Any]:
    """Make the missing runs, print the report and return it. Raises Refused."""
    if options.tuning < 1:
        raise Refused("--tuning 0 leaves no learning rate to count with: give 1 or more")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "runs.jsonl"
    rows = load(path)
    if not options.report:
        ready = prepare(options)
        check_same_setup(rows, ready.digests, options.updates)
        for row in run_missing(experiment, options, ready, rows):
            append(path, row)
    if not rows:
        raise Refused(f"{path} holds no runs yet")
    result = report(experiment, rows, options.seeds)
    (options.out / "report.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    tables.show(result)
    return result


def run_missing(
    experiment: Experiment, options: argparse.Namespace, ready: Ready, rows: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield each missing row as soon as its run is done, and add it to ``rows``."""
    present = {row["arm"] for row in rows}
    for row in ready.evaluated(present):
        if row["arm"] not in present:
            rows.append(row)
            yield row
    for counting in (False, True):
        missing = stage(experiment, options.arms, rows, options.tuning, options.seeds, counting=counting)
        for number, row in enumerate(run_all(missing, ready.run, options.jobs), 1):
            rows.append(row)
            yield row
            tables.print_run(row, number, len(missing))


def parser_of(
    experiment: Experiment, description: str | None, *, updates: int, episodes: int
) -> argparse.ArgumentParser:
    """Return a parser of the options that all experiments share, with the default ``updates`` of a run."""

    def names_of(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in experiment.arms]
        if unknown:
            raise argparse.ArgumentTypeError(f"no arm {', '.join(unknown)}; there are {', '.join(experiment.arms)}")
        return names

    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arms", type=names_of, default=list(experiment.arms))
    parser.add_argument("--tuning", type=int, default=1, help="Number of tuning seeds.")
    parser.add_argument("--updates", type=int, default=updates, help=f"Updates of a run, of {episodes} episodes each.")
    parser.add_argument("--jobs", type=int, default=1, help="Runs at the same time, one thread each.")
    parser.add_argument("--report", action="store_true", help="Only report the runs so far.")
    return parser


def status(command: Callable[[], Any]) -> int:
    """Run a command; return 0, or print one line and return 1 when it is refused."""
    try:
        command()
    except (Refused, UnfitBase) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
