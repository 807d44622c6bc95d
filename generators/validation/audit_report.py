"""What an audit of a task set reports: problems, and one row per check."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Problem:
    """A check that a task does not pass."""

    task_id: str
    """The task."""
    check: str
    """The name of the check."""
    cause: str
    """One line."""
    reward: float | None = None
    """What an agent scored, where that is the problem."""
    infrastructure: bool = False
    """True when the machine failed, so that nothing is known about the task."""

    def __str__(self) -> str:
        score = "" if self.reward is None else f" scored {self.reward}"
        return f"{self.task_id}: {self.check}{score}: {self.cause}"


@dataclass(frozen=True)
class CheckRow:
    """The result of one check over all tasks."""

    check: str
    """The name of the check."""
    tasks: int
    """Tasks that were checked."""
    ok: int
    """Tasks that passed."""
    failed: int
    """Tasks that did not."""
    mean_reward: float | None
    """For agents: the mean of their rewards."""


@dataclass
class ValidationReport:
    """The result of an audit."""

    tasks: int
    """Tasks that were audited."""
    rows: list[CheckRow] = field(default_factory=list)
    """One row per check, in order."""
    problems: list[Problem] = field(default_factory=list)
    """Everything that failed, in the order of the set."""
    written: int | None = None
    """Tasks in the cleaned set, when one was written."""

    @property
    def ok(self) -> bool:
        """Return whether there are tasks and no problems."""
        return self.tasks > 0 and not self.problems
