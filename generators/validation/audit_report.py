"""What an audit of a task set reports: problems, and one row per check."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Problem:
    """A check that a task does not pass."""

    task_id: str  # the task
    check: str  # the name of the check
    cause: str  # one line
    reward: float | None = None  # what an agent scored, where that is the problem
    infrastructure: bool = False  # true when the machine failed, so that nothing is known about the task

    def __str__(self) -> str:
        score = "" if self.reward is None else f" scored {self.reward}"
        return f"{self.task_id}: {self.check}{score}: {self.cause}"


@dataclass(frozen=True)
class CheckRow:
    """The result of one check over all tasks."""

    check: str  # the name of the check
    tasks: int  # tasks that were checked
    ok: int  # tasks that passed
    failed: int  # tasks that did not
    mean_reward: float | None  # for agents: the mean of their rewards


@dataclass
class ValidationReport:
    """The result of an audit."""

    tasks: int  # tasks that were audited
    rows: list[CheckRow] = field(default_factory=list)  # one row per check, in order
    problems: list[Problem] = field(default_factory=list)  # everything that failed, in the order of the set
    written: int | None = None  # tasks in the cleaned set, when one was written
    earlier: int = 0  # tasks that an interrupted audit has checked

    @property
    def ok(self) -> bool:
        """Return whether there are tasks and no problems."""
        return self.tasks > 0 and not self.problems
