"""Records that travel between the process that runs ``etude generate`` and those that do its work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from ...environments.snapshots import Recipe, Snapshot, SnapshotOptions
from ...models import SnapshotRef, Task
from ..base import Candidate, Progress, Rejection
from ..validation.checks.duplicates import Fingerprint
from ..validation.checks.final_checks import CheckKnobs


@dataclass(frozen=True)
class Settings:
    """How candidates are checked."""

    backend: str  # the sandbox backend
    knobs: CheckKnobs  # the knobs of validation


@dataclass(frozen=True)
class Proposals:
    """Candidates of one Snapshot, and why some generators have none or not all of theirs."""

    candidates: list[Candidate] = field(default_factory=list)  # in the order of the request and the seed
    unfit: dict[str, str] = field(default_factory=dict)  # why generators do not fit it, by "generator on package"
    failed: dict[str, str] = field(default_factory=dict)  # defects of generators, by the same


class Plan(Protocol):
    """What is asked of each Snapshot; it is pickled."""

    @property
    def asks_model(self) -> bool:
        """Return whether a generator asks a language model, whose answers are recorded on one machine."""
        ...

    def candidates(self, snapshot: Snapshot) -> Proposals:
        """Return what the generators propose from a Snapshot."""
        ...


@dataclass(frozen=True)
class BuildCost:
    """What builds of one Snapshot cost."""

    builds: int  # how often it was built; Ray's nodes build it once each
    seconds: float  # wall time of all builds
    cpu_seconds: float  # CPU time of all builds
    bytes: int  # size of its folder in one cache

    def __add__(self, other: BuildCost) -> BuildCost:
        """Return the cost of both."""
        seconds = round(self.seconds + other.seconds, 2)
        return BuildCost(
            self.builds + other.builds, seconds, round(self.cpu_seconds + other.cpu_seconds, 2), other.bytes
        )


@dataclass(frozen=True)
class Built:
    """A Snapshot without its files: every machine can open it, which builds it where the cache lacks it."""

    source: str
    """The source as it was given."""
    reference: str
    """The SnapshotRef as JSON: the digest and the recipe."""
    passing_tests: int
    """Number of stable tests."""
    stable_tests: str
    """Digest of the ids of the stable tests."""

    @cached_property
    def ref(self) -> SnapshotRef:
        """Return the record from which the Snapshot can be built again."""
        return SnapshotRef.model_validate_json(self.reference)

    @cached_property
    def recipe(self) -> Recipe:
        """Return the recipe of the Snapshot."""
        return Recipe(**self.ref.recipe)

    @property
    def digest(self) -> str:
        """Return the address of the Snapshot."""
        return self.ref.digest

    @property
    def name(self) -> str:
        """Return the distribution name of the project."""
        return self.recipe.name

    @property
    def version(self) -> str:
        """Return the version of the project."""
        return self.recipe.version

    @property
    def licence(self) -> str:
        """Return the SPDX expression of the project's licence; empty when unknown."""
        return self.recipe.licence

    @property
    def is_local(self) -> bool:
        """Return whether the source is a folder or an archive, which other machines may lack."""
        return self.recipe.source.kind in ("folder", "archive")


@dataclass(frozen=True)
class Proposed:
    """What all generators propose from one Snapshot, and what that cost."""

    built: Built  # the Snapshot
    proposals: Proposals  # what they propose
    cpu_seconds: float  # CPU time of the proposals
    cost: BuildCost | None = None  # cost of a build that the proposals needed


@dataclass(frozen=True)
class Work:
    """Candidates of one Snapshot that wait for a verdict."""

    built: Built  # the Snapshot
    waiting: Mapping[str, Candidate]  # the candidates by key


Verdict = Task | Rejection
"""The result of validation."""


@dataclass(frozen=True)
class Judged:
    """The verdict on one candidate."""

    key: str  # key of the candidate
    verdict: Verdict  # the task, or why there is none
    cpu_seconds: float  # CPU time of all processes that worked on it
    cost: BuildCost | None = None  # cost of a build that was needed first


class Machines(Protocol):
    """A place where the work of ``etude generate`` is done."""

    def builds(
        self, sources: Sequence[str], options: SnapshotOptions, progress: Progress
    ) -> Iterator[tuple[Built, BuildCost | None]]:
        """Yield the Snapshot of each source, in their order, with its cost unless a cache had it.

        Raises SnapshotError.
        """
        ...

    def proposals(self, snapshots: Sequence[Built], plan: Plan) -> Iterator[Proposed]:
        """Yield what is proposed from each Snapshot, in their order."""
        ...

    def verdicts(self, works: Iterable[Work], settings: Settings) -> Iterator[Judged]:
        """Yield the verdict on every candidate as soon as it is known; ``works`` is read when there is room for more.

        Raises GeneratorError when workers were lost, OutOfTime when a machine is too busy to judge a candidate.
        """
        ...

    def fingerprints(self, tasks: Sequence[tuple[Task, Built]]) -> list[Fingerprint]:
        """Return the fingerprint of each task, by which duplicates are found."""
        ...
