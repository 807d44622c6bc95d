"""One task of each generator and the yield of each, as a page.

``python benchmarks/gallery.py DIR... [--out docs/gallery.md]``: each DIR is a task set that ``etude generate`` has
written. The page has a table of yield, CPU time and reject reasons per generator and package, with the medians, and for
each generator the first of its tasks: statement, diff of the solution, and the tests that decide.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from etude.generators import GENERATORS
from etude.models import Task

MOST_LINES = 40
"""Lines of a statement or a diff that the page shows."""
MOST_TESTS = 6


def tasks_of(folder: Path) -> Iterator[Task]:
    """Yield the tasks of a set."""
    for line in (folder / "tasks.jsonl").read_text(encoding="utf-8").splitlines():
        yield Task.model_validate_json(line)


def yield_rows(folders: Sequence[Path]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield generator, packages and counts for each generator of each set."""
    for folder in folders:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        for generator, counts in report["per_generator"].items():
            yield generator, ", ".join(report["per_source"]), counts


def yield_table(folders: Sequence[Path]) -> list[str]:
    """Return the table of yields, one row per generator, and the medians."""
    lines = [
        "| generator | packages | candidates | tasks | yield | CPU s per task | rejected |",
        "|---|---|---|---|---|---|---|",
    ]
    yields: dict[str, float] = {}
    rows = sorted(yield_rows(folders), key=lambda row: row[:2])
    for name in dict.fromkeys(generator for generator, _, _ in rows):
        own = [(packages, counts) for generator, packages, counts in rows if generator == name]
        reasons: dict[str, int] = {}
        for _, counts in own:
            for reason, number in counts["rejected"].items():
                reasons[reason] = reasons.get(reason, 0) + number
        packages = ", ".join(f"{package} {counts['tasks']}/{counts['candidates']}" for package, counts in own)
        candidates, made, cpu = (
            sum(counts[field] for _, counts in own) for field in ("candidates", "tasks", "cpu_seconds")
        )
        yields[name] = made / candidates
        each = f"{cpu / made:.1f}" if made else ""
        rejected = ", ".join(f"{reason} {number}" for reason, number in sorted(reasons.items()))
        lines.append(f"| `{name}` | {packages} | {candidates} | {made} | {yields[name]:.0%} | {each} | {rejected} |")
    bugs = [share for name, share in yields.items() if name.startswith("bug_")]
    lines += ["", f"Median yield of {len(yields)} generators: {median(yields.values()):.0%}"]
    lines[-1] += f"; of the {len(bugs)} that inject bugs: {median(bugs):.0%}." if bugs else "."
    return lines


def block(language: str, text: str) -> list[str]:
    """Return a fenced block with the first lines of a text."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"... ({len(lines) - MOST_LINES} more lines)"]
    return [f"~~~~{language}", *lines, "~~~~"]


def sample(task: Task) -> list[str]:
    """Return the section of one task."""
    decided = [f"- `{test}`" for test in task.FAIL_TO_PASS[:MOST_TESTS]]
    more = len(task.FAIL_TO_PASS) - len(decided)
    verifier = f"Verifier: `{task.verifier.kind}`, assurance `{task.assurance}`."
    return [
        f"`{task.task_id}`. {verifier}",
        "",
        *block("markdown", task.problem_statement),
        "",
        *(["Solution:", "", *block("diff", task.patch), ""] if task.patch else []),
        *(["Tests that fail before and pass after:", "", *decided, ""] if decided else []),
        *([f"and {more} more.", ""] if more > 0 else []),
    ]


def page(folders: Sequence[Path]) -> str:
    """Return the whole page."""
    first: dict[str, Task] = {}
    for folder in folders:
        for task in tasks_of(folder):
            first.setdefault(task.generator.name, task)
    lines = [
        "# Gallery: one task of each generator",
        "",
        "Written by `benchmarks/gallery.py` from sets that `etude generate` made. Long statements and diffs are cut.",
        "",
        "## Yield",
        "",
        *yield_table(folders),
        "",
    ]
    for name in GENERATORS.names():
        if name in first:
            doc = (GENERATORS.load(name).__doc__ or "").strip().split("\n")[0]
            lines += [f"## {name}", "", doc, "", *sample(first[name])]
    missing = [f"`{name}`" for name in GENERATORS.names() if name not in first]
    if missing:
        lines += ["## Without a sample", "", f"These sets hold no task of {', '.join(missing)}.", ""]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, default=Path("docs/gallery.md"))
    options = parser.parse_args()
    options.out.write_text(page(options.folders), encoding="utf-8")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
