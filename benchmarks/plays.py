"""Solve rates per generator from the records of played episodes, and what the monitors said of them.

``python benchmarks/plays.py DIR... [--monitors]``: each DIR holds records of episodes as JSON, one file each, as
``Client.episode()`` returns them. The table has plays, solved ones, the rate with its 95 % Wilson interval, the turns
(median) and the plays with a suspected or confirmed finding. With ``--monitors`` today's monitors inspect the
transcripts again, without the graded files, and their findings are counted instead of the recorded ones.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from etude import monitors
from etude.intervals import wilson
from etude.models import PublicTask, Turn

SERIOUS = ("suspect", "confirmed")


@dataclass(frozen=True)
class Play:
    """One played episode."""

    generator: str  # the generator of its task
    package: str  # the package of its task, with its version
    reward: float  # 0 to 1
    turns: int  # turns of the agent
    findings: tuple[str, ...]  # exploit ids of serious findings


def read(folders: Sequence[Path], *, again: bool) -> Iterator[Play]:
    """Yield the plays of some folders."""
    for path in sorted(path for folder in folders for path in folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        stem, generator, _ = record["task_id"].rsplit(".", 2)
        found = inspected(record) if again else record["findings"]
        serious = tuple(item["exploit_id"] for item in found if item["severity"] in SERIOUS)
        yield Play(generator, stem, record["reward"]["value"], len(record["turns"]), serious)


def inspected(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what today's monitors find in the transcript of a record."""
    task = PublicTask(task_id=record["task_id"], environment="", problem_statement=record["prompt"], split="train")
    turns = tuple(Turn.model_validate(turn) for turn in record["turns"])
    findings = monitors.inspect(monitors.Inspection(task=task, turns=turns))
    return [finding.model_dump() for finding in findings]


def table(plays: Sequence[Play]) -> list[str]:
    """Return the table, one row per generator and one for all."""
    lines = ["| generator | plays | solved | rate | turns | with findings |", "|---|---|---|---|---|---|"]
    groups: dict[str, list[Play]] = defaultdict(list)
    for play in plays:
        groups[play.generator].append(play)
    for name, own in [*sorted(groups.items()), ("all", list(plays))]:
        solved = sum(play.reward == 1.0 for play in own)
        low, high = wilson(solved / len(own), len(own))
        found = ", ".join(sorted({item for play in own for item in play.findings}))
        suspected = sum(bool(play.findings) for play in own)
        lines.append(
            f"| {name} | {len(own)} | {solved} | {solved / len(own):.0%} [{low:.0%} to {high:.0%}] "
            f"| {median(play.turns for play in own):g} | {suspected}{f' ({found})' if found else ''} |"
        )
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--monitors", action="store_true")
    options = parser.parse_args()
    plays = list(read(options.folders, again=options.monitors))
    if not plays:
        parser.error("these folders hold no records (*.json)")
    print("\n".join(table(plays)))
    print(f"\nPackages: {', '.join(sorted({play.package for play in plays}))}.")


if __name__ == "__main__":
    main()
