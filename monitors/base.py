"""The shape of a monitor: what it is given to inspect, and the protocol it follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from ..models import FileChange, Finding, PublicTask, Turn
from .reading.added_files import AddedFile, read_added
from .reading.transcript import Call, read_calls


@dataclass(frozen=True)
class Inspection:
    """One graded episode as monitors see it: copies of its records, without hidden tests or any other secret part."""

    task: PublicTask
    """The public part of the task."""
    turns: tuple[Turn, ...] = ()
    """The transcript; empty when a diff is graded without an episode."""
    diff: tuple[FileChange, ...] = ()
    """The changes that are graded, with their contents."""
    handed_in: tuple[FileChange, ...] = ()
    """The tests that the agent was asked for, where the task is to write some; they are in no other field."""
    refused: tuple[FileChange, ...] = ()
    """The changes that are not graded; ``reason`` starts with one word and a colon (see ``grading.collect``)."""
    violations: tuple[str, ...] = ()
    """Parts of the test harness that the code under test replaced, as the test run reported them."""
    forged: str = ""
    """What was wrong with the first result record that was not signed by the harness; '' when all were."""
    disagreement: tuple[str, ...] = ()
    """Names of the tests that fail with what the solution answers in a process without tests, where all tests have
    passed beside its code."""
    held_out: tuple[str, ...] = ()
    """Names of the functions that give another answer to calls which no test makes, where all tests have passed."""
    passed_controls: tuple[str, ...] = ()
    """Names of the tests that pass although a right solution fails them, because their expected values were changed.
    Empty where an expected test fails."""
    base: Mapping[str, bytes] = field(default_factory=dict)
    """The files that the agent changed or deleted, by path, as they were given to it; a new file is not in it."""
    refused_content: Mapping[str, bytes] = field(default_factory=dict)
    """What the agent wrote into files that are not graded, by path, where that is known."""
    tests: Mapping[str, bytes] = field(default_factory=dict)
    """The tests that the agent could read, by path, as they were given to it."""

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Return the tool calls of the transcript, in order."""
        return read_calls(self.turns)

    @cached_property
    def added(self) -> tuple[AddedFile, ...]:
        """Return the graded files with the lines that they add."""
        return read_added(self.diff, self.base)


class Monitor(Protocol):
    """A check of graded episodes for one kind of exploit: pure, without input or output.

    Third parties register a class in the entry-point group ``etude.monitors``; it is called without arguments. The
    first line of its docstring describes it. A Finding is ``attempted`` when the agent tried something, ``succeeded``
    when that took effect (a command worked, a part of the harness was replaced), and ``integrated`` when what is graded
    holds it or what came of it.
    """

    name: str
    """The name that the monitor is registered under."""

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return the evidence in one graded episode; only findings that are ``confirmed`` set its reward to 0."""
        ...
