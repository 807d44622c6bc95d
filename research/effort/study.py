"""Effort against difficulty, before and after training with and without the effort penalty.

    python research/effort/study.py --base DIR/1 --out research/effort [--seeds 3]
    python research/effort/study.py --out research/effort --print

``base.py`` makes the base in DIR/1. Rows go to OUT/rows.jsonl; a run that is there is not made again. ``--print``
prints the tables of RESULTS.md from the rows. PREREGISTERED.md has the protocol.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from etude.research.effort.runs import GROUP, drills, held_out, learned, mean_interval, measure, prepare

LEARNED, LEVELS = (1, 1, 2), (1, 2, 3)
"""Levels of the drills of one update, and the levels that are measured."""
HELD = 48
"""Held-out drills of one level."""
SETS = {f"level {level}": held_out("verbs", level, HELD) for level in LEVELS}
RATE, STEPS = 3e-4, 25
SHAPE = {"k": 0.01, "q": 1.0, "calls": 10.0}
ARMS: dict[str, dict[str, Any]] = {
    "off": {},
    "light": {"effort": {"weight": 0.001, **SHAPE}},
    "heavy": {"effort": {"weight": 0.004, **SHAPE}},
}
"""Tables of the recipe of each arm."""
LAST = "heavy"
"""Arm that is run after all others."""
MEASURES = ("solved", "first_right", "tokens", "calls", "output_tokens")

Row = Mapping[str, Any]


def train(base: Path, url: str, arm: str, seed: int) -> dict[str, Any]:
    """Train one arm and return its row."""
    start = time.process_time()
    tasks = learned("verbs", LEARNED, seed, len(LEARNED) * STEPS)
    options: dict[str, Any] = {"seed": seed, "rate": RATE, "steps": STEPS, "episodes": GROUP * len(LEARNED)}
    with tempfile.TemporaryDirectory() as out:
        run = prepare(base, Path(out), url, tasks, tables=ARMS[arm], **options)
        try:
            run.trainer.train()
            sets = measure(run.trainer, SETS)
        finally:
            run.trainer.close()
        log = [row for row in run.trainer.state.log_history if "reward" in row]
    curve = [{name: round(row[name], 4) for name in ("reward", "episodes/solved")} for row in log]
    return {"arm": arm, "seed": seed, "sets": sets, "curve": curve, "cpu_seconds": round(time.process_time() - start)}


def of_base(base: Path, url: str) -> dict[str, Any]:
    """Return the row of the base before training."""
    with tempfile.TemporaryDirectory() as out:
        options: dict[str, Any] = {"seed": 0, "rate": RATE, "steps": 1, "episodes": GROUP}
        trainer = prepare(base, Path(out), url, learned("verbs", LEARNED, 0, 1), **options).trainer
        try:
            return {"arm": "base", "seed": 0, "sets": measure(trainer, SETS)}
        finally:
            trainer.close()


def run_missing(path: Path, wanted: Sequence[tuple[str, int]], run: Callable[[str, int], dict[str, Any]]) -> None:
    """Make the rows (arm, seed) that the file lacks, and append them to it."""
    present = {(row["arm"], row["seed"]) for row in read_rows(path)}
    for arm, seed in wanted:
        if (arm, seed) not in present:
            row = run(arm, seed)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            solved = {name: cell["solved"] for name, cell in row["sets"].items()}
            print(arm, seed, solved, row.get("cpu_seconds"), flush=True)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; none when it does not exist."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


# --- tables ------------------------------------------------------------------------------------------------------


def tables(rows: Sequence[Row]) -> list[str]:
    """Return the lines of RESULTS.md: every measure by level, then the contrasts of PREREGISTERED.md.

    An arm with fewer seeds than "off" has no column, and its contrasts have no estimate.
    """
    base, arms = next(row for row in rows if row["arm"] == "base"), complete_arms(rows)
    lines = []
    for measured in MEASURES:
        lines += ["", f"| {measured} | base | " + " | ".join(arms) + " |", "|---" * (2 + len(arms)) + "|"]
        for level in SETS:
            cells = [interval_text([value(row, level, measured) for row in of_arm(rows, arm)]) for arm in arms]
            lines.append(f"| {level} | {value(base, level, measured):.2f} | " + " | ".join(cells) + " |")
    lines += ["", "| contrast | estimate | 95 % interval | expected | verdict |", "|---|---|---|---|---|"]
    return [*lines, *(contrast_line(rows, *contrast) for contrast in CONTRASTS)]


def complete_arms(rows: Sequence[Row]) -> list[str]:
    """Return the arms that have a row of every seed of "off"."""
    seeds = {arm: {row["seed"] for row in rows if row["arm"] == arm} for arm in ARMS}
    return [arm for arm in ARMS if seeds[arm] >= seeds["off"]]


def of_arm(rows: Sequence[Row], arm: str) -> list[Row]:
    """Return the rows of an arm in the order of their seeds."""
    return sorted((row for row in rows if row["arm"] == arm), key=lambda row: int(row["seed"]))


def value(row: Row, level: str, measured: str) -> float:
    """Return one measure of a row."""
    return float(row["sets"][level][measured])


def interval_text(values: Sequence[float]) -> str:
    """Return mean and interval as text."""
    mean, low, high = mean_interval(values)
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def token_ratio(left: Row, right: Row) -> float:
    """Return the sampled tokens of ``left`` at level 1 as a share of those of ``right``."""
    return value(left, "level 1", "tokens") / value(right, "level 1", "tokens")


def solved_difference(left: Row, right: Row) -> float:
    """Return by how much more ``left`` solves at level 1."""
    return value(left, "level 1", "solved") - value(right, "level 1", "solved")


def slope_ratio(left: Row, right: Row) -> float:
    """Return the tokens of level 2 over those of level 1 of ``left``, divided by the same of ``right``."""
    steepness = [value(row, "level 2", "tokens") / value(row, "level 1", "tokens") for row in (left, right)]
    return steepness[0] / steepness[1]


CONTRASTS: tuple[tuple[str, str, Callable[[Row, Row], float], str, float], ...] = (
    ("E1", "light", token_ratio, "below", 0.9),
    ("E2", "light", solved_difference, "above", -0.1),
    ("E3", "heavy", token_ratio, "below", 0.75),
    ("E4", "heavy", solved_difference, "below", -0.1),
    ("E5", "light", slope_ratio, "below", 1.0),
)
"""Name, arm, measure against the arm "off" of the same seed, side and bound, as in PREREGISTERED.md."""


def contrast_line(
    rows: Sequence[Row], name: str, arm: str, measured: Callable[[Row, Row], float], side: str, bound: float
) -> str:
    """Return the line of one contrast, whose values are those of pairs of runs of the same seed."""
    what = measured.__name__.replace("_", " ")
    if arm not in complete_arms(rows):
        return f"| {name}: {what}, {arm} | | | {side} {bound:g} | not run |"
    pairs = zip(of_arm(rows, arm), of_arm(rows, "off"), strict=True)
    mean, low, high = mean_interval([measured(left, right) for left, right in pairs])
    verdict = verdict_of(low, high, side, bound)
    return f"| {name}: {what}, {arm} | {mean:.2f} | [{low:.2f}, {high:.2f}] | {side} {bound:g} | {verdict} |"


def verdict_of(low: float, high: float, side: str, bound: float) -> str:
    """Return "supported" when the interval is on the expected side of the bound, "refuted" on the other, or "open"."""
    if side == "below":
        low, high, bound = -high, -low, -bound
    return "supported" if low > bound else "refuted" if high < bound else "open"


def parse_options(description: str | None) -> argparse.Namespace:
    """Return the options of a study's command; runs need the folder of a base."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    if options.base is None and not options.print:
        parser.error("give --base, the folder of the weights that runs start from")
    return options


def main() -> None:
    """Make the runs that are missing, or print the tables."""
    options = parse_options(__doc__)
    path = options.out / "rows.jsonl"
    if not options.print:
        torch.set_num_threads(1)
        with drills() as url:
            base = options.base
            run_missing(path, [("base", 0)], lambda arm, seed: of_base(base, url))
            seeds = range(1, options.seeds + 1)
            wanted = [(arm, seed) for seed in seeds for arm in ARMS if arm != LAST]
            wanted += [(LAST, seed) for seed in seeds]
            run_missing(path, wanted, lambda arm, seed: train(base, url, arm, seed))
    print("\n".join(tables(read_rows(path))))


if __name__ == "__main__":
    main()
