"""Generators propose Candidates; the validator decides which become Tasks.

A generator is one small file: a class with ``name``, ``version`` and ``candidates(snapshot, seed, knobs)``. It never
runs anything: what it proposes is tried, measured and, when it does not hold, rejected by ``validator.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..models import GeneratorRef

if TYPE_CHECKING:
    from ..environments.snapshots import Snapshot

Files = dict[str, bytes | None]
"""Workspace-relative path to content; ``None`` is a file that is not there."""


@dataclass(frozen=True)
class Candidate:
    """A proposal: the exercise, its inverse, what it should break and what the statement is made of.

    ``exercise`` maps source and documentation paths to their content in the workspace; what they held before is the
    Snapshot's business. ``affected`` are the stable tests that touch the deleted code, cheapest first to try.
    ``probes`` are trivial solutions (name to source files) that must all score 0.

    ``tests`` are the test files without the names that ``exercise`` takes away: what the suite is measured on, so that
    a file that imports such a name fails test by test and not as a whole. ``missing`` are the names that each of them
    lost. ``blocked`` says why the proposal cannot be carried out: it is rejected without a run.
    """

    entity: str
    generator: GeneratorRef
    exercise: Files
    affected: list[str]
    probes: dict[str, Files]
    facts: dict[str, Any] = field(default_factory=dict)
    features: dict[str, float | int | str | bool] = field(default_factory=dict)
    tests: Files = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    blocked: str = ""


class Generator(Protocol):
    """Proposes candidates in seed order: a pure function of the Snapshot, the seed and the knobs."""

    name: str
    version: str

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Mapping[str, Any]) -> Iterator[Candidate]: ...
