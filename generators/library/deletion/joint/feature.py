"""The generator ``fd_feature``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from .....models import GeneratorRef
from ....base import Candidate
from ....python.tested_code import TestedCode, in_seed_order
from ..knobs import CutKnobs
from .clusters import Cluster, TestedTargets
from .feature_title import feature_title
from .proposal import Deletion, propose

if TYPE_CHECKING:
    from .....environments.snapshots import Snapshot

LARGE_FILES, LARGE_LINES = 3, 80
"""A feature of so many files or so many lines is large."""


@dataclass(frozen=True)
class FeatureKnobs(CutKnobs):
    """The shared knobs, and how large and how different features are."""

    min_lines: Annotated[int, Field(ge=0)] = 30
    """Fewest lines of deleted code, without docstrings and comments."""
    max_lines: Annotated[int, Field(ge=1)] = 3000
    """Most lines of deleted code, without docstrings and comments."""
    min_files: Annotated[int, Field(ge=1)] = 1
    """Fewest files that lose code."""
    min_entities: Annotated[int, Field(ge=1)] = 3
    """Fewest functions and methods that are deleted."""
    min_tests: Annotated[int, Field(ge=1)] = 3
    """Fewest tests that run the deleted code."""
    max_overlap: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Largest share of definitions that two candidates may have in common."""
    small: bool = False
    """Propose features of at most 2 files and 79 lines too, after the others; else only where there are no others."""


class FeatureDeletion:
    """Delete a feature over several files: everything that a cluster of tests needs and no other test does.

    A cluster is a folder, file or class of tests, tests with a word in common, or all of one module, class or function.
    Features of at least 3 files or 80 lines come first, and alone unless ``small`` asks for others. In mode ``stub``
    the bodies go; in mode ``remove`` names go too, as far as nothing else needs them.
    """

    name = "fd_feature"
    version = "3"
    knobs = FeatureKnobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: FeatureKnobs) -> Iterator[Candidate]:
        """Yield candidates that have little in common, in seed order."""
        code = TestedCode(snapshot)
        tested = TestedTargets(code)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        eligible = [cluster for cluster in tested.clusters() if _is_eligible(tested, cluster, knobs)]
        pool = in_seed_order(eligible, seed, self.name, key=lambda item: (item.kind, item.name))
        large = [item for item in pool if _is_large(tested, item)]
        if knobs.small:
            pool = large + [item for item in pool if item not in large]
        else:
            pool = large or pool
        proposed: list[Cluster] = []
        for cluster in pool:
            if all(_overlap(cluster, other) <= knobs.max_overlap for other in proposed):
                proposed.append(cluster)
                yield propose(code, _deletion(tested, cluster), reference, knobs)


def _is_eligible(tested: TestedTargets, cluster: Cluster, knobs: FeatureKnobs) -> bool:
    lines = sum(tested.lines[entity] for entity in cluster.entities)
    return (
        knobs.min_lines <= lines <= knobs.max_lines
        and cluster.files >= knobs.min_files
        and len(cluster.targets) >= knobs.min_entities
        and knobs.min_tests <= cluster.tests.bit_count() <= knobs.max_share * len(tested.passed)
    )


def _is_large(tested: TestedTargets, cluster: Cluster) -> bool:
    lines = sum(tested.lines[entity] for entity in cluster.entities)
    return cluster.files >= LARGE_FILES or lines >= LARGE_LINES


def _overlap(one: Cluster, other: Cluster) -> float:
    """Return the share of definitions that both clusters have, of those that either has."""
    return len(one.entities & other.entities) / len(one.entities | other.entities)


def _summary(feature: str, is_code: bool) -> str:
    """Return the sentence that says what is missing."""
    definitions = "the functions and methods that only its tests run"
    return f"{feature} is missing, with {definitions}." if is_code else f"{feature} is missing: {definitions}."


def _deletion(tested: TestedTargets, cluster: Cluster) -> Deletion:
    title = feature_title(cluster, tested.code.tree.roots)
    plain = title.strip("`")
    feature = title if title != plain else f"the feature “{title}”"
    return Deletion(
        name=plain,
        heading=f"Implement {feature}",
        summary=_summary(feature, title != plain),
        targets=cluster.targets,
        tests=tested.names(cluster.tests),
    )
