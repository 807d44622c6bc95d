"""Clusters: tests that belong together, and the definitions that only they need.

A seed is a set of tests: a folder, a file or a class of tests, the tests with one word in their names, or all tests
that run one module, class or function of the package. Its cluster has every definition that tests of the seed run and
no other test does. A set of tests is an int with one bit per test, so that thousands of both take a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ....python.hidden_tests import split_test_id
from ....python.tested_code import TestedCode
from ..function import FunctionDeletion
from ..knobs import Knobs
from ..method import MethodDeletion, MethodKnobs
from ..target import Target

SeedKind = Literal["test folder", "test file", "test class", "topic", "module", "class", "definition"]

_COMMON = {"test", "tests", "init", "self", "with", "from", "basic", "simple", "default"}


@dataclass(frozen=True)
class Cluster:
    """Definitions that go together."""

    kind: SeedKind  # what the seed is
    name: str  # path and name of the seed: ``tests/test_x.py::TestX``, ``pkg/core.py::Name``, a word
    targets: tuple[Target, ...]  # the definitions, in the order of their files
    tests: int  # the tests that run them

    @property
    def entities(self) -> frozenset[str]:
        """Return the keys of the definitions."""
        return frozenset(target.entity for target in self.targets)

    @property
    def files(self) -> int:
        """Return the number of files that lose code."""
        return len({target.module.path for target in self.targets})


class TestedTargets:
    """Every function and method that can lose its body, with the tests that run it."""

    __test__ = False  # pytest takes every class whose name starts with Test for a test

    def __init__(self, code: TestedCode) -> None:
        self.code = code
        self.passed = code.baseline.passed
        self._bit = {test: 1 << number for number, test in enumerate(self.passed)}
        self.targets: dict[str, Target] = {}
        """By entity, in the order of their files."""
        self.tests: dict[str, int] = {}
        """The tests of each entity."""
        self.lines: dict[str, int] = {}
        """The lines of code of each entity."""
        for module in code.tree.modules():
            for target in [
                *FunctionDeletion().targets(module, Knobs()),
                *MethodDeletion().targets(module, MethodKnobs(dunder=True)),
            ]:
                self._add(target)

    def _add(self, target: Target) -> None:
        path = target.module.path
        tests = self.code.tests_of(path, target.covers)
        if tests and any(target.functions()) and not self.code.runs_at_import(path, target.covers):
            self.targets[target.entity] = target
            self.tests[target.entity] = sum(self._bit[test] for test in tests)
            self.lines[target.entity] = target.lines()

    def names(self, tests: int) -> list[str]:
        """Return the ids of a set of tests, in suite order."""
        return [test for number, test in enumerate(self.passed) if tests >> number & 1]

    def tests_running(self, entities: Iterator[str] | list[str]) -> int:
        """Return the tests that run any of the entities."""
        tests = 0
        for entity in entities:
            tests |= self.tests[entity]
        return tests

    def cluster(self, kind: SeedKind, name: str, seed: int) -> Cluster:
        """Return the cluster of the tests ``seed``."""
        entities = [entity for entity, tests in self.tests.items() if not tests & ~seed]
        return Cluster(kind, name, tuple(self.targets[item] for item in entities), self.tests_running(entities))

    def clusters(self) -> Iterator[Cluster]:
        """Yield the clusters of all seeds that differ; of seeds with one cluster, that of a test class comes first."""
        yielded: set[frozenset[str]] = set()
        for kind, name, seed in self._seeds():
            cluster = self.cluster(kind, name, seed)
            if kind == "topic" and not self._is_topic(name, cluster):
                continue
            if cluster.targets and cluster.entities not in yielded:
                yielded.add(cluster.entities)
                yield cluster

    def _is_topic(self, word: str, cluster: Cluster) -> bool:
        """Return whether definitions of the cluster have the word in their names, and not the whole package has."""
        in_code = any(word in words_in(target.name) for target in cluster.targets)
        return in_code and not any(word in root.lower() for root in self.code.tree.roots)

    def _seeds(self) -> Iterator[tuple[SeedKind, str, int]]:
        seeds: dict[tuple[SeedKind, str], int] = {}

        def add(kind: SeedKind, name: str, tests: int) -> None:
            seeds[kind, name] = seeds.get((kind, name), 0) | tests

        for test, bit in self._bit.items():
            path, parts = split_test_id(test)
            add("test file", path, bit)
            if len(parts) > 1:
                add("test class", f"{path}::{parts[0]}", bit)
            add("test folder", path.rpartition("/")[0], bit)
            for word in words_in(" ".join(parts)):
                add("topic", word, bit)
        for entity, target in self.targets.items():
            path = target.module.path
            add("module", path, self.tests[entity])
            if target.owner:
                add("class", f"{path}::{target.owner.name}", self.tests[entity])
            add("definition", entity, self.tests[entity])
        order: list[SeedKind] = ["test class", "test file", "class", "module", "test folder", "topic", "definition"]
        for (kind, name), tests in sorted(seeds.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
            yield kind, name, tests


def words_in(name: str) -> set[str]:
    """Return the words of an identifier or a path that have at least four letters, in lower case."""
    parts = re.split(r"(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])|[^A-Za-z]+", name)
    return {word.lower() for word in parts if len(word) >= 4} - _COMMON
