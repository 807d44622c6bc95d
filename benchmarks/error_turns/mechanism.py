"""Experiment (A): does distillation at error turns work, and why, in a world small enough for one core.

    python benchmarks/error_turns/mechanism.py --seeds 5 --out DIR [--arms a,b] [--tuning N] [--jobs N]
    python benchmarks/error_turns/mechanism.py --out DIR --report

What is compared, and what counts as support, stands in PREREGISTERED.md beside this file. The two bases are made once,
in DIR/bases; every run adds one line to DIR/runs.jsonl, and a command that was stopped goes on where it was. First each
arm's learning rate is chosen on tuning seeds, then the counted seeds, 1 and up, are run. ``--seeds 0`` tunes alone.
The report goes to the terminal and to DIR/report.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

from etude.benchmarks.error_turns import arms, bases, summary, training

RATES = (3e-4, 1e-3, 3e-3)
EVALUATED = {"base": ("strong", False), "ceiling": ("strong", True)}
EVALUATED |= {"weak_base": ("weak", False), "weak_ceiling": ("weak", True)}


class Run(NamedTuple):
    arm: str
    rate: float
    seed: int


class Refused(Exception):
    """One line for the person at the terminal."""


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


def alike(rows: Sequence[dict[str, Any]], digests: dict[str, str], updates: int) -> None:
    """Raises Refused when rows come from other bases or of runs of another length."""
    for row in rows:
        if row["base"] not in digests.values() or row["updates"] != updates:
            raise Refused("the result file holds runs from other bases or of another length: use another --out")


def tuning_runs(name: str, number: int) -> list[Run]:
    """Three rates on the same tuning seeds; an arm of ten times the length on the first alone."""
    seeds = range(summary.TUNING, summary.TUNING + (number if arms.ARMS[name].times == 1 else min(number, 1)))
    return [Run(name, rate, seed) for rate in RATES for seed in seeds]


def chosen(name: str, rows: Sequence[dict[str, Any]], number: int) -> float | None:
    """The rate of least mean area on the tuning seeds, the lesser of equals; None before all of them are done."""
    wanted = tuning_runs(name, number)
    areas = {Run(row["arm"], row["rate"], row["seed"]): summary.area(row) for row in rows}
    if not wanted or not set(wanted) <= set(areas):
        return None
    return min(RATES, key=lambda rate: sum(areas[run] for run in wanted if run.rate == rate))


def stage(
    names: Sequence[str], rows: Sequence[dict[str, Any]], tuning: int, seeds: int, *, counting: bool
) -> list[Run]:
    """The runs of this stage that are not done yet, the longest first."""
    wanted: list[Run] = []
    for name in names:
        rate = chosen(name, rows, tuning) if counting else None
        wanted += tuning_runs(name, tuning) if not counting else []
        wanted += [Run(name, rate, seed) for seed in range(1, seeds + 1)] if rate is not None else []
    done = {Run(row["arm"], row["rate"], row["seed"]) for row in rows}
    return sorted((run for run in wanted if run not in done), key=lambda run: -arms.ARMS[run.arm].times)


def run_one(run: Run, folder: Path, updates: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    first = bases.load(arms.ARMS[run.arm].base, folder)
    return training.train(*run, first, updates=updates) | {"updates": updates}


def run_all(runs: Sequence[Run], folder: Path, updates: int, jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 1:
        yield from (run_one(run, folder, updates) for run in runs)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run_one, run, folder, updates) for run in runs]):
            yield future.result()


def evaluated(folder: Path, updates: int) -> Iterator[dict[str, Any]]:
    """The bases themselves, without and with the hint."""
    for name, (base, hint) in EVALUATED.items():
        model = bases.load(base, folder)
        curve = training.Curve([0], [0], [round(training.error(model, hint), 5)])
        yield training.row(name, 0.0, 0, curve, model, model) | {"cpu_seconds": 0.0, "updates": updates}


def counted(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["seed"]):
        if row["seed"] < summary.TUNING:
            found[row["arm"]].append(row)
    return {name: found[name] for name in (*EVALUATED, *arms.ARMS) if name in found}


def report(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    by_arm = counted(rows)
    return {
        "arms": {name: summary.summarised(found) for name, found in by_arm.items()},
        "contrasts": [one for contrast in summary.CONTRASTS if (one := summary.compared(contrast, by_arm))],
        "checks": summary.checks(by_arm),
        "tuning": tuned(rows),
        "runs": Counter("tuning" if row["seed"] >= summary.TUNING else "counted" for row in rows),
        "cpu_minutes": sum(row["cpu_seconds"] for row in rows) / 60,
    }


def tuned(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """The areas on the tuning seeds, by arm and rate."""
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
    for one in found["contrasts"]:
        value = f"{one['value']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]"
        what = f"{one['left']} : {one['right']}, {one['measure']}"
        print(f"{one['contrast']:5} {what:48} {one['kind']:6} {one['bound']:+.2f}  {value:25} {one['verdict']}")
    print()
    for name, held in found["checks"].items():
        print(f"{name:55} {held}")
    print(f"{dict(found['runs'])}, {found['cpu_minutes']:.1f} CPU minutes")


def go(options: argparse.Namespace) -> None:
    if options.tuning < 1:
        raise Refused("--tuning 0 leaves no learning rate to count with: give 1 or more")
    options.out.mkdir(parents=True, exist_ok=True)
    path, folder = options.out / "runs.jsonl", options.out / "bases"
    rows = load(path)
    if not options.report:
        digests = {name: bases.digest(bases.base(name, folder, told=told)) for name in bases.SKILL}
        alike(rows, digests, options.updates)
        known = {row["arm"] for row in rows}
        fresh = [row for row in evaluated(folder, options.updates) if row["arm"] not in known]
        for row in fresh:
            append(path, row)
        rows += fresh
        for counting in (False, True):
            left = stage(options.arms, rows, options.tuning, options.seeds, counting=counting)
            for number, row in enumerate(run_all(left, folder, options.updates, options.jobs), 1):
                append(path, row)
                rows.append(row)
                told_of(row, number, len(left))
    if not rows:
        raise Refused(f"{path} holds no runs yet")
    found = report(rows)
    (options.out / "report.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    show(found)


def told(step: int, loss: float) -> None:
    print(f"base: step {step} of {bases.STEPS}, {loss:.4f} nats above its targets", file=sys.stderr, flush=True)


def told_of(row: dict[str, Any], number: int, of: int) -> None:
    print(
        f"{number} of {of}: {row['arm']} at {row['rate']:g}, seed {row['seed']}: error {row['errors'][-1]:.3f}, "
        f"area {summary.area(row):.3f}, {row['cpu_seconds']:.0f} CPU s",
        file=sys.stderr,
        flush=True,
    )


def names_of(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in arms.ARMS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no arm {', '.join(unknown)}; there are {', '.join(arms.ARMS)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arms", type=names_of, default=list(arms.ARMS))
    parser.add_argument("--tuning", type=int, default=1, help="tuning seeds")
    parser.add_argument("--updates", type=int, default=training.UPDATES, help="of 32 episodes each")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a thread each")
    parser.add_argument("--report", action="store_true", help="of what is there; runs nothing")
    torch.set_num_threads(1)
    try:
        go(parser.parse_args())
    except (Refused, bases.UnfitBase) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
