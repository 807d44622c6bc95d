"""What the experiments have in common: runs that are tuned, counted, kept line by line, and summed up.

First each arm's learning rate is chosen on tuning seeds, unless there is only one; then the counted seeds, 1 and up,
are run. Every run adds one line to DIR/runs.jsonl, and a command that was stopped goes on where it was. The report goes
to the terminal and to DIR/report.json.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from etude.research.error_turns import summary
from etude.research.error_turns.small_world.arms import Arm
from etude.research.error_turns.small_world.bases import UnfitBase
from etude.research.error_turns.summary import MEASURES, Contrast, Measure, Row

RATES = (3e-4, 1e-3, 3e-3)
EVALUATED = {"base": ("strong", False), "ceiling": ("strong", True)}
EVALUATED |= {"weak_base": ("weak", False), "weak_ceiling": ("weak", True)}
"""Evaluated only: of which base, and whether with the hint."""


class Run(NamedTuple):
    arm: str
    rate: float
    seed: int


class Refused(Exception):
    """One line for the person at the terminal."""


@dataclass(frozen=True)
class Experiment:
    """What is compared. ``checks``: what is counted seed by seed, as "held of all"."""

    arms: Mapping[str, Arm]
    contrasts: Sequence[Contrast]
    checks: Callable[[Mapping[str, Sequence[Row]]], dict[str, str]]
    measures: Mapping[str, Measure] = field(default_factory=lambda: MEASURES)
    rates: Sequence[float] = RATES


@dataclass(frozen=True)
class Ready:
    """``digests``: of the bases, by name. ``evaluated``: rows of arms that are not trained, less those known already.
    ``run``: one run as a row; a function that another process can be given."""

    digests: Mapping[str, str]
    evaluated: Callable[[set[str]], Iterable[dict[str, Any]]]
    run: Callable[[Run], dict[str, Any]]


# --- the result file ---------------------------------------------------------------------------------------------


def load(path: Path) -> list[dict[str, Any]]:
    """The rows so far. A last line that was cut off is dropped from the file. Raises Refused for any other bad line."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole, _, torn = text.rpartition("\n")
    if torn:
        path.write_text(whole + "\n" if whole else "", encoding="utf-8")
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise Refused(f"{path} has a line that is no JSON ({error}): mend it, or start in another folder") from None


def append(path: Path, row: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def alike(rows: Sequence[Row], digests: Mapping[str, str], updates: int) -> None:
    """Raises Refused when rows come from other bases or of runs of another length."""
    for row in rows:
        if row["base"] not in digests.values() or row["updates"] != updates:
            raise Refused("the result file holds runs from other bases or of another length: use another --out")


# --- which runs --------------------------------------------------------------------------------------------------


def tuning_runs(experiment: Experiment, name: str, number: int) -> list[Run]:
    """Each rate on the same tuning seeds; an arm of ten times the length on the first alone. None for a single rate."""
    if len(experiment.rates) == 1:
        return []
    seeds = range(summary.TUNING, summary.TUNING + (number if experiment.arms[name].times == 1 else min(number, 1)))
    return [Run(name, rate, seed) for rate in experiment.rates for seed in seeds]


def chosen(experiment: Experiment, name: str, rows: Sequence[Row], number: int) -> float | None:
    """The rate of least mean area on the tuning seeds, the lesser of equals; None before all of them are done."""
    if len(experiment.rates) == 1:
        return experiment.rates[0]
    wanted = tuning_runs(experiment, name, number)
    areas = {Run(row["arm"], row["rate"], row["seed"]): summary.area(row) for row in rows}
    if not set(wanted) <= set(areas):
        return None
    return min(experiment.rates, key=lambda rate: sum(areas[run] for run in wanted if run.rate == rate))


def stage(
    experiment: Experiment, names: Sequence[str], rows: Sequence[Row], tuning: int, seeds: int, *, counting: bool
) -> list[Run]:
    """The runs of this stage that are not done yet, the longest first."""
    wanted: list[Run] = []
    for name in names:
        rate = chosen(experiment, name, rows, tuning) if counting else None
        wanted += tuning_runs(experiment, name, tuning) if not counting else []
        wanted += [Run(name, rate, seed) for seed in range(1, seeds + 1)] if rate is not None else []
    done = {Run(row["arm"], row["rate"], row["seed"]) for row in rows}
    return sorted((run for run in wanted if run not in done), key=lambda run: -experiment.arms[run.arm].times)


def run_all(runs: Sequence[Run], run: Callable[[Run], dict[str, Any]], jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 1:
        yield from map(run, runs)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(run, each) for each in runs]):
                yield future.result()
        finally:  # what was not begun is not run when one fails or nobody asks for more
            pool.shutdown(wait=False, cancel_futures=True)


# --- the report --------------------------------------------------------------------------------------------------


def counted(experiment: Experiment, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """By arm. Raises Refused for an arm whose runs differ in their learning rate."""
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["seed"]):
        if row["seed"] < summary.TUNING:
            found[row["arm"]].append(row)
    for name, some in found.items():
        if len({row["rate"] for row in some}) > 1:
            raise Refused(f"{name} was counted at several learning rates: keep one's runs in the result file")
    return {name: found[name] for name in (*EVALUATED, *experiment.arms) if name in found}


def report(experiment: Experiment, rows: Sequence[Row], seeds: int) -> dict[str, Any]:
    """Of the arms whose ``seeds`` seeds are all there: no other one is looked at."""
    every, measures = counted(experiment, rows), experiment.measures
    number = {name: len({row["seed"] for row in found}) for name, found in every.items()}
    begun = {name: had for name, had in number.items() if name not in EVALUATED and had < seeds}
    by_arm = {name: found for name, found in every.items() if name not in begun}
    compared = [summary.compared(contrast, by_arm, measures) for contrast in experiment.contrasts]
    return {
        "arms": {name: summary.summarised(found, measures) for name, found in by_arm.items()},
        "begun": begun,
        "contrasts": [one for one in compared if one],
        "checks": experiment.checks(by_arm),
        "tuning": tuned(rows),
        "runs": Counter("tuning" if row["seed"] >= summary.TUNING else "counted" for row in rows),
        "cpu_minutes": sum(row["cpu_seconds"] for row in rows) / 60,
    }


def tuned(rows: Sequence[Row]) -> dict[str, dict[str, list[float]]]:
    """Return the areas on the tuning seeds, by arm and rate."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["seed"] >= summary.TUNING:
            found[row["arm"]][f"{row['rate']:g}"].append(round(summary.area(row), 4))
    return found


def show(found: dict[str, Any]) -> None:
    print(f"{'arm':20} {'rate':>6}  {'final error':21} {'area':21} {'episodes to .10':>15} {'M tokens':>8}"
          f" {'cens.':>6} {'KL good':>8} {'follows':>8}")  # fmt: skip
    for name, arm in found["arms"].items():
        spread = ["{:.3f} [{:.3f}, {:.3f}]".format(*arm[measure]) for measure in ("final", "area")]
        kl, follows = ("-" if arm[key] is None else f"{arm[key]:.3f}" for key in ("good_turn_kl", "follows"))
        print(
            f"{name:20} {arm['rate']:6g}  {spread[0]:21} {spread[1]:21} {arm['episodes'][0]:15.0f} "
            f"{arm['tokens'][0] / 1e6:8.2f} {arm['censored']:2} / {len(arm['seeds'])} {kl:>8} {follows:>8}"
        )
    print()
    show_curves({name: arm["curve"] for name, arm in found["arms"].items() if len(arm["curve"]) > 1})
    for one in found["contrasts"]:
        value = f"{one['value']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]"
        what = f"{one['left']} : {one['right']}, {one['measure']}"
        print(f"{one['contrast']:5} {what:48} {one['kind']:6} {one['bound']:+.2f}  {value:25} {one['verdict']}")
    print()
    show_seeds(found["contrasts"])
    for name, held in found["checks"].items():
        print(f"{name:55} {held}")
    if found["begun"]:
        print("not all seeds yet: " + ", ".join(f"{name} {number}" for name, number in found["begun"].items()))
    print(f"{dict(found['runs'])}, {found['cpu_minutes']:.1f} CPU minutes")


def show_curves(curves: Mapping[str, Sequence[tuple[float, float, float]]]) -> None:
    """Interquartile means of the error, and of the forward tokens, at every evaluation of the shortest run; what is
    left of longer ones stands by itself."""
    shown = [episodes for episodes, *_ in min(curves.values(), key=lambda curve: curve[-1][0], default=[])]
    longer = (tuple(at for at, *_ in curve if at > shown[-1]) for curve in curves.values())
    for columns in dict.fromkeys(filter(None, (tuple(shown), *longer))):
        for what, place, unit in (("error after", 1, 1.0), ("M tokens after", 2, 1e6)):
            print(f"{what:20}" + "".join(f" {episodes:>7.0f}" for episodes in columns) + "  episodes")
            for name, curve in curves.items():
                known = {point[0]: point[place] / unit for point in curve}
                if known.keys() & set(columns):
                    print(f"{name:20}" + "".join(f" {known.get(at, math.nan):7.3f}" for at in columns))
            print()


def show_seeds(contrasts: Sequence[Mapping[str, Any]]) -> None:
    """What was compared, of every seed."""
    sides = {(one[side], one["measure"]): one[f"{side}_seeds"] for one in contrasts for side in ("left", "right")}
    if sides:
        print("seed by seed")
    for (arm, measure), values in sides.items():
        if isinstance(arm, str):
            print(f"{f'{arm}, {measure}':40}" + "".join(f" {value:10.4g}" for value in values))
    print()


# --- the command -------------------------------------------------------------------------------------------------


def go(
    experiment: Experiment, options: argparse.Namespace, prepare: Callable[[argparse.Namespace], Ready]
) -> dict[str, Any]:
    """Run what is left, show the report and return it. Raises Refused."""
    if options.tuning < 1:
        raise Refused("--tuning 0 leaves no learning rate to count with: give 1 or more")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "runs.jsonl"
    rows = load(path)
    if not options.report:
        ready = prepare(options)
        alike(rows, ready.digests, options.updates)
        for row in run_missing(experiment, options, ready, rows):
            append(path, row)
    if not rows:
        raise Refused(f"{path} holds no runs yet")
    found = report(experiment, rows, options.seeds)
    (options.out / "report.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    show(found)
    return found


def run_missing(
    experiment: Experiment, options: argparse.Namespace, ready: Ready, rows: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Each row that is not there yet, as soon as there is one; it is added to ``rows`` too."""
    known = {row["arm"] for row in rows}
    for row in ready.evaluated(known):
        if row["arm"] not in known:
            rows.append(row)
            yield row
    for counting in (False, True):
        left = stage(experiment, options.arms, rows, options.tuning, options.seeds, counting=counting)
        for number, row in enumerate(run_all(left, ready.run, options.jobs), 1):
            rows.append(row)
            yield row
            told_of(row, number, len(left))


def told_of(row: Row, number: int, of: int) -> None:
    print(
        f"{number} of {of}: {row['arm']} at {row['rate']:g}, seed {row['seed']}: error {row['errors'][-1]:.3f}, "
        f"area {summary.area(row):.3f}, {row['cpu_seconds']:.0f} CPU s",
        file=sys.stderr,
        flush=True,
    )


def parser_of(
    experiment: Experiment, description: str | None, *, updates: int, episodes: int
) -> argparse.ArgumentParser:
    """Return the options of every experiment. ``updates``: of a run, unless told; ``episodes``: of an update."""

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
    parser.add_argument("--tuning", type=int, default=1, help="tuning seeds")
    parser.add_argument("--updates", type=int, default=updates, help=f"of {episodes} episodes each")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a thread each")
    parser.add_argument("--report", action="store_true", help="of what is there; runs nothing")
    return parser


def status(command: Callable[[], Any]) -> int:
    """0, or 1 and one line when the command is refused."""
    try:
        command()
    except (Refused, UnfitBase) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
