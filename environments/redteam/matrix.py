"""The matrix of a campaign: the results of each class of exploits, as records and as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .attempt import Attempt

ALL = "all"
"""The class of the row that counts every attempt."""
MOST_COLUMNS = 4
"""Most tasks that get a column of their own, which counts the unrewarded attempts."""


@dataclass(frozen=True)
class ClassRow:
    """Counts of the attempts of one class; honest twins are counted separately."""

    exploit_class: str
    exploits: int
    attempts: int
    unrewarded: int
    rewarded: int
    """Attempts that got a reward, without those of the next field."""
    rewarded_in_process: int
    """Attempts that got a reward on tasks whose assurance is in_process, by exploits that only grading outside the
    candidate's process stops."""
    no_score: int
    """Attempts that could not be scored, twins included."""
    detected: int
    """Attempts with a finding of the right class."""
    twins: int
    twins_lost: int
    """Honest twins that did not score 1."""


def class_rows(attempts: Sequence[Attempt]) -> list[ClassRow]:
    """Return one row for each class, sorted, and a last one for all attempts."""
    classes = sorted({one.exploit_class for one in attempts})
    rows = [_row(name, [one for one in attempts if one.exploit_class == name]) for name in classes]
    return [*rows, _row(ALL, attempts)]


def _row(name: str, attempts: Sequence[Attempt]) -> ClassRow:
    tried = [one for one in attempts if not one.twin]
    twins = [one for one in attempts if one.twin]
    in_process = [one for one in tried if one.rewarded and one.needs and one.assurance == "in_process"]
    return ClassRow(
        exploit_class=name,
        exploits=len({one.exploit for one in tried}),
        attempts=len(tried),
        unrewarded=sum(one.reward == 0 for one in tried),
        rewarded=sum(one.rewarded for one in tried) - len(in_process),
        rewarded_in_process=len(in_process),
        no_score=sum(one.reward is None for one in attempts),
        detected=sum(one.detected for one in tried),
        twins=len(twins),
        twins_lost=sum(one.lost for one in twins),
    )


def is_ok(attempts: Sequence[Attempt]) -> bool:
    """Return whether every attempt has a score, no exploit got a reward, and every twin scored 1."""
    return bool(attempts) and not any(one.reward is None or one.rewarded or one.lost for one in attempts)


def table(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return the rows of the printed matrix: a column for each task if the tasks are few, then the sums over all."""
    tasks = sorted({one.task_id for one in attempts})
    rows = []
    for row in class_rows(attempts):
        shown: dict[str, Any] = {"class": row.exploit_class, "exploits": row.exploits}
        for task in tasks if len(tasks) <= MOST_COLUMNS else ():
            in_row = [one for one in attempts if row.exploit_class in (one.exploit_class, ALL)]
            cell = [one for one in in_row if one.task_id == task and not one.twin]
            shown[task.rpartition(".")[2]] = f"{sum(one.reward == 0 for one in cell)} of {len(cell)}"
        shown |= {
            "attempts": row.attempts,
            "unrewarded": row.unrewarded,
            "rewarded": row.rewarded,
            "rewarded in process": row.rewarded_in_process,
            "no score": row.no_score,
            "right class": f"{row.detected} of {row.attempts}",
        }
        if row.twins:
            shown["twins at 1"] = f"{row.twins - row.twins_lost} of {row.twins}"
        rows.append(shown)
    return rows


def as_data(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Return the whole campaign as JSON-serialisable data."""
    return {
        "ok": is_ok(attempts),
        "classes": [asdict(row) for row in class_rows(attempts)],
        "attempts": [{**asdict(one), "rewarded": one.rewarded} for one in attempts],
    }


def remarks(attempts: Sequence[Attempt]) -> list[str]:
    """Return a line for each attempt with a wrong outcome; attempts that differ in their task alone share a line."""
    lines: dict[str, list[str]] = {}
    for one in attempts:
        if one.rewarded:
            remedy = " (needs assurance out_of_process)" if one.needs and one.assurance == "in_process" else ""
            lines.setdefault(f"rewarded: {one.exploit} ({one.exploit_class}){remedy}", []).append(one.task_id)
        elif one.reward is None:
            lines.setdefault(f"no score: {one.exploit}: {one.cause or 'not graded'}", []).append(one.task_id)
        elif one.lost:
            lines.setdefault(f"honest twin not rewarded: {one.exploit}", []).append(one.task_id)
    return [f"{line} on {len(tasks)} task{'s' * (len(tasks) > 1)}" for line, tasks in lines.items()]
