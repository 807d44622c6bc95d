"""A suite of task sets from many packages: ``run`` makes the sets, ``page`` writes what they hold and cost.

``python benchmarks/suite.py run LIST OUT -g GENERATORS [--count 40] [--seed 29] [--jobs 2] [--knob KEY=VALUE ...]``
calls ``etude generate`` for each source of the file LIST (one per line) and writes its set to ``OUT/SOURCE``. A set
that has a report is left alone, so a stopped run resumes; a source that fails is noted in ``OUT/failed.txt``, the
commit that makes the sets in ``OUT/commits.txt``, and the options of the command in ``OUT/options.txt``.

``python benchmarks/suite.py page OUT... [--records docs/suite.json] [--out docs/suite.md]`` adds a record of each set
below the folders to the file of records and writes the page: totals, one row per package with the SHA-256 of its
``tasks.jsonl``, one row per generator, and the rate over time by the order in which the sets ended. Sets of several
runs add up. It refuses two sets of one package that a generator has in common, unless the command was the same: then
the new record replaces the old one. Model cost is 0: it refuses generators that ask a model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

BINS = 10
"""Parts of the run whose rates are shown."""
ASKS_MODEL = {"bug_llm", "fd_agentic"}
LARGE = "fd_feature"


@dataclass(frozen=True)
class Record:
    """A record of one set that ``etude generate`` has written."""

    package: str  # name and version
    request: str  # the options of the command
    commits: tuple[str, ...]  # commits of the code that made it
    ended: int  # when it ended, in seconds since 1970
    tests: int  # tests that pass every time
    candidates: int
    tasks: int
    cpu_seconds: float  # CPU time of verdicts and proposals
    build_cpu_seconds: float | None  # CPU time of Snapshots that were not built yet; None if unknown
    seconds: float | None  # wall time; None if unknown
    splits: dict[str, int]  # tasks by split
    digest: str  # SHA-256 of its rows
    snapshots: tuple[str, ...]  # digests of its Snapshots
    per_generator: dict[str, dict[str, Any]] = field(default_factory=dict)  # counts by generator; empty if unknown
    sizes: tuple[tuple[int, int], ...] = ()  # files and lines of each task of LARGE

    @property
    def generators(self) -> set[str]:
        """Return the generators that were asked for, and those that answered."""
        return {*self.request.split()[1].split(","), *self.per_generator}


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


def read(folder: Path, commits: Sequence[str], request: str) -> Record:
    """Return the record of a set."""
    data = (folder / "tasks.jsonl").read_bytes()
    rows = [json.loads(line) for line in data.splitlines()]
    card = (folder / "README.md").read_text(encoding="utf-8")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    tests = re.findall(r"^\| [^|]+ \| [^|]+ \| [^|]+ \| (\d+) \| \d+ \|$", card, re.MULTILINE)
    large = [row["features"] for row in rows if row["generator"]["name"] == LARGE]
    return Record(
        package=", ".join(report["per_source"]),
        request=request,
        commits=tuple(commit[:10] for commit in commits),
        ended=int((folder / "report.json").stat().st_mtime),
        tests=sum(map(int, tests)),
        candidates=report["candidates"],
        tasks=report["tasks"],
        cpu_seconds=round(report["cpu_seconds"] + report["proposal_cpu_seconds"], 1),
        build_cpu_seconds=round(sum(cost["cpu_seconds"] for cost in report["builds"].values()), 1),
        seconds=report["seconds"],
        splits=dict(sorted(Counter(row["split"] for row in rows).items())),
        digest=hashlib.sha256(data).hexdigest(),
        snapshots=tuple(sorted({row["snapshot"]["digest"] for row in rows})),
        per_generator={
            name: {key: counts[key] for key in ("candidates", "tasks", "cpu_seconds", "rejected")}
            for name, counts in report["per_generator"].items()
        },
        sizes=tuple((features["files"], features["loc_removed"]) for features in large),
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


def records_below(folders: Sequence[Path]) -> list[Record]:
    """Return the records of the sets below some folders, each of which ``run`` has written."""
    records = []
    for folder in folders:
        commits, requests = (_lines(folder / name) for name in ("commits.txt", "options.txt"))
        if len(requests) != 1:
            raise SystemExit(f"{folder / 'options.txt'} must have the options of one command; write each to its folder")
        records += [read(path.parent, commits, requests[0]) for path in folder.glob("**/report.json")]
    return records


def _lines(path: Path) -> list[str]:
    """Return the different lines of a file."""
    return list(dict.fromkeys(path.read_text(encoding="utf-8").splitlines()))


def joined(before: Sequence[Record], new: Sequence[Record]) -> list[Record]:
    """Return all records in the order in which their sets ended. Raises SystemExit for two with common tasks."""
    by_set = {(record.package, record.request): record for record in [*before, *new]}
    records = sorted(by_set.values(), key=lambda record: (record.ended, record.package))
    for number, record in enumerate(records):
        for other in records[:number]:
            if record.package == other.package and (common := record.generators & other.generators):
                raise SystemExit(f"two commands asked {min(common)} for tasks of {record.package}; leave one set out")
        if asked := record.generators & ASKS_MODEL:
            raise SystemExit(f"{min(asked)} asks a model, whose cost is not known here; leave that set out")
    return records


def rates(records: Sequence[Record]) -> list[str]:
    """Return the table of tasks per CPU minute over time."""
    lines = ["| sets | tasks | CPU hours | tasks per CPU minute |", "|---|---|---|---|"]
    size = -(-len(records) // BINS)
    for start in range(0, len(records), size):
        part = records[start : start + size]
        tasks, cpu = sum(item.tasks for item in part), sum(item.cpu_seconds for item in part)
        lines.append(f"| {start + 1} to {start + len(part)} | {tasks} | {cpu / 3600:.2f} | {60 * tasks / cpu:.1f} |")
    return lines


def package_rows(records: Sequence[Record]) -> list[str]:
    """Return the table with one row per package."""
    lines = [
        "| package | tests | candidates | tasks | yield | CPU s per task | splits | SHA-256 of the sets | Snapshot |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for package in sorted({item.package for item in records}, key=str.lower):
        own = [item for item in records if item.package == package]
        total, splits = Sum(), sum((Counter(item.splits) for item in own), Counter())
        for item in own:
            total.add({**asdict(item), "rejected": {}})
        names = ", ".join(f"{name} {number}" for name, number in sorted(splits.items()))
        snapshots = sorted({digest for item in own for digest in item.snapshots})
        digests = " ".join(f"`{item.digest[:16]}`" for item in own)
        lines.append(
            f"| {package} | {max(item.tests for item in own)} | {total.cells()} | {names} | {digests} "
            f"| {' '.join(f'`{digest[:16]}`' for digest in snapshots)} |"
        )
    return lines


def generator_rows(records: Sequence[Record]) -> list[str]:
    """Return the table with one row per generator."""
    lines = [
        "| generator | packages | candidates | tasks | yield | CPU s per task | rejected |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sorted({name for item in records for name in item.per_generator}):
        own = [item for item in records if name in item.per_generator]
        total = Sum()
        for item in own:
            total.add(item.per_generator[name])
        reasons = ", ".join(f"{reason} {number}" for reason, number in total.rejected.most_common())
        lines.append(f"| `{name}` | {len({item.package for item in own})} | {total.cells()} | {reasons} |")
    return lines


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    total = Sum()
    for item in records:
        total.add({**asdict(item), "rejected": {}})
    timed = [item for item in records if item.seconds is not None]
    builds = sum(item.build_cpu_seconds or 0.0 for item in timed)
    wall = sum(item.seconds or 0.0 for item in timed)
    splits = sum((Counter(item.splits) for item in records), Counter())
    sizes = [size for item in records for size in item.sizes]
    commits = dict.fromkeys(commit for item in records for commit in item.commits)
    unknown = sum(item.tasks for item in records if not item.per_generator)
    lines = [
        "# The suite: task sets of many packages",
        "",
        "Written by `benchmarks/suite.py` from the reports of sets that `etude generate` made. The sets themselves are",
        "not in the repository: the same command makes the same bytes, whose digests are below and in `suite.json`.",
        "",
        f"- {total.tasks:,} tasks from {len({item.package for item in records if item.tasks})} packages, "
        f"{total.candidates:,} "
        f"candidates, yield {total.tasks / max(1, total.candidates):.0%}; model cost 0.",
        f"- {total.cpu_seconds / 3600:.1f} CPU hours of proposals and verdicts: "
        f"{60 * total.tasks / total.cpu_seconds:.1f} tasks per CPU minute. In {len(timed)} of the "
        f"{len(records)} sets, besides, {builds / 3600:.1f} CPU hours of Snapshots that were not built yet, and "
        f"{wall / 3600:.1f} hours of wall time, summed; the other records do not hold these times.",
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
        f"Commits that made them: {', '.join(f'`{commit}`' for commit in commits)}.",
        "Commands, each with one source at a time:",
        "",
        *(f"- `{request}`" for request in dict.fromkeys(item.request for item in records)),
        "",
        *["## Rate over time", "", *rates(records), ""],
        *["## Generators", ""],
        *([f"Without {unknown:,} tasks whose counts by generator are not recorded.", ""] if unknown else []),
        *[*generator_rows(records), ""],
        *["## Packages", "", *package_rows(records), ""],
    ]
    return "\n".join(lines)


def main() -> None:
    """Make sets, or write the page about them."""
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
    written.add_argument("--records", type=Path, default=Path("docs/suite.json"))
    written.add_argument("--out", type=Path, default=Path("docs/suite.md"))
    options = parser.parse_args()
    if options.part == "run":
        sys.exit(make(options))
    before = json.loads(options.records.read_text(encoding="utf-8")) if options.records.is_file() else []
    records = joined([Record(**fields) for fields in before], records_below(options.folders))
    lines = ",\n".join(json.dumps(asdict(record), sort_keys=True) for record in records)
    options.records.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    options.out.write_text(page(records), encoding="utf-8")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
