"""The part of a task set's card that is about the repository: what is in it, what was checked, what it reveals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....environments.hub.manifest import MANIFEST
from ....models import Task

_SECRETS = """## Solutions are in it

The columns `patch`, `test_patch`, `workspace_patch`, `FAIL_TO_PASS`, `PASS_TO_PASS` and `verifier` hold the solutions
and the hidden tests. They are needed to play and to grade the tasks, so they are pushed with them: **anyone who can
read this repository can read every solution, and a public set reveals them all**. Show a policy the columns
`problem_statement` and `interface` alone."""
_FILES = {
    "tasks.jsonl": "the rows that Etude plays, byte for byte",
    "data/": "the same rows as typed columns, one Parquet file for each split",
    "report.json": "how the set was made: candidates, yield, reasons of rejection",
    "blobs/": "archives of Snapshots",
    MANIFEST: "sha256 and size of each file above",
}
_GENERATED = """The generators that read code keep a task only if its solution scores 1 twice, in two orders, in fresh
sandboxes, if doing nothing and trivial solutions score 0, and if no file of the workspace leaks the solution. The
folder holds no result of the audit of `etude validate`."""


def hub_section(tasks: Sequence[Task], report: Mapping[str, Any], repo_id: str, *, archives: int) -> str:
    """Return the sections. ``report`` is that of the set, empty when it has none; ``archives`` are of Snapshots."""
    parts = [
        _SECRETS,
        "\n".join(["## Read it", "", *_reading(repo_id)]),
        "\n".join(["## Files", "", "| file | content |", "|---|---|", *_files(report, archives)]),
        "\n".join(["## Origin of the tasks", "", *_origins(tasks)]),
        "\n".join(["## Checks", "", *_checks(report)]),
        "\n".join(["## Limits of the repository", "", *_limits(archives)]),
    ]
    return "\n\n".join(parts)


def _reading(repo_id: str) -> Iterator[str]:
    yield from (
        "```",
        f"etude serve hub:{repo_id}@main",
        f"etude run --tasks hub:{repo_id}@main --agent oracle --out runs/oracle",
        "```",
        "",
        "```python",
        f'tasks = etude.load_tasks("hub:{repo_id}@main")    # verified against the manifest',
        f'rows = datasets.load_dataset("{repo_id}")          # the table alone',
        "```",
    )


def _files(report: Mapping[str, Any], archives: int) -> Iterator[str]:
    absent = {"report.json": not report, "blobs/": not archives}
    yield from (f"| `{name}` | {content} |" for name, content in _FILES.items() if not absent.get(name))


def _origins(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield one row for each source and generator, from the rows alone."""
    yield from ("| source | licence | generator | tasks |", "|---|---|---|---|")
    rows = Counter(
        (
            f"{task.repo or task.environment} {task.version}".strip(),
            task.licence or "unknown",
            f"{task.generator.name} {task.generator.version}",
        )
        for task in tasks
    )
    for cells, number in sorted(rows.items()):
        yield f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} | {number} |"


def _checks(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of the audit that ``etude validate --out`` stored, or else what generation checks."""
    rows = [row for row in report.get("checks", []) if isinstance(row, dict) and "check" in row]
    if not rows:
        yield _GENERATED
        return
    yield "`etude validate` ran these checks; tasks that failed one are not in the set."
    yield from ("", "| check | tasks checked | failed and left out |", "|---|---|---|")
    for row in rows:
        yield f"| {row['check']} | {row.get('tasks', row.get('checked', ''))} | {row.get('failed', '')} |"


def _limits(archives: int) -> Iterator[str]:
    if archives:
        yield f"- Snapshots packed: {archives}. The set is played without a package index."
    else:
        yield (
            "- No Snapshot is packed: the first play builds each from the hashes of its locked requirements, which "
            "needs a package index that still has them."
        )
    yield "- The manifest shows that files belong together; it does not show who pushed them. Pin a commit you trust."
