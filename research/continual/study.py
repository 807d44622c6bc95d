"""Forgetting: family A, then family B, by SFT on demonstrations, GRPO or self-distillation (SDFT).

    python research/continual/study.py --base recipes/drill_base --out research/continual [--seeds 3]
    python research/continual/study.py --out research/continual --print

Rows go to OUT/rows.jsonl; a run that is there is not made again. Weights on the way go to a folder that is deleted.
``--print`` prints the tables of RESULTS.md from the rows. PREREGISTERED.md has the protocol.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from etude.environments.drill.tasks import default_drills
from etude.research.continual.arms import SdftTrainer, sft, tables_of
from etude.research.continual.demonstrated import play_demonstrated
from etude.research.effort.runs import Cell, drills, held_out, learned, mean_interval, measure, prepare, summary
from etude.research.effort.study import parse_options, read_rows, run_missing, verdict_of

VERBS = {"A": "get", "B": "show"}
"""Verb that reads values in the drills of a family; all are drills of the environment's family ``verbs``, level 1."""
CANDIDATES = 24
"""Drills that are looked at for each one wanted; one in six has a given verb."""
HELD = 48
"""Held-out drills of each family."""
UPDATES = 25
"""Updates of each phase."""
DEMONSTRATIONS = 8
"""Demonstrations of one update of SFT and SDFT; SDFT plays each drill twice."""
RATE = 3e-4
EPISODES = 16
"""Episodes of one update of GRPO and SDFT."""
ARMS = ("sft", "grpo", "sdft")
MEASURES = ("solved", "first_right")

Row = Mapping[str, Any]


def of_family(family: str, tasks: Iterable[str], number: int) -> list[str]:
    """Return the first ``number`` of the drills whose reading verb is that of the family."""
    drill = default_drills().drill
    own = (task for task in tasks if drill(task).solution()[0][0].endswith(f"_{VERBS[family]}"))
    return list(itertools.islice(own, number))


def held_out_of(family: str) -> list[str]:
    """Return the ids of the held-out drills of a family."""
    return of_family(family, held_out("verbs", 1, HELD * CANDIDATES), HELD)


def learned_of(family: str, seed: int, number: int) -> list[str]:
    """Return the ids of the drills of a family that the runs of a seed learn from."""
    return of_family(family, learned("verbs", (1,), seed, number * CANDIDATES), number)


def train(base: Path, url: str, work: Path, arm: str, seed: int) -> dict[str, Any]:
    """Make the row of an arm and a seed. The arm "A" learns A from the base; the others start where it ended."""
    start = time.process_time()
    after_a = work / f"A-{seed}"
    if arm == "A" or not after_a.is_dir():
        sft(base, after_a, learned_of("A", seed, DEMONSTRATIONS * UPDATES), rate=RATE, steps=UPDATES)
    row = measured(after_a, url, work, both()) if arm == "A" else learn(after_a, url, work, arm, "B", seed, both())
    return {"arm": arm, "seed": seed, **row, "cpu_seconds": round(time.process_time() - start)}


def both() -> dict[str, list[str]]:
    """Return the held-out drills of both families."""
    return {family: held_out_of(family) for family in VERBS}


def learn(
    start: Path, url: str, work: Path, arm: str, family: str, seed: int, sets: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, Cell]]:
    """Learn a family by one of ARMS from the weights in a folder, and return the measures on the sets."""
    if arm == "sft":
        sft(start, work / "sft", learned_of(family, seed, DEMONSTRATIONS * UPDATES), rate=RATE, steps=UPDATES)
        return measured(work / "sft", url, work, sets)
    kind, group = (SdftTrainer, 2) if arm == "sdft" else (None, 8)
    tasks = learned_of(family, seed, EPISODES // group * UPDATES)
    options: dict[str, Any] = {"seed": seed, "rate": RATE, "steps": UPDATES, "episodes": EPISODES, "group": group}
    run = prepare(start, work / "run", url, tasks, tables=tables_of(arm), trainer=kind, **options)
    try:
        run.trainer.train()
        return {"sets": measure(run.trainer, sets)}
    finally:
        run.trainer.close()


def measured(model: Path, url: str, work: Path, sets: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Cell]]:
    """Return the measures of the weights in a folder on sets of drills, without and with demonstrations."""
    options: dict[str, Any] = {"seed": 0, "rate": RATE, "steps": 1, "episodes": EPISODES}
    trainer = prepare(model, work / "run", url, learned("verbs", (1,), 0, 2), **options).trainer
    try:
        trainer.model.eval()
        torch.manual_seed(0)
        decode = trainer.processing_class.decode
        taught = {name: summary(play_demonstrated(trainer, tasks), decode) for name, tasks in sets.items()}
        return {"sets": measure(trainer, sets), "taught": taught}
    finally:
        trainer.close()


# --- tables ------------------------------------------------------------------------------------------------------


def tables(rows: Sequence[Row]) -> list[str]:
    """Return the lines of RESULTS.md: shares with intervals over seeds, what demonstrations teach, the contrasts."""
    by_arm = {arm: of_arm(rows, arm) for arm in ("A", *ARMS)}
    base = next(row for row in rows if row["arm"] == "base")
    lines = []
    for measured in MEASURES:
        lines += ["", f"| {measured}, after | A | B | A forgotten | B learned |", "|---|---|---|---|---|"]
        lines.append(f"| base | {share(base, 'A', measured):.2f} | {share(base, 'B', measured):.2f} | | |")
        lines += [arm_line(arm, found, by_arm["A"], measured) for arm, found in by_arm.items()]
    lines += [
        "",
        "| with a demonstration | A solved | B solved | A first_right | B first_right |",
        "|---|---|---|---|---|",
    ]
    for name, found in (("base", [base]), ("after A", by_arm["A"])):
        cells = [mean_text([float(row["taught"][f][m]) for row in found]) for m in MEASURES for f in VERBS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| contrast | estimate | 95 % interval | expected | verdict |", "|---|---|---|---|---|"]
    return lines + [contrast_line(by_arm, measured, *contrast) for measured in MEASURES for contrast in CONTRASTS]


def arm_line(arm: str, found: Sequence[Row], before: Sequence[Row], measured: str) -> str:
    """Return the line of one arm: A and B after training, and the changes since A had been learned."""
    cells = [mean_text([share(row, family, measured) for row in found]) for family in VERBS]
    if arm == "A":
        return f"| A | {' | '.join(cells)} | | |"
    pairs = list(zip(before, found, strict=True))
    lost = mean_text([share(old, "A", measured) - share(new, "A", measured) for old, new in pairs])
    gained = mean_text([share(new, "B", measured) - share(old, "B", measured) for old, new in pairs])
    return f"| {arm} | {' | '.join(cells)} | {lost} | {gained} |"


def contrast_line(
    by_arm: Mapping[str, Sequence[Row]], measured: str, name: str, left: str, right: str, family: str
) -> str:
    """Return the line of one contrast, whose values are differences of runs of the same seed."""
    pairs = zip(by_arm[left], by_arm[right], strict=True)
    mean, low, high = mean_interval(
        [share(one, family, measured) - share(other, family, measured) for one, other in pairs]
    )
    what = f"{name}: {family} {measured}, {left} minus {right}"
    verdict = verdict_of(low, high, "above", 0.0)
    return f"| {what} | {mean:.2f} | [{low:.2f}, {high:.2f}] | above 0 | {verdict} |"


CONTRASTS = (
    ("C1", "sdft", "sft", "A"),
    ("C2", "grpo", "sft", "A"),
    ("C3", "sdft", "A", "B"),
    ("C4", "sdft", "grpo", "B"),
    ("C5", "sft", "sdft", "B"),
)
"""Name, two arms and the family whose shares are compared, as in PREREGISTERED.md."""


def of_arm(rows: Sequence[Row], arm: str) -> list[Row]:
    """Return the rows of an arm in the order of their seeds."""
    return sorted((row for row in rows if row["arm"] == arm), key=lambda row: int(row["seed"]))


def share(row: Row, family: str, measured: str) -> float:
    """Return a share of the held-out drills of a family."""
    return float(row["sets"][family][measured])


def mean_text(values: Sequence[float]) -> str:
    """Return the mean as text, with its interval when there are two values or more."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    mean, low, high = mean_interval(values)
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    """Make the runs that are missing, or print the tables."""
    options = parse_options(__doc__)
    path = options.out / "rows.jsonl"
    if not options.print:
        torch.set_num_threads(1)
        base = options.base
        with drills() as url, tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            run_missing(
                path, [("base", 0)], lambda arm, _: {"arm": arm, "seed": 0, **measured(base, url, work, both())}
            )
            for seed in range(1, options.seeds + 1):
                run_missing(path, [(arm, seed) for arm in ("A", *ARMS)], lambda arm, s: train(base, url, work, arm, s))
    print("\n".join(tables(read_rows(path))))


if __name__ == "__main__":
    main()
