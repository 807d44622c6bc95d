"""Stages of the demo, in a newcomer's words, and the records that they produce."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ...intervals import Interval
from ..progress import Progress


@dataclass(frozen=True)
class Stage:
    """One stage as the progress display shows it."""

    title: str
    """Two to four words."""
    meaning: str
    """One sentence for a newcomer."""
    typical_s: int
    """Seconds that it takes on two idle cores."""


PACKAGE = Stage(
    "Build a real package",
    "Download a Python package, install it in a separate environment, run its tests three times.",
    25,
)
TASKS = Stage(
    "Make tasks",
    "Delete one tested function for each task: the agent has to write it back, hidden tests decide.",
    25,
)
CHECK = Stage(
    "Check the tasks",
    "Every task must score 1 for the true solution, 0 for doing nothing and 0 for cheating.",
    10,
)
PLAY = Stage(
    "Play over a socket",
    "Start the server; scripted agents play in sandboxes, and each turn that goes wrong is marked.",
    20,
)
TRAIN = Stage(
    "Train a tiny model",
    "A small language model plays tool-use drills and learns from the hints at its own errors.",
    60,
)
STAGES = (PACKAGE, TASKS, CHECK, PLAY, TRAIN)


class Display(Protocol):
    """Progress display of the demo."""

    def stage(self, stage: Stage) -> AbstractContextManager[Progress]:
        """Show that a stage runs, and its seconds when it ends. Yields the function that reports its progress."""


@dataclass(frozen=True)
class AgentRow:
    """Episodes of one agent, as one line of the demo's table."""

    agent: str
    """Name of the agent."""
    plays: str
    """``tasks``, or ``drill`` for a tool-use exercise without a repository."""
    episodes: int
    """Number of its episodes."""
    mean_reward: float
    """Mean reward, 0 to 1."""
    expected: float
    """Reward that every one of its episodes must give."""
    error_turns: int
    """Turns that were marked as errors."""
    hints: int
    """Hints at these turns."""
    ok: bool
    """Whether every reward is the expected one and, for the stumbler, exactly its planned mistakes were marked."""


@dataclass(frozen=True)
class Training:
    """Training run of the demo, measured on held-out drills before and after; intervals are Wilson's, of 95 %."""

    steps: int
    """Steps that were made."""
    seconds: float
    """Seconds of the whole run, evaluations included."""
    parameters: int
    """Parameters of the model."""
    drills: int
    """Held-out drills of each evaluation."""
    error_turns_before: Interval
    """Share of turns that erred before training."""
    error_turns_after: Interval
    """Share of turns that erred after training."""
    solved_before: Interval
    """Share of drills solved before training."""
    solved_after: Interval
    """Share of drills solved after training."""
    report: str
    """Page with the curves of the run."""
    stopped: str = ""
    """Reason why a safety limit ended the run early; empty when none did."""

    @property
    def learned(self) -> bool:
        """Return whether the share of error turns fell by more than chance explains."""
        return self.error_turns_after.high < self.error_turns_before.low


@dataclass(frozen=True)
class Demo:
    """Result of the whole demo."""

    source: str
    """Package that the tasks were made from."""
    tests: int
    """Tests of the package that pass every time."""
    tasks: int
    """Validated tasks."""
    candidates: int
    """Proposals that were tried."""
    rows: list[AgentRow]
    """One row for each agent and kind of task."""
    sandbox: str
    """Isolation of the episodes, and how to get a stronger one where one exists."""
    report: str
    """Page that shows every episode turn by turn."""
    seconds: dict[str, float]
    """Seconds by the title of the stage."""
    training: Training | None
    """Training run; None where PyTorch is not installed."""
    ok: bool
    """Whether every agent got its expected rewards and the training was not stopped."""
