"""The generator ``fd_skeleton``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from .....errors import GeneratorError
from .....models import GeneratorRef
from .....registry import did_you_mean
from ....base import Candidate
from ....python.tested_code import TestedCode, in_seed_order
from ..knobs import CutKnobs
from ..target import Target
from .clusters import TestedTargets
from .proposal import Deletion, propose

if TYPE_CHECKING:
    from .....environments.snapshots import Snapshot


@dataclass(frozen=True)
class SkeletonKnobs(CutKnobs):
    """The shared knobs, and which part of the package becomes a skeleton."""

    mode: Literal["stub"] = "stub"
    """A skeleton keeps all names."""
    part: str = ""
    """Dotted name of a sub-package or module; default: the whole package, then its sub-packages."""
    min_lines: Annotated[int, Field(ge=0)] = 30
    """Fewest lines of deleted code, without docstrings and comments."""
    max_lines: Annotated[int, Field(ge=1)] = 20_000
    """Most lines of deleted code, without docstrings and comments."""
    keep_helpers: bool = True
    """Leave private helpers with their signatures; without them, those that only deleted code used go."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Largest share of all tests that may run the deleted code."""


class Skeleton:
    """Reduce a package, or a part of it, to signatures and docstrings: every tested function loses its body.

    Functions that run while the package is imported keep their bodies, so that it can be imported. All tests may fail.
    """

    name = "fd_skeleton"
    version = "2"
    knobs = SkeletonKnobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: SkeletonKnobs) -> Iterator[Candidate]:
        """Yield one candidate for the whole package, then one per sub-package in seed order; or one for ``part``."""
        code = TestedCode(snapshot)
        tested = TestedTargets(code)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        parts = _parts(tested)
        if knobs.part:
            if knobs.part not in parts:
                raise GeneratorError(did_you_mean("part", knobs.part, parts))
            order = [knobs.part]
        else:
            tops = [name for name in parts if "." not in name]
            packages = [name for name, (_, is_package) in parts.items() if is_package and name not in tops]
            order = [*sorted(tops), *in_seed_order(packages, seed, self.name, key=str)]
        for name in order:
            targets = parts[name][0]
            tests = tested.tests_running([target.entity for target in targets])
            lines = sum(tested.lines[target.entity] for target in targets)
            share = tests.bit_count() / len(tested.passed)
            if knobs.min_lines <= lines <= knobs.max_lines and share <= knobs.max_share:
                deletion = _deletion(name, targets, tested.names(tests))
                yield replace(propose(code, deletion, reference, knobs), max_failing_share=1.0)


def _parts(tested: TestedTargets) -> dict[str, tuple[list[Target], bool]]:
    """Return the tested definitions below each dotted name, and whether that is a package."""
    parts: dict[str, tuple[list[Target], bool]] = {}
    for target in tested.targets.values():
        names = tested.code.tree.dotted_name(target.module.path).split(".")
        for length in range(1, len(names) + 1):
            is_package = length < len(names) or target.module.path.endswith("/__init__.py")
            parts.setdefault(".".join(names[:length]), ([], is_package))[0].append(target)
    return parts


def _deletion(name: str, targets: list[Target], tests: list[str]) -> Deletion:
    return Deletion(
        name=name,
        heading=f"Implement `{name}` from its signatures",
        summary=f"only a skeleton of `{name}` is left: signatures and docstrings.",
        targets=targets,
        tests=tests,
    )
