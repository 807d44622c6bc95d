"""Report of a replay: its counts and costs, its warnings, and whether it is complete."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class TeacherAccount:
    """Questions to one teacher, without follow-up questions, and what they cost."""

    questions: int = 0
    answered: int = 0
    tokens: int = 0
    usd: float = 0.0
    problem: str = ""
    """Why the last question without an answer has none."""
    out: str = ""
    """Why the teacher was dropped; '' when it was not."""


@dataclass
class Report:
    """Counts and costs of a replay.

    ``usd`` and ``tokens`` are everything that was paid for, or may be charged for, over every start; answers from a
    cassette cost nothing. ``pairs_if_all`` (estimate, low, high) is what asking about every one of the ``turns`` would
    have brought, from the logged propensities, and ``regret`` how much of that is missing. Neither covers turns that
    were not reached.
    """

    turns: int = 0
    unreached: int = 0
    questioned: int = 0
    """Turns that the teachers were asked about."""
    pairs: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    teachers: dict[str, TeacherAccount] = field(default_factory=dict)
    usd: float = 0.0
    tokens: int = 0
    executed: int = 0
    not_executed: dict[str, int] = field(default_factory=dict)
    reliability: dict[str, dict[str, float]] = field(default_factory=dict)
    pairs_if_all: tuple[float, float, float] = (0.0, 0.0, 0.0)
    regret: float = 0.0
    stopped: str = ""
    """Why the replay ended before the last turn, with ``unreached`` turns left; '' when it did not."""
    unanswered: int = 0
    """Questions without an answer, follow-up questions included."""

    @property
    def lacks(self) -> str:
        """Return what another start, or other settings, may add; '' when every question was answered."""
        if self.stopped:
            return f"{self.stopped}, {self.unreached} turns were not reached"
        if self.unanswered:
            return f"{self.unanswered} questions have no answer"
        dropped = [name for name, account in self.teachers.items() if account.out]
        return f"{', '.join(dropped)} was dropped" if dropped else ""

    @property
    def usd_per_pair(self) -> float | None:
        """Return the cost of a pair; None without a pair."""
        return self.usd / self.pairs.total() if self.pairs.total() else None

    def row(self) -> dict[str, Any]:
        """Return plain values for a table or JSON."""
        teachers = {name: asdict(account) for name, account in self.teachers.items()}
        return {**self.__dict__, "teachers": teachers, "complete": not self.lacks, "usd_per_pair": self.usd_per_pair}

    def warnings(self) -> list[str]:
        """Return one line for each teacher that failed and for each reason why actions were not executed."""
        lines = []
        for name, account in self.teachers.items():
            if account.out:
                lines.append(f"the teacher {name} was dropped: {account.out}")
            elif unanswered := account.questions - account.answered:
                share = f"{unanswered} of {account.questions} questions"
                lines.append(f"the teacher {name} left {share} without an answer, the last one: {account.problem}")
        return lines + [f"{number} actions were not executed: {reason}" for reason, number in self.not_executed.items()]

    def why_none(self) -> str:
        """Return the reasons why turns gave no pair, the most frequent first."""
        return ", ".join(f"{reason} {number}" for reason, number in self.reasons.most_common()) or "no turn was asked"
