"""Muon beside AdamW at equal tuning: reinforcement learning on drills, as registered in PREREGISTERED.md.

usage: python research/muon_rl/compare.py --out FOLDER [--work FOLDER] [--seeds 5] [--print] [--tied FILE]

Both arms are RLVR plus distillation at weight 0.1 from the base of experiment B (``research/error_turns``); only the
optimizer of the recipe differs. Rows go to ``OUT/rows.jsonl``; a run that is there is not made again. The base and the
folders of the runs are in ``--work``. ``--print`` prints the tables of RESULTS.md from the rows; ``--tied`` has rows of
AdamW at another rate, which are compared with Muon's too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Measure = Callable[[Row], float]

ARMS = {"adamw": "sparse_tenth", "muon": "muon_tenth"}
"""Name of each optimizer's arm in ``research/error_turns``."""
LADDER = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
RATES = LADDER[4:8]
EXTENSIONS = 2
"""Rates that are added at most, one at a time and for both arms, when the best rate of an arm is an edge."""
TUNING_SEED, FIRST_SEED = 1000, 1
UPDATES, PARTS = 12, 3
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Student's t for a two-sided 95 % interval of the mean of so many values."""


# --- measures ----------------------------------------------------------------------------------------------------


def share(row: Row, name: str, place: int) -> float:
    """Return a share at an evaluation, over the held-out drills of both splits."""
    return statistics.fmean(row["held"][split][place][name] for split in ("train", "eval"))


def final(name: str) -> Measure:
    """Return a measure: a share at the last evaluation."""
    return lambda row: share(row, name, -1)


def over_run(name: str) -> Measure:
    """Return a measure: the mean of a share over the run, by the trapezoidal rule."""

    def measure(row: Row) -> float:
        values = [share(row, name, place) for place in range(len(row["episodes"]))]
        return statistics.fmean((left + right) / 2 for left, right in zip(values, values[1:], strict=False))

    return measure


MEASURES: dict[str, Measure] = {
    "solved, end": final("solved"),
    "solved, mean of run": over_run("solved"),
    "error, end": final("missed"),
    "error, mean of run": over_run("missed"),
    "turns that err, end": final("turns"),
}
TUNED = over_run("solved")


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of two to five values and its 95 % t interval."""
    mean = statistics.fmean(values)
    half = statistics.stdev(values) * T_95[len(values)] / len(values) ** 0.5
    return mean, mean - half, mean + half


def paired(left: Sequence[Row], right: Sequence[Row], measure: Measure) -> tuple[float, float, float]:
    """Return the mean difference, left minus right, of the seeds that both have, and its 95 % t interval."""
    others = {row["seed"]: row for row in right}
    return interval([measure(row) - measure(others[row["seed"]]) for row in left if row["seed"] in others])


# --- the runs ----------------------------------------------------------------------------------------------------


def best_rate(rates: Sequence[float], rows: Sequence[Row], arm: str) -> float:
    """Return the rate of an arm with the highest ``TUNED`` on the tuning seed, the first of equal ones."""
    tuned = {row["rate"]: TUNED(row) for row in rows if (row["arm"], row["seed"]) == (arm, TUNING_SEED)}
    return max(rates, key=lambda rate: tuned[rate])


def extended(rates: Sequence[float], best: Sequence[float]) -> tuple[float, ...]:
    """Return the rates with one more, a third or three times as large, when one of the best is an edge."""
    low, high = LADDER.index(rates[0]), LADDER.index(rates[-1])
    if rates[0] in best:
        return LADDER[low - 1 : high + 1]
    if rates[-1] in best:
        return LADDER[low : high + 2]
    return tuple(rates)


def tune(run: Callable[[str, float, int], Row], rows: Sequence[Row]) -> dict[str, float]:
    """Make the tuning runs and return the best rate of each arm."""
    rates: tuple[float, ...] = RATES
    for _ in range(EXTENSIONS + 1):
        for rate in rates:
            for arm in ARMS.values():
                run(arm, rate, TUNING_SEED)
        best = {arm: best_rate(rates, rows, arm) for arm in ARMS.values()}
        longer = extended(rates, list(best.values()))
        if longer == rates or len(longer) > len(RATES) + EXTENSIONS:
            break
        rates = longer
    return best


def make_runs(rows: list[Row], path: Path, work: Path, seeds: int) -> None:
    """Make the runs that are missing, and add each to ``rows`` and to the file as it ends."""
    import torch

    from etude.research.error_turns.driver import Run, append
    from etude.research.error_turns.real_stack import base_models, runs
    from etude.research.error_turns.worlds.drill_world import DRILLS

    torch.set_num_threads(1)
    world = replace(DRILLS, parts=PARTS)
    os.environ.setdefault("MAX_CONCURRENT_ENVS", str(4 * world.held))
    base = base_models.base(world, "strong", work / "bases")
    with world.served(work, []) as url:

        def run(arm: str, rate: float, seed: int) -> Row:
            done = next((row for row in rows if (row["arm"], row["rate"], row["seed"]) == (arm, rate, seed)), None)
            if done is None:
                done = runs.train(world, Run(arm, rate, seed), base, url, work, updates=UPDATES)
                rows.append(done)
                append(path, done)
                print(arm, rate, seed, *(f"{measure(done):.3f}" for measure in MEASURES.values()), flush=True)
            return done

        best = tune(run, rows)
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            for arm, rate in best.items():
                run(arm, rate, seed)


# --- the tables --------------------------------------------------------------------------------------------------


def show(rows: Sequence[Row]) -> None:
    """Print the tuning, the measures at the best rates, the curves and the differences."""
    rates = sorted({row["rate"] for row in rows})
    print(table_head(["arm", *(f"{rate:g}" for rate in rates)]))
    counted: dict[str, list[Row]] = {}
    for name, arm in ARMS.items():
        tuned = {row["rate"]: row for row in rows if (row["arm"], row["seed"]) == (arm, TUNING_SEED)}
        cells = [f"{TUNED(tuned[r]):.3f} ({final('solved')(tuned[r]):.2f})" if r in tuned else "" for r in rates]
        print(table_row([name, *cells]))
        best = best_rate(sorted(tuned), rows, arm)
        counted[name] = [row for row in rows if (row["arm"], row["rate"]) == (arm, best) and row["seed"] < TUNING_SEED]
    if min(map(len, counted.values())) < 2:
        return
    print("\n" + table_head(["arm", "rate", "seeds", *MEASURES, "CPU s"]))
    for name, arm_rows in counted.items():
        cells = ["{:.3f} [{:.3f}, {:.3f}]".format(*interval([m(row) for row in arm_rows])) for m in MEASURES.values()]
        seconds = statistics.fmean(row["cpu_seconds"] for row in arm_rows)
        print(table_row([name, f"{arm_rows[0]['rate']:g}", str(len(arm_rows)), *cells, f"{seconds:.0f}"]))
    show_differences(counted["muon"], counted["adamw"])
    episodes = counted["adamw"][0]["episodes"]
    print("\n" + table_head(["share", "arm", *(f"step {each // 32}" for each in episodes)]))
    for title, field in {"solved": "solved", "error": "missed"}.items():
        for name, arm_rows in counted.items():
            curve = [statistics.fmean(share(row, field, place) for row in arm_rows) for place in range(len(episodes))]
            print(table_row([title, name, *(f"{value:.2f}" for value in curve)]))


def show_differences(muon: Sequence[Row], adamw: Sequence[Row]) -> None:
    """Print the paired differences of all measures."""
    print("\n" + table_head([f"muon - adamw at {adamw[0]['rate']:g}", "difference", "95 % interval"]))
    for title, measure in MEASURES.items():
        mean, low, high = paired(muon, adamw, measure)
        print(table_row([title, f"{mean:+.3f}", f"{low:+.3f} to {high:+.3f}"]))


def show_tied(rows: Sequence[Row], other: Sequence[Row]) -> None:
    """Print the measures of AdamW at another rate, and its differences from Muon."""
    adamw = [row for row in other if row["arm"] == ARMS["adamw"]]
    muon = [row for row in rows if row["arm"] == ARMS["muon"] and row["seed"] < TUNING_SEED]
    adamw = [row for row in adamw if row["seed"] in {each["seed"] for each in muon}]
    print("\n" + table_head(["arm", "rate", "seeds", *MEASURES]))
    cells = ["{:.3f} [{:.3f}, {:.3f}]".format(*interval([m(row) for row in adamw])) for m in MEASURES.values()]
    print(table_row(["adamw", f"{adamw[0]['rate']:g}", str(len(adamw)), *cells]))
    show_differences(muon, adamw)


def table_head(cells: Sequence[str]) -> str:
    """Return the head of a Markdown table."""
    return table_row(cells) + "\n" + "|---" * len(cells) + "|"


def table_row(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Make the runs that are missing, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="Folder of rows.jsonl.")
    parser.add_argument("--work", type=Path, help="Folder of the base and of the runs. Default: OUT/work.")
    parser.add_argument("--seeds", type=int, default=5, choices=sorted(T_95), help="Counted seeds of each arm.")
    parser.add_argument("--print", action="store_true", help="Only print the tables.")
    parser.add_argument("--tied", type=Path, help="File with rows of AdamW at another rate.")
    options = parser.parse_args()
    path = options.out / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if not options.print:
        options.out.mkdir(parents=True, exist_ok=True)
        make_runs(rows, path, options.work or options.out / "work", options.seeds)
    show(rows)
    if options.tied:
        show_tied(rows, [json.loads(line) for line in options.tied.read_text().splitlines()])


if __name__ == "__main__":
    main()
