"""A suite of task sets: ``run`` makes those of many packages, ``page`` says what they hold and cost, ``draw`` samples.

``python benchmarks/suite.py run LIST OUT -g GENERATORS [--count 40] [--seed 29] [--jobs 2] [--knob KEY=VALUE ...]``
calls ``etude generate`` for each source of the file LIST (one per line) and writes its set to ``OUT/SOURCE``. A set
that has a report is left alone, so a stopped run can go on; a source that fails is noted in ``OUT/failed.txt``, the
commit that makes the sets in ``OUT/commits.txt``, and the options of the command in ``OUT/options.txt``.

``python benchmarks/suite.py page OUT... [--out docs/suite.md]`` reads the sets below the folders and writes the page:
totals, one row per package with the SHA-256 of its ``tasks.jsonl`` files, one row per generator, and the rate over time
by the order in which the sets ended. It refuses sets that share a task. Model cost is 0: no generator that asks a model
is among them, which the page checks too.

``python benchmarks/suite.py draw OUT... --to SET [--count 300] [--split train] [--per-package 12]`` writes a set with
tasks of all sets, drawn by the hash of their ids, for ``etude validate``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

BINS = 10
"""Parts of the run whose rates are shown."""
ASKS_MODEL = {"bug_llm", "fd_agentic"}
LARGE = "fd_feature"


@dataclass(frozen=True)
class TaskSet:
    """One set that ``etude generate`` has written."""

    report: dict[str, Any]  # its report
    ended: float  # when the report was written, in seconds
    digest: str  # SHA-256 of its rows
    snapshots: frozenset[str]  # digests of its Snapshots
    tests: int  # tests that pass in them
    ids: tuple[str, ...]  # ids of its tasks
    splits: Counter[str]  # tasks by split
    sizes: tuple[tuple[int, int], ...]  # files and lines of each task of LARGE

    @property
    def package(self) -> str:
        """Return name and version of its package."""
        return ", ".join(self.report["per_source"])

    @property
    def cpu_seconds(self) -> float:
        """Return the CPU time of verdicts and proposals."""
        return float(self.report["cpu_seconds"] + self.report["proposal_cpu_seconds"])


@dataclass
class Sum:
    """Sums over some verdicts."""

    candidates: int = 0
    tasks: int = 0
    cpu_seconds: float = 0.0
    rejected: Counter[str] = field(default_factory=Counter)

    def add(self, counts: dict[str, Any]) -> None:
        """Add the counts of a report."""
        self.candidates += counts["candidates"]
        self.tasks += counts["tasks"]
        self.cpu_seconds += counts["cpu_seconds"]
        self.rejected.update(counts["rejected"])

    def cells(self) -> str:
        """Return candidates, tasks, yield and CPU seconds per task as cells of a table."""
        each = f"{self.cpu_seconds / self.tasks:.1f}" if self.tasks else ""
        return f"{self.candidates} | {self.tasks} | {self.tasks / max(1, self.candidates):.0%} | {each}"


def read(folder: Path) -> TaskSet:
    """Return a set."""
    data = (folder / "tasks.jsonl").read_bytes()
    rows = [json.loads(line) for line in data.splitlines()]
    card = (folder / "README.md").read_text(encoding="utf-8")
    tests = re.findall(r"^\| [^|]+ \| [^|]+ \| [^|]+ \| (\d+) \| \d+ \|$", card, re.MULTILINE)
    return TaskSet(
        report=json.loads((folder / "report.json").read_text(encoding="utf-8")),
        ended=(folder / "report.json").stat().st_mtime,
        digest=hashlib.sha256(data).hexdigest(),
        snapshots=frozenset(row["snapshot"]["digest"] for row in rows),
        tests=sum(map(int, tests)),
        ids=tuple(row["task_id"] for row in rows),
        splits=Counter(row["split"] for row in rows),
        sizes=tuple(
            (row["features"]["files"], row["features"]["loc_removed"])
            for row in rows
            if row["generator"]["name"] == LARGE
        ),
    )


def make(options: argparse.Namespace) -> int:
    """Make the set of each source that has none; return 1 when a source failed."""
    failed = []
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "commits.txt").open("a", encoding="utf-8") as log:
        log.write(subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, text=True))
    request = ["-g", options.generators, "--count", str(options.count), "--seed", str(options.seed)]
    request += [*(["--any-licence"] if options.any_licence else []), *(f"--knob={knob}" for knob in options.knob)]
    with (options.out / "options.txt").open("a", encoding="utf-8") as log:
        log.write(" ".join(request) + "\n")
    for source in options.list.read_text(encoding="utf-8").split():
        name = re.sub(r"[^\w.-]+", "-", source.partition("==")[0].rpartition(":")[2])
        folder = options.out / name
        if (folder / "report.json").is_file():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "etude.cli", "generate", source, "-o", str(folder), *request]
        command += ["--jobs", str(options.jobs)]
        with (options.out / f"{name}.log").open("w", encoding="utf-8") as log:
            code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
        if code:
            failed.append(f"{source} {code}")
            (options.out / "failed.txt").write_text("\n".join(failed) + "\n", encoding="utf-8")
        print(f"{source} exit code {code}", flush=True)
    return 1 if failed else 0


def sets_below(folders: Sequence[Path]) -> Iterator[TaskSet]:
    """Yield the sets below some folders in the order in which they ended."""
    found = [read(path.parent) for folder in folders for path in folder.glob("**/report.json")]
    yield from sorted(found, key=lambda item: item.ended)


def lines_of(folders: Sequence[Path], name: str) -> list[str]:
    """Return the different lines of the files of this name below some folders."""
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.glob(f"**/{name}"))]
    return list(dict.fromkeys(line for text in texts for line in text.splitlines()))


def rates(sets: Sequence[TaskSet]) -> list[str]:
    """Return the table of tasks per CPU minute over time."""
    lines = ["| sets | tasks | CPU hours | tasks per CPU minute |", "|---|---|---|---|"]
    size = -(-len(sets) // BINS)
    for start in range(0, len(sets), size):
        part = sets[start : start + size]
        tasks, cpu = sum(len(item.ids) for item in part), sum(item.cpu_seconds for item in part)
        lines.append(f"| {start + 1} to {start + len(part)} | {tasks} | {cpu / 3600:.2f} | {60 * tasks / cpu:.1f} |")
    return lines


def package_rows(sets: Sequence[TaskSet]) -> list[str]:
    """Return the table with one row per package."""
    lines = [
        "| package | tests | candidates | tasks | yield | CPU s per task | splits | SHA-256 of the sets | Snapshot |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for package in sorted({item.package for item in sets}, key=str.lower):
        own = [item for item in sets if item.package == package]
        total, splits = Sum(), sum((item.splits for item in own), Counter())
        for item in own:
            total.add({**item.report, "cpu_seconds": item.cpu_seconds})
        names = ", ".join(f"{name} {number}" for name, number in sorted(splits.items()))
        snapshots = sorted(frozenset().union(*(item.snapshots for item in own)))
        digests = " ".join(f"`{item.digest[:16]}`" for item in own)
        lines.append(
            f"| {package} | {max(item.tests for item in own)} | {total.cells()} | {names} | {digests} "
            f"| {' '.join(f'`{digest[:16]}`' for digest in snapshots)} |"
        )
    return lines


def generator_rows(sets: Sequence[TaskSet]) -> list[str]:
    """Return the table with one row per generator."""
    lines = [
        "| generator | packages | candidates | tasks | yield | CPU s per task | rejected |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sorted({name for item in sets for name in item.report["per_generator"]}):
        own = [item for item in sets if name in item.report["per_generator"]]
        total = Sum()
        for item in own:
            total.add(item.report["per_generator"][name])
        reasons = ", ".join(f"{reason} {number}" for reason, number in total.rejected.most_common())
        lines.append(f"| `{name}` | {len({item.package for item in own})} | {total.cells()} | {reasons} |")
    return lines


def page(sets: Sequence[TaskSet], commits: Sequence[str], requests: Sequence[str]) -> str:
    """Return the page. Raises SystemExit for sets that share a task, and for one that a model helped to make."""
    ids = Counter(identity for item in sets for identity in item.ids)
    if repeated := [identity for identity, number in ids.items() if number > 1]:
        raise SystemExit(f"{len(repeated)} tasks are in two sets, for example {repeated[0]}; leave one of them out")
    if asked := {name for item in sets for name in item.report["per_generator"]} & ASKS_MODEL:
        raise SystemExit(f"{', '.join(asked)} asks a model, whose cost this page does not know; leave those sets out")
    total = Sum()
    for item in sets:
        total.add({**item.report, "cpu_seconds": item.cpu_seconds})
    builds = sum(cost["cpu_seconds"] for item in sets for cost in item.report["builds"].values())
    wall = sum(item.report["seconds"] for item in sets)
    splits = sum((item.splits for item in sets), Counter())
    sizes = [size for item in sets for size in item.sizes]
    lines = [
        "# The suite: task sets of many packages",
        "",
        "Written by `benchmarks/suite.py` from the reports of sets that `etude generate` made. The sets themselves are",
        "not in the repository: the same command makes the same bytes, whose digests are below.",
        "",
        f"- {len(ids):,} tasks from {len({item.package for item in sets})} packages, {total.candidates:,} candidates, "
        f"yield {total.tasks / max(1, total.candidates):.0%}; model cost 0.",
        f"- {total.cpu_seconds / 3600:.1f} CPU hours of proposals and verdicts: "
        f"{60 * total.tasks / total.cpu_seconds:.1f} tasks per CPU minute. Besides, {builds / 3600:.1f} CPU hours of "
        f"Snapshots that were not built yet. {wall / 3600:.1f} hours of wall time.",
        f"- Splits: {', '.join(f'{name} {number:,}' for name, number in splits.most_common())}.",
        *(
            [
                f"- {len(sizes)} tasks of `{LARGE}`: median {median(files for files, _ in sizes):g} files and "
                f"{median(size for _, size in sizes):g} lines."
            ]
            if sizes
            else []
        ),
        "",
        f"Commits that made them: {', '.join(f'`{commit[:10]}`' for commit in commits)}.",
        "Commands, each with one source at a time:",
        "",
        *(f"- `{request}`" for request in requests),
        "",
        *["## Rate over time", "", *rates(sets), ""],
        *["## Generators", "", *generator_rows(sets), ""],
        *["## Packages", "", *package_rows(sets), ""],
    ]
    return "\n".join(lines)


def draw(options: argparse.Namespace) -> str:
    """Write a set of tasks that are drawn from the others; return what it holds."""
    drawn: list[tuple[str, str, str]] = []
    for path in sorted(path for folder in options.folders for path in folder.glob("**/tasks.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [(json.loads(line), line) for line in lines]
        own = [(_digest(row["task_id"]), row["repo"], line) for row, line in rows if row["split"] == options.split]
        drawn += sorted(own)[: options.per_package]
    chosen = sorted(drawn)[: options.count]
    options.to.mkdir(parents=True)
    (options.to / "tasks.jsonl").write_text("".join(f"{line}\n" for _, _, line in chosen), encoding="utf-8")
    return f"{len(chosen)} tasks of {len({repo for _, repo, _ in chosen})} packages"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    """Make sets, write the page about them, or draw a sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    run = parts.add_parser("run")
    run.add_argument("list", type=Path)
    run.add_argument("out", type=Path)
    run.add_argument("-g", dest="generators", required=True)
    run.add_argument("--count", type=int, default=40)
    run.add_argument("--seed", type=int, default=29)
    run.add_argument("--jobs", type=int, default=2)
    run.add_argument("--knob", action="append", default=[])
    run.add_argument("--any-licence", action="store_true")
    written = parts.add_parser("page")
    written.add_argument("folders", nargs="+", type=Path)
    written.add_argument("--out", type=Path, default=Path("docs/suite.md"))
    sample = parts.add_parser("draw")
    sample.add_argument("folders", nargs="+", type=Path)
    sample.add_argument("--to", type=Path, required=True)
    sample.add_argument("--count", type=int, default=300)
    sample.add_argument("--split", default="train")
    sample.add_argument("--per-package", type=int)
    options = parser.parse_args()
    if options.part == "run":
        sys.exit(make(options))
    if options.part == "draw":
        print(draw(options))
        return
    sets = list(sets_below(options.folders))
    if not sets:
        parser.error("no folder below these holds a report.json")
    commits, requests = (lines_of(options.folders, name) for name in ("commits.txt", "options.txt"))
    options.out.write_text(page(sets, commits, requests), encoding="utf-8")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
