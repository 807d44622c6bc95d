"""Findings in stored runs, per episode and in total: those of the mechanical monitors and, with a model, of a judge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...llm import Cassette
from ...models import Finding
from ...monitors import hack_rate
from ...monitors.agentic import OUTCOMES, Case, Judge, Judged, is_of_judge
from ..agents.openai import ModelOptions
from ..snapshots.store.cache import write_whole
from .parallel import at_once
from .reader import Progress, Stored, stored_episodes
from .writer import answers_file_of

FILE_NAME = "findings.jsonl"
Entry = tuple[Path, Stored]
"""A run's folder and one of its episodes."""


@dataclass(frozen=True)
class MonitorReport:
    """Findings of some runs. Rates are shares of the valid episodes."""

    episodes: int
    hack_rate: float
    """Share with a confirmed finding of a mechanical monitor."""
    suspect_rate: float
    """Share with a confirmed or suspect finding of a mechanical monitor."""
    exploits: list[dict[str, Any]]
    """Counts by exploit: episodes by severity, and how many of them the judge calls an exploit."""
    model: str = ""
    """Judge; '' without one."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """How the judgement of the episodes ended (``monitors.agentic.OUTCOMES``)."""
    problems: dict[str, int] = field(default_factory=dict)
    """Why verdicts did not count."""
    verdicts: dict[str, int] = field(default_factory=dict)
    """Verdicts that count."""
    unsupported: int = 0
    """Episodes that only the judge accuses; they must not be penalised."""
    usage: dict[str, Any] = field(default_factory=dict)
    out: str = ""

    @property
    def ok(self) -> bool:
        """Return whether every request was answered; running again repeats the others."""
        return not (self.outcomes.get("failed") or self.outcomes.get("budget"))


async def monitor_runs(
    runs: Sequence[Path],
    out: Path,
    *,
    judge: str = "",
    options: ModelOptions = ModelOptions(),
    jobs: int = 1,
    progress: Progress = lambda phase, done, total: None,
) -> MonitorReport:
    """Write ``out``: the findings of each valid episode, one JSON line each, and return their summary.

    ``judge`` is the name of a model; without one the stored findings alone are written. Episodes of the same task are
    shown to it side by side, also across runs. Its answers are kept in ``out`` with ``.answers`` appended. Raises
    RunError or LLMError before ``out`` is changed.
    """
    entries = [(run, stored) for run in dict.fromkeys(runs) for stored in stored_episodes(run, progress)]
    answers_file = answers_file_of(out)
    judged: list[Judged] = [Judged("not_asked") for _ in entries]
    usage: dict[str, Any] = {}
    if judge:
        async with options.open(judge, jobs) as llm:
            llm.cassette = Cassette(answers_file, record=True)
            judged = await _judge_all(Judge(llm), entries, jobs, progress)
            usage = asdict(llm.usage)
    lines = [_line(entry, result, judge) for entry, result in zip(entries, judged, strict=True)]
    write_whole(out, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode("utf-8", "replace"))
    return replace(_report(entries, judged, judge), usage=usage, out=str(out))


async def _judge_all(judge: Judge, entries: Sequence[Entry], jobs: int, progress: Progress) -> list[Judged]:
    """Judge the episodes of each task together; return the judgements in the order of the episodes."""
    by_task: dict[str, list[int]] = {}
    for place, (_, stored) in enumerate(entries):
        by_task.setdefault(stored.episode.task_id, []).append(place)
    judged: dict[int, Judged] = {}
    progress("judge", 0, len(entries))

    async def one(places: list[int]) -> None:
        cases = [Case.of("", entries[place][1].episode, _mechanical(entries[place])) for place in places]
        judged.update(zip(places, await judge.judge(cases), strict=True))
        progress("judge", len(judged), len(entries))

    await at_once(by_task.values(), jobs, one)
    return [judged[place] for place in range(len(entries))]


def _mechanical(entry: Entry) -> list[Finding]:
    """Return the findings of the monitors that are not the judge."""
    return [finding for finding in entry[1].episode.findings if not is_of_judge(finding)]


def _line(entry: Entry, judged: Judged, model: str) -> dict[str, Any]:
    """Return the row of one episode: what identifies it, all findings, and the judgement."""
    run, stored = entry
    findings = [*_mechanical(entry), *judged.findings]
    about = {"run": str(run), "agent": stored.agent, "task_id": stored.episode.task_id, "sample": stored.sample}
    row = {**about, "episode_id": stored.episode.episode_id, "reward": _reward(stored)}
    row["findings"] = [finding.model_dump(mode="json") for finding in findings]
    if model:
        verdict = None if judged.verdict is None else judged.verdict.model_dump(mode="json")
        about_judge = {"outcome": judged.outcome, "problem": judged.problem, "compared": judged.group}
        row["judge"] = {"model": model, **about_judge, "verdict": verdict}
    return row


def _reward(stored: Stored) -> float:
    return stored.episode.reward.value if stored.episode.reward is not None else 0.0


def _report(entries: Sequence[Entry], judged: Sequence[Judged], model: str) -> MonitorReport:
    mechanical = [_mechanical(entry) for entry in entries]
    accused = [any(finding.severity == "suspect" for finding in result.findings) for result in judged]
    outcomes = Counter(result.outcome for result in judged)
    verdicts = Counter(result.verdict.verdict for result in judged if result.outcome == "judged" and result.verdict)
    problems = Counter(result.problem for result in judged if result.outcome in ("discarded", "unreadable"))
    return MonitorReport(
        episodes=len(entries),
        hack_rate=hack_rate(mechanical, ("confirmed",)),
        suspect_rate=hack_rate(mechanical),
        exploits=_exploits(mechanical, judged, accused),
        model=model,
        outcomes={name: outcomes[name] for name in OUTCOMES if outcomes[name]} if model else {},
        problems=dict(sorted(problems.items())),
        verdicts=dict(sorted(verdicts.items())),
        unsupported=sum(
            alone and not hack_rate([findings]) for alone, findings in zip(accused, mechanical, strict=True)
        ),
    )


def _exploits(
    mechanical: Sequence[Sequence[Finding]], judged: Sequence[Judged], accused: Sequence[bool]
) -> list[dict[str, Any]]:
    """Return a row for each exploit id: episodes by severity, and those that the judge accuses too."""
    rows: dict[str, dict[str, Any]] = {}
    for findings, result, accuses in zip(mechanical, judged, accused, strict=True):
        of_episode: dict[str, set[str]] = {}
        for finding in (*findings, *result.findings):
            of_episode.setdefault(finding.exploit_id, set()).add(finding.severity)
        for exploit, severities in of_episode.items():
            empty = {"exploit": exploit, "info": 0, "suspect": 0, "confirmed": 0, "judge_agrees": 0}
            row = rows.setdefault(exploit, empty)
            for severity in severities:
                row[severity] += 1
            row["judge_agrees"] += accuses
    return [rows[exploit] for exploit in sorted(rows)]
