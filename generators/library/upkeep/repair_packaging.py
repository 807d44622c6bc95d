"""The generator ``repair_packaging``: mistakes in the packaging configuration that break builds or installs.

The environment still holds the package's installed metadata with the right Python versions, dependencies and commands,
as the machine of a maintainer does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ....environments.rng import stream
from ....errors import NotApplicable
from ....models import GeneratorRef
from ...base import Candidate, Configuration, HiddenTests
from ...python.source_tree import SourceTree
from ...python.tested_code import in_seed_order
from .hidden_tests import new_test_path
from .packaging.faults import CONFIGURATION, Fault, possible_faults, project_facts
from .packaging.hidden_test import packaging_test, packaging_tests
from .packaging.statement import PackagingReport, symptom

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

_PYTEST_TABLES = {
    "pyproject.toml": rb"^\[\s*(tool\.pytest[\w.]*)\s*\]",
    "setup.cfg": rb"^\[(tool:pytest)\]",
}


@dataclass(frozen=True)
class Knobs:
    """How many mistakes the configuration has."""

    mistakes: Annotated[int, Field(ge=1, le=4)] = 2
    """Most mistakes of one task, each about another fact; fewer where the configuration declares less."""


class RepairPackaging:
    """Break what a build declares or ships (backend, commands, packages, data, versions) and ask for the repair."""

    name = "repair_packaging"
    version = "1"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield candidates in seed order, the facts in turn. Raises NotApplicable for an unreadable configuration."""
        tree = SourceTree.of(snapshot)
        python = snapshot.recipe.python
        faults = list(possible_faults(tree.root, python))
        if not faults:
            raise NotApplicable(f"{snapshot.name} {snapshot.version} declares no packaging that can be read")
        order = _facts_in_turn(in_seed_order(faults, seed, self.name, key=lambda fault: (fault.path, fault.source)))
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        expected = project_facts(tree.root)
        visited: set[frozenset[bytes]] = set()
        for number, fault in enumerate(order):
            chosen = _combined(fault, order, knobs.mistakes, seed, number)
            key = frozenset(item.source for item in chosen)
            if key not in visited:
                visited.add(key)
                yield _candidate(snapshot, tree, reference, expected, chosen)


def _facts_in_turn(faults: list[Fault]) -> list[Fault]:
    """Return the faults so that the first of each fact come first, then the second of each."""
    turns: dict[str, int] = {}
    ranks = []
    for fault in faults:
        turns[fault.fact] = turns.get(fault.fact, 0) + 1
        ranks.append(turns[fault.fact])
    return [fault for _, fault in sorted(zip(ranks, faults, strict=True), key=lambda pair: pair[0])]


def _combined(first: Fault, faults: list[Fault], most: int, seed: int, number: int) -> list[Fault]:
    """Return ``first`` with faults of other facts, each in another part of its file than those before."""
    chosen = [first]
    pool = [fault for fault in faults if fault.fact != first.fact]
    stream(seed, "mistakes", number).shuffle(pool)
    for fault in pool:
        new_fact = fault.fact not in {item.fact for item in chosen}
        if len(chosen) < most and new_fact and _apart(fault, chosen):
            chosen.append(fault)
    return chosen


def _apart(fault: Fault, others: list[Fault]) -> bool:
    return all(fault.path != other.path or fault.end < other.start or other.end < fault.start for other in others)


def _candidate(
    snapshot: Snapshot, tree: SourceTree, reference: GeneratorRef, expected: dict[str, Any], faults: list[Fault]
) -> Candidate:
    test_path = new_test_path(snapshot, tree, "packaging")
    paths = sorted({fault.path for fault in faults})
    right = {path: tree.read(path) for path in paths}
    exercise = {path: _broken(right[path], [f for f in faults if f.path == path]) for path in paths}
    settings = _pytest_settings(snapshot, tree, paths)
    text = b"".join(exercise.values())
    commands = expected.get("commands", {})
    loadable = all(_in_package(tree, target) for target in commands.values())
    return Candidate(
        entity=f"{paths[0]}::{hashlib.sha256(text).hexdigest()[:12]}",
        generator=reference,
        exercise={**exercise, **settings},
        hidden_tests=HiddenTests(
            packaging_tests(test_path, expected),
            added={test_path: packaging_test(test_path, expected, loadable=loadable)},
        ),
        statement=PackagingReport(
            [symptom(fault, snapshot.recipe.python) for fault in faults],
            [path for path in CONFIGURATION if path in paths],
            next(iter(settings), None),
        ),
        solution=dict(right),
        configuration=Configuration(paths, next(iter(settings), None)),
        features={"mistakes": len(faults), "facts": ", ".join(sorted(fault.fact for fault in faults))},
    )


def _broken(source: bytes, faults: list[Fault]) -> bytes:
    for fault in sorted(faults, key=lambda fault: fault.start, reverse=True):
        source = source[: fault.start] + fault.new.encode() + source[fault.end :]
    return source


def _in_package(tree: SourceTree, target: str) -> bool:
    """Return whether a command's module is a file of the package, so that it can be imported beside the tests."""
    module = target.partition(":")[0]
    return any(tree.dotted_name(item.path) == module for item in tree.modules())


def _pytest_settings(snapshot: Snapshot, tree: SourceTree, paths: list[str]) -> dict[str, bytes]:
    """Return the file that pytest reads in place of one of ``paths``; none where it reads none of them."""
    path = snapshot.verifier.config_file
    if path not in paths or path not in _PYTEST_TABLES:
        return {}
    source = tree.read(path)
    retained = []
    heads = [*re.finditer(rb"^\[[^\n]*", source, re.MULTILINE)]
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        if re.match(_PYTEST_TABLES[path], head[0]):
            retained.append(source[head.start() : following.start() if following else len(source)].rstrip() + b"\n")
    name = f"pytest-settings.{path.rpartition('.')[2]}"
    return {name: b"\n".join(retained)}
