"""Forgetting: family A, then family B, by SFT on demonstrations, GRPO or self-distillation (SDFT).

    python research/continual/study.py --base DIR/2 --out research/continual [--seeds 3]
    python research/continual/study.py --out research/continual --print

``research/effort/base.py`` makes the base in DIR/2; weights on the way go to DIR/continual. Rows go to OUT/rows.jsonl;
a run that is there is not made again. ``--print`` prints the tables of RESULTS.md from the rows.
PREREGISTERED.md has the protocol.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from etude.research.continual.arms import SdftTrainer, sft, tables_of
from etude.research.effort.runs import Cell, drills, held_out, learned, mean_interval, measure, prepare
from etude.research.effort.study import parse_options, read_rows, run_missing, verdict_of

A, B = "verbs", "choose"
HELD = 48
"""Held-out drills of each family."""
SETS = {"A": held_out(A, 1, HELD), "B": held_out(B, 1, HELD)}
LEARN_A, LEARN_B = 25, 25
"""Updates of each phase."""
DEMONSTRATIONS = 8
"""Demonstrations of one update of SFT and SDFT; SDFT plays each drill twice."""
RATE = 3e-4
EPISODES = 16
"""Episodes of one update of GRPO and SDFT."""
ARMS = ("sft", "grpo", "sdft")

Row = Mapping[str, Any]


def train(base: Path, url: str, work: Path, arm: str, seed: int) -> dict[str, Any]:
    """Make the row of an arm and a seed. The arm "A" learns A from the base; the others start where it ended."""
    start = time.process_time()
    after_a = work / f"A-{seed}"
    if arm == "A":
        tasks = learned(A, (1,), seed, DEMONSTRATIONS * LEARN_A)
        sft(base, after_a, tasks, rate=RATE, steps=LEARN_A)
        sets = measured(after_a, url, work)
    elif arm == "sft":
        tasks = learned(B, (1,), seed, DEMONSTRATIONS * LEARN_B)
        sft(after_a, work / "sft", tasks, rate=RATE, steps=LEARN_B)
        sets = measured(work / "sft", url, work)
    else:
        sets = played(after_a, url, work, arm, seed)
    return {"arm": arm, "seed": seed, "sets": sets, "cpu_seconds": round(time.process_time() - start)}


def measured(model: Path, url: str, work: Path) -> dict[str, Cell]:
    """Return the measures of the weights in a folder on both families."""
    options: dict[str, Any] = {"seed": 0, "rate": RATE, "steps": 1, "episodes": EPISODES}
    trainer = prepare(model, work / "run", url, learned(A, (1,), 0, 2), **options).trainer
    try:
        return measure(trainer, SETS)
    finally:
        trainer.close()


def played(after_a: Path, url: str, work: Path, arm: str, seed: int) -> dict[str, Cell]:
    """Learn B from episodes that the policy plays, and return the measures on both families."""
    kind, group = (SdftTrainer, 2) if arm == "sdft" else (None, 8)
    tasks = learned(B, (1,), seed, DEMONSTRATIONS * LEARN_B)
    options: dict[str, Any] = {"seed": seed, "rate": RATE, "steps": LEARN_B, "episodes": EPISODES, "group": group}
    run = prepare(after_a, work / "run", url, tasks, tables=tables_of(arm), trainer=kind, **options)
    try:
        run.trainer.train()
        return measure(run.trainer, SETS)
    finally:
        run.trainer.close()


# --- tables ------------------------------------------------------------------------------------------------------


def tables(rows: Sequence[Row]) -> list[str]:
    """Return the lines of RESULTS.md: solved shares with intervals over seeds, then the contrasts."""
    by_arm = {arm: of_arm(rows, arm) for arm in ("A", *ARMS)}
    base = next(row for row in rows if row["arm"] == "base")
    lines = ["| after | A solved | B solved | A forgotten | B learned |", "|---|---|---|---|---|"]
    lines.append(f"| base | {solved(base, 'A'):.2f} | {solved(base, 'B'):.2f} | | |")
    for arm, arm_rows in by_arm.items():
        texts = [interval_text([solved(row, family) for row in arm_rows]) for family in "AB"]
        pairs = list(zip(by_arm["A"], arm_rows, strict=True))
        lost = interval_text([solved(before, "A") - solved(after, "A") for before, after in pairs])
        gained = interval_text([solved(after, "B") - solved(before, "B") for before, after in pairs])
        lines.append(f"| {arm} | {' | '.join(texts)} | {'' if arm == 'A' else lost} | {'' if arm == 'A' else gained} |")
    lines += ["", "| contrast | estimate | 95 % interval | expected | verdict |", "|---|---|---|---|---|"]
    for name, left, right, family in CONTRASTS:
        differences = [
            solved(one, family) - solved(other, family) for one, other in zip(by_arm[left], by_arm[right], strict=True)
        ]
        mean, low, high = mean_interval(differences)
        what = f"{name}: {family} solved, {left} minus {right}"
        verdict = verdict_of(low, high, "above", 0.0)
        lines.append(f"| {what} | {mean:.2f} | [{low:.2f}, {high:.2f}] | above 0 | {verdict} |")
    return lines


CONTRASTS = (
    ("C1", "sdft", "sft", "A"),
    ("C2", "grpo", "sft", "A"),
    ("C3", "sdft", "A", "B"),
    ("C4", "sdft", "grpo", "B"),
    ("C5", "sft", "sdft", "B"),
)
"""Name, two arms and the family whose solved shares are compared, as in PREREGISTERED.md."""


def of_arm(rows: Sequence[Row], arm: str) -> list[Row]:
    """Return the rows of an arm in the order of their seeds."""
    return sorted((row for row in rows if row["arm"] == arm), key=lambda row: int(row["seed"]))


def solved(row: Row, family: str) -> float:
    """Return the share of the solved drills of a family."""
    return float(row["sets"][family]["solved"])


def interval_text(values: Sequence[float]) -> str:
    """Return mean and interval as text."""
    mean, low, high = mean_interval(values)
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    """Make the runs that are missing, or print the tables."""
    options = parse_options(__doc__)
    path = options.out / "rows.jsonl"
    if not options.print:
        torch.set_num_threads(1)
        base, work = options.base, options.base.parent / "continual"
        with drills() as url:
            run_missing(path, [("base", 0)], lambda arm, _: {"arm": arm, "seed": 0, "sets": measured(base, url, work)})
            for seed in range(1, options.seeds + 1):
                run_missing(path, [(arm, seed) for arm in ("A", *ARMS)], lambda arm, s: train(base, url, work, arm, s))
    print("\n".join(tables(read_rows(path))))


if __name__ == "__main__":
    main()
