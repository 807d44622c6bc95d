"""``etude import``: rows of a public data set in, the verdicts on them and a folder of playable tasks out.

Every verdict is written to ``instances.jsonl`` at once, so that a killed run resumes where it was. The files of the
finished set are written together at the end; ``instances.md`` is the table of all rows, those without a task too.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ....environments.runs.parallel import at_once
from ....environments.snapshots.source.clones import Clones
from ....environments.snapshots.store.cache import write_whole
from ....environments.tasks.task_set import write_tasks
from ....environments.tasks.task_trees import Materials
from ....errors import GeneratorError, UnknownName
from ....models import Task
from ....registry import did_you_mean
from ...base import Progress, ProgressUpdate, no_progress
from ...output.card import card
from ...validation.checks.controls import with_controls
from .instance import Instance
from .revalidation import revalidate
from .task_rows import make_task, prove

VERDICTS = "instances.jsonl"
TABLE = "instances.md"


@dataclass
class ImportReport:
    """What became of the rows."""

    source: str
    """The rows, as they were named."""
    instances: int = 0
    """Rows that were examined."""
    tasks: int = 0
    """Rows that became tasks."""
    verdicts: dict[str, int] = field(default_factory=dict)
    """Rows by verdict."""
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Environment -> ``instances``, ``seconds`` of its build, ``mib`` on disk."""
    skipped: list[str] = field(default_factory=list)
    """What the reader left out, one line each."""
    reason: str = ""
    """Why the first row without a task has none."""

    def row(self) -> dict[str, Any]:
        """Return the record as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Settings:
    """How rows are examined."""

    repos: Path | None = None
    """Folder of the clones; None clones from the network."""
    backend: str = "auto"
    """The sandbox backend."""
    jobs: int = 1
    """Instances that are examined at the same time."""
    timeout_s: float = 600.0
    """CPU time of one run of an instance's tests, in seconds."""


def choose(instances: Sequence[Instance], only: Sequence[str], limit: int | None) -> list[Instance]:
    """Return the instances whose id or repository is in ``only`` (empty: all), at most ``limit`` of them.

    Raises UnknownName for a name that no row has.
    """
    names = {name for item in instances for name in (item.instance_id, item.repo)}
    for name in only:
        if name not in names:
            raise UnknownName(did_you_mean("instance or repository", name, names))
    chosen = [item for item in instances if not only or {item.instance_id, item.repo} & set(only)]
    return chosen[:limit]


def import_instances(
    instances: Sequence[Instance],
    out: Path,
    settings: Settings = Settings(),
    *,
    source: str = "",
    skipped: Sequence[str] = (),
    progress: Progress = no_progress,
) -> ImportReport:
    """Validate the instances again and write the set of those that hold to ``out``.

    Raises GeneratorError when ``out`` holds another set or cannot be written, SandboxError when the machine fails.
    """
    clones = Clones(settings.repos)
    _claim(out, source)
    finished = _read(out / VERDICTS)
    remaining = [item for item in instances if item.instance_id not in finished]
    asyncio.run(_examine(remaining, out, settings, clones, progress, len(instances)))
    finished = _read(out / VERDICTS)
    chosen = [finished[item.instance_id] for item in instances]
    return _publish(out, source, chosen, skipped)


async def _examine(
    instances: Sequence[Instance],
    out: Path,
    settings: Settings,
    clones: Clones,
    progress: Progress,
    total: int,
) -> None:
    done = total - len(instances)
    counts = Counter[str]()

    async def examine(instance: Instance) -> None:
        nonlocal done
        line = await examine_one(instance, clones, settings)
        _append(out / VERDICTS, line)
        done += 1
        counts[line["verdict"]["verdict"]] += 1
        accepted = counts["valid"] + counts["relabelled"]
        last = f"{instance.instance_id} {line['verdict']['verdict']}"
        progress(ProgressUpdate("instances", done, total, accepted, sum(counts.values()) - accepted, last))

    progress(ProgressUpdate("instances", done, total))
    await at_once(instances, settings.jobs, examine)


async def examine_one(instance: Instance, clones: Clones, settings: Settings) -> dict[str, Any]:
    """Return the line of ``instances.jsonl`` for one instance: its verdict, and its task where it has one."""
    result = await revalidate(instance, clones, backend=settings.backend, timeout_s=settings.timeout_s)
    verdict, task = result.verdict, None
    if verdict.usable and result.snapshot is not None:
        bare = make_task(instance, result, result.snapshot)
        task = await with_controls(bare, Materials(bare, result.snapshot), settings.backend)
        if problem := await prove(instance, task, result.snapshot, settings.backend):
            verdict, task = replace(verdict, verdict="gold_fails", evidence=problem), None
    return {"verdict": asdict(verdict), "task": task.model_dump(mode="json") if task else None}


def _claim(out: Path, source: str) -> None:
    """Make ``out`` the folder of this import. Raises GeneratorError when it is another's."""
    marker = out / "report.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if marker.is_file():
            if json.loads(marker.read_text("utf-8")).get("source") != source:
                raise GeneratorError(f"{out} already holds a set made from other rows; choose another --out")
        elif any(out.iterdir()) and not (out / VERDICTS).is_file():
            raise GeneratorError(f"{out} is not empty and holds no import; choose another --out")
        else:
            write_whole(marker, json.dumps({"source": source}).encode())
    except OSError as error:
        raise GeneratorError(f"cannot write to {out}: {error.strerror}; choose another --out") from error
    except ValueError as error:
        raise GeneratorError(f"{marker} is not JSON ({error}); choose another --out") from error


def _append(path: Path, line: dict[str, Any]) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(line) + "\n")  # a line that a kill cut short must not swallow this one
    except OSError as error:
        raise GeneratorError(
            f"cannot write to {path.parent}: {error.strerror}; fix that and run the same command again to resume"
        ) from error


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the finished lines by instance; one that a kill cut short is measured again."""
    lines: dict[str, dict[str, Any]] = {}
    for text in path.read_text("utf-8").splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
            lines[line["verdict"]["instance_id"]] = line
        except (ValueError, KeyError, TypeError):
            continue
    return lines


def _publish(out: Path, source: str, lines: Sequence[dict[str, Any]], skipped: Sequence[str]) -> ImportReport:
    tasks = [Task(**line["task"]) for line in lines if line["task"]]
    verdicts = [line["verdict"] for line in lines]
    report = ImportReport(source, len(lines), len(tasks), dict(Counter(item["verdict"] for item in verdicts)))
    report.skipped = list(skipped)
    unusable = (item for item, line in zip(verdicts, lines, strict=True) if not line["task"])
    report.reason = next((f"{item['instance_id']}: {item['evidence']}" for item in unusable), "")
    for item in verdicts:
        if item["environment"]:
            entry = report.environments.setdefault(
                item["environment"],
                {"instances": 0, "seconds": item["build_seconds"], "mib": item["build_bytes"] >> 20},
            )
            entry["instances"] += 1
    if tasks:
        write_tasks(out, tasks)
        rejected = {name: count for name, count in report.verdicts.items() if name not in ("valid", "relabelled")}
        facts = {"candidates": len(lines), "yield": round(len(tasks) / len(lines), 4), "rejected": rejected}
        write_whole(out / "README.md", card(tasks, facts, []).encode())
    write_whole(out / TABLE, table(verdicts).encode())
    write_whole(out / "report.json", (json.dumps(report.row(), indent=2) + "\n").encode())
    return report


def table(verdicts: Sequence[dict[str, Any]]) -> str:
    """Return the Markdown table of verdicts, one row per instance, in order."""
    lines = [
        "| instance | verdict | FAIL_TO_PASS official / here | PASS_TO_PASS official / here | seconds | evidence |",
        "|---|---|---|---|---|---|",
    ]
    for item in verdicts:
        evidence = item["evidence"].replace("|", "\\|").replace("\n", " ")[:300]
        to_fail = f"{item['official_fail_to_pass']} / {len(item['fail_to_pass'])}"
        to_pass = f"{item['official_pass_to_pass']} / {len(item['pass_to_pass'])}"
        cells = [item["instance_id"], item["verdict"], to_fail, to_pass, f"{item['seconds']:.0f}", evidence]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
