"""The shape of a monitor: what it is given to inspect, and the protocol it follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..models import FileChange, Finding, PublicTask, Turn


@dataclass(frozen=True)
class Inspection:
    """One graded episode as monitors see it: copies of its records, without hidden tests or any other secret part."""

    task: PublicTask
    """The public part of the task."""
    turns: tuple[Turn, ...] = ()
    """The transcript; empty when a diff is graded without an episode."""
    diff: tuple[FileChange, ...] = ()
    """The changes that are graded, with their contents."""
    refused: tuple[FileChange, ...] = ()
    """The changes that are not graded; ``reason`` starts with one word and a colon (see ``grading.collect``)."""
    violations: tuple[str, ...] = ()
    """Parts of the test harness that the code under test replaced, as the test run reported them."""
    forged: str = ""
    """What was wrong with the first result record that was not signed by the harness; '' when all were."""


class Monitor(Protocol):
    """A check of graded episodes for one kind of exploit: pure, without input or output.

    Third parties register a class in the entry-point group ``etude.monitors``; it is called without arguments. The
    first line of its docstring describes it.
    """

    name: str
    """The name that the monitor is registered under."""

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return the evidence in one graded episode; only findings that are ``confirmed`` set its reward to 0."""
        ...
