"""What a large task set costs, computed from the reports of real runs.

``python benchmarks/scale.py DIR... [--tasks 1000000] [--price 0.05] [--cores 64] [--json]``: each DIR is a task set
that ``etude generate`` has written. The first table has what was measured; the second one what ``--tasks`` tasks like
these cost, for all runs together and for the cheapest and the dearest run. ``--price`` is an assumption: USD for one
processor (vCPU) and one hour. A run that found its Snapshots in the cache has no cost of builds; its sources are
counted with the mean of the other runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

HOUR, DAY = 3600.0, 86400.0


@dataclass(frozen=True)
class Measured:
    """Sums over one run, or over several."""

    candidates: int = 0  # candidates that were checked
    tasks: int = 0  # those that became tasks
    sources: int = 0  # sources with candidates
    verdict_cpu: float = 0.0  # CPU seconds of all verdicts
    proposal_cpu: float = 0.0  # CPU seconds of all proposals
    builds: int = 0  # Snapshots that were built
    build_cpu: float = 0.0  # CPU seconds of these builds
    build_wall: float = 0.0  # wall seconds of these builds
    build_bytes: int = 0  # bytes of the Snapshots that were built
    built: int = 0  # sources whose Snapshots were built
    row_bytes: int = 0  # bytes of tasks.jsonl

    def __add__(self, other: Measured) -> Measured:
        """Return the sums over both."""
        return Measured(**{item.name: getattr(self, item.name) + getattr(other, item.name) for item in fields(self)})


@dataclass(frozen=True)
class Cost:
    """What a number of tasks costs."""

    tasks: int  # tasks
    candidates: int  # candidates that have to be checked
    sources: int  # sources that are needed, with as many tasks from each as in the runs
    cpu_hours: float  # CPU hours of everything
    days: float  # days on the given number of processors
    usd: float  # price of the CPU hours
    rows_gb: float  # size of the rows
    snapshots_gb: float | None  # size of the Snapshots; None when no run has built one


def read(folder: Path) -> Measured:
    """Return what a run measured."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    builds = list(report["builds"].values())
    return Measured(
        candidates=report["candidates"],
        tasks=report["tasks"],
        sources=len(report["per_source"]),
        verdict_cpu=report["cpu_seconds"],
        proposal_cpu=report["proposal_cpu_seconds"],
        builds=sum(item["builds"] for item in builds),
        build_cpu=sum(item["cpu_seconds"] for item in builds),
        build_wall=sum(item["seconds"] for item in builds),
        build_bytes=sum(item["bytes"] for item in builds),
        built=len(builds),
        row_bytes=(folder / "tasks.jsonl").stat().st_size,
    )


def cost(run: Measured, every: Measured, tasks: int, price: float, cores: int) -> Cost:
    """Return what ``tasks`` tasks like those of ``run`` cost; builds cost what they cost in ``every`` run."""
    sources = tasks * run.sources / run.tasks
    build_cpu = every.build_cpu / every.builds if every.builds else 0.0
    seconds = tasks * (run.verdict_cpu + run.proposal_cpu) / run.tasks + sources * build_cpu
    return Cost(
        tasks=tasks,
        candidates=round(tasks * run.candidates / run.tasks),
        sources=round(sources),
        cpu_hours=seconds / HOUR,
        days=seconds / cores / DAY,
        usd=seconds / HOUR * price,
        rows_gb=tasks * run.row_bytes / run.tasks / 1e9,
        snapshots_gb=sources * every.build_bytes / every.built / 1e9 if every.built else None,
    )


def measured_table(runs: dict[str, Measured]) -> list[str]:
    """Return the table of what was measured."""
    lines = [
        "| run | sources | candidates | tasks | yield | CPU s per task | of it proposals | bytes per task "
        "| builds | CPU s (wall s) per build | MB per Snapshot |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, run in runs.items():
        per_task = (run.verdict_cpu + run.proposal_cpu) / run.tasks
        build = f"{run.build_cpu / run.builds:.1f} ({run.build_wall / run.builds:.1f})" if run.builds else "cached"
        size = f"{run.build_bytes / run.built / 1e6:.0f}" if run.built else "cached"
        lines.append(
            f"| {name} | {run.sources} | {run.candidates} | {run.tasks} | {run.tasks / run.candidates:.0%} "
            f"| {per_task:.1f} | {run.proposal_cpu / run.tasks:.2f} | {run.row_bytes / run.tasks:,.0f} "
            f"| {run.builds} | {build} | {size} |"
        )
    return lines


def cost_table(costs: dict[str, Cost], price: float, cores: int) -> list[str]:
    """Return the table of what the tasks cost."""
    lines = [
        f"| tasks like those of | candidates | sources | CPU hours | days on {cores} vCPUs "
        f"| USD at {price} per vCPU hour | rows GB | Snapshots GB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, item in costs.items():
        snapshots = "not measured" if item.snapshots_gb is None else f"{item.snapshots_gb:,.0f}"
        lines.append(
            f"| {name} | {item.candidates:,} | {item.sources:,} | {item.cpu_hours:,.0f} | {item.days:.1f} "
            f"| {item.usd:,.0f} | {item.rows_gb:.1f} | {snapshots} |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables, or the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--price", type=float, default=0.05)
    parser.add_argument("--cores", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    runs = {folder.name: run for folder in options.folders if (run := read(folder)).tasks}
    if not runs:
        parser.error("no run has made a task; name the folders of other runs")
    every = sum(runs.values(), Measured())

    def priced(run: Measured) -> Cost:
        return cost(run, every, options.tasks, options.price, options.cores)

    costs = {"all runs": priced(every)}
    if len(runs) > 1:
        by_price = sorted(runs, key=lambda name: priced(runs[name]).usd)
        costs[f"{by_price[0]} (cheapest)"] = priced(runs[by_price[0]])
        costs[f"{by_price[-1]} (dearest)"] = priced(runs[by_price[-1]])
    if options.json:
        both = {"measured": {**runs, "all runs": every}, "cost": costs}
        plain = {part: {name: asdict(item) for name, item in rows.items()} for part, rows in both.items()}
        print(json.dumps(plain, indent=1))
        return
    print(
        "\n".join([*measured_table({**runs, "all runs": every}), "", *cost_table(costs, options.price, options.cores)])
    )


if __name__ == "__main__":
    main()
