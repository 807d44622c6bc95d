"""Forgetting what the base could do: it learns family A by SFT, GRPO or SDFT, and loses other verbs or keeps them.

    python research/continual/prior.py --base recipes/drill_base --out research/continual [--seeds 3]
    python research/continual/prior.py --out research/continual --print

Rows go to OUT/prior.jsonl; a run that is there is not made again. PREREGISTERED_PRIOR.md has the protocol.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from etude.environments.drill.tasks import default_drills
from etude.research.continual.study import (
    ARMS,
    CANDIDATES,
    HELD,
    MEASURES,
    VERBS,
    Row,
    contrast_line,
    held_out_of,
    learn,
    mean_text,
    measured,
    of_arm,
    share,
)
from etude.research.effort.runs import drills, held_out
from etude.research.effort.study import parse_options, read_rows, run_missing

CONTRASTS = (
    ("P1", "sdft", "sft", "old"),
    ("P2", "grpo", "sft", "old"),
    ("P3", "sdft", "base", "new"),
    ("P4", "sdft", "grpo", "new"),
    ("P5", "base", "sft", "old"),
)
"""Name, two arms and the set whose shares are compared, as in PREREGISTERED_PRIOR.md."""


def sets() -> dict[str, list[str]]:
    """Return the held-out drills of family A as "new", and of all other verbs as "old"."""
    drill = default_drills().drill
    names = held_out("verbs", 1, HELD * CANDIDATES)
    others = (task for task in names if not drill(task).solution()[0][0].endswith(f"_{VERBS['A']}"))
    return {"old": list(itertools.islice(others, HELD)), "new": held_out_of("A")}


def train(base: Path, url: str, work: Path, arm: str, seed: int) -> dict[str, Any]:
    """Make the row of an arm and a seed."""
    start = time.process_time()
    row = measured(base, url, work, sets()) if arm == "base" else learn(base, url, work, arm, "A", seed, sets())
    return {"arm": arm, "seed": seed, **row, "cpu_seconds": round(time.process_time() - start)}


def tables(rows: Sequence[Row]) -> list[str]:
    """Return the lines of RESULTS.md: shares with intervals over seeds, and the contrasts."""
    by_arm = {arm: of_arm(rows, arm) for arm in ARMS}
    [base] = of_arm(rows, "base")
    lines = []
    for name in MEASURES:
        lines += ["", f"| {name}, after | old | new | old forgotten | new learned |", "|---|---|---|---|---|"]
        lines.append(f"| base | {share(base, 'old', name):.2f} | {share(base, 'new', name):.2f} | | |")
        for arm, found in by_arm.items():
            cells = [mean_text([share(row, kind, name) for row in found]) for kind in ("old", "new")]
            cells.append(mean_text([share(base, "old", name) - share(row, "old", name) for row in found]))
            cells.append(mean_text([share(row, "new", name) - share(base, "new", name) for row in found]))
            lines.append(f"| {arm} | {' | '.join(cells)} |")
    lines += ["", "| contrast | estimate | 95 % interval | expected | verdict |", "|---|---|---|---|---|"]
    compared = {**by_arm, "base": [base] * len(by_arm["sft"])}
    return lines + [contrast_line(compared, name, *contrast) for name in MEASURES for contrast in CONTRASTS]


def main() -> None:
    """Make the runs that are missing, or print the tables."""
    options = parse_options(__doc__)
    path = options.out / "prior.jsonl"
    if not options.print:
        torch.set_num_threads(1)
        wanted = [("base", 0), *((arm, seed) for seed in range(1, options.seeds + 1) for arm in ARMS)]
        with drills() as url, tempfile.TemporaryDirectory() as folder:
            run_missing(path, wanted, lambda arm, seed: train(options.base, url, Path(folder), arm, seed))
    print("\n".join(tables(read_rows(path))))


if __name__ == "__main__":
    main()
