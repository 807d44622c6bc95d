"""The split of a task: drawn for its whole repository, or one of the two splits that no one trains on by default.

A repository's split depends on the hash of its name and on the shares alone. So a set that gets more packages moves no
task, and a policy never sees code of a held-out repository.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...environments.rng import hashed_number
from ...errors import GeneratorError
from ...models import Task
from .benchmarks import benchmarks_of, normalized

WEAK, BENCHMARK = "weak", "benchmark"
"""Splits of tasks whose tests notice too few mistakes, and of tasks from the repositories of public benchmarks."""
MIN_STRENGTH = 0.6
SHARES = (("train", 0.8), ("validation", 0.1), ("test", 0.1))
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class SplitRules:
    """How tasks are put into splits."""

    shares: tuple[tuple[str, float], ...] = SHARES
    """Share of the repositories that each split gets; they add up to 1."""
    min_strength: float = MIN_STRENGTH
    """Least ``verifier_strength`` of a task that is not in the split ``weak``; tasks without one are not moved."""
    include_benchmarks: bool = False
    """Whether repositories of public benchmarks are drawn like any other."""

    def __post_init__(self) -> None:
        names = [name for name, _ in self.shares]
        total = sum(share for _, share in self.shares)
        if len(set(names)) != len(names) or any(share <= 0 for _, share in self.shares) or abs(total - 1) > _TOLERANCE:
            raise GeneratorError(
                f"splits {_written(self.shares)!r} must be different names with positive shares that add up to 1; "
                f"write them like {_written(SHARES)!r}"
            )
        if reserved := {WEAK, BENCHMARK} & set(names):
            raise GeneratorError(f"the split {min(reserved)!r} has a meaning of its own; choose another name")
        if not 0 <= self.min_strength <= 1:
            raise GeneratorError(f"the least strength must be from 0 to 1, got {self.min_strength}; choose another")

    @classmethod
    def read(cls, text: str, min_strength: float = MIN_STRENGTH, include_benchmarks: bool = False) -> SplitRules:
        """Return the rules whose shares are written as ``train=0.8,validation=0.1,test=0.1``. Raises GeneratorError."""
        return cls(tuple(_read_shares(text)), min_strength, include_benchmarks)

    def changed(self) -> dict[str, object]:
        """Return the settings that differ from the defaults, as a report stores them."""
        default = SplitRules()
        values = {
            "shares": _written(self.shares) if self.shares != default.shares else None,
            "min_strength": self.min_strength if self.min_strength != default.min_strength else None,
            "include_benchmarks": self.include_benchmarks or None,
        }
        return {name: value for name, value in values.items() if value is not None}

    def split_of(self, task: Task) -> str:
        """Return the split of a task."""
        if not self.include_benchmarks and benchmarks_of(task.repo, source_spec(task)):
            return BENCHMARK
        if task.verifier_strength is not None and task.verifier_strength < self.min_strength:
            return WEAK
        return self.split_of_repository(task.repo)

    def split_of_repository(self, name: str) -> str:
        """Return the split that the hash of a repository's name draws."""
        place = hashed_number(f"split {normalized(name)}") / 2**64
        for split, share in self.shares:
            place -= share
            if place < 0:
                return split
        return self.shares[-1][0]


def source_spec(task: Task) -> str:
    """Return the source of a task's Snapshot as it was given, '' where the row does not say it."""
    source = task.snapshot.recipe.get("source") if task.snapshot else None
    return str(source.get("spec", "")) if isinstance(source, dict) else ""


def _read_shares(text: str) -> Iterator[tuple[str, float]]:
    for part in text.split(","):
        name, equals, share = part.strip().partition("=")
        try:
            number = float(share)
        except ValueError:
            number = 0.0
        if not name or not equals or not number > 0:
            raise GeneratorError(f"{part.strip()!r} is not NAME=SHARE; write splits like {_written(SHARES)!r}")
        yield name.strip(), number


def _written(shares: tuple[tuple[str, float], ...]) -> str:
    return ",".join(f"{name}={share:g}" for name, share in shares)
