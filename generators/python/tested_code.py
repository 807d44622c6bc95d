"""Which tests run which code, so that a generator can choose code that tests decide about, and the order of a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ...environments.rng import stream
from .source_tree import SourceTree

if TYPE_CHECKING:
    from ...environments.snapshots import Snapshot

T = TypeVar("T")


class TestedCode:
    """The package of a Snapshot with the tests of its functions and lines."""

    __test__ = False  # pytest takes every class whose name starts with Test for a test

    def __init__(self, snapshot: Snapshot) -> None:
        self.baseline = snapshot.baseline
        self.tree = SourceTree.of(snapshot)
        self._position = {test: number for number, test in enumerate(snapshot.baseline.passed)}
        self._functions: dict[str, list[str]] = {}
        for key in snapshot.baseline.tests_of:
            self._functions.setdefault(key.partition("::")[0], []).append(key)

    def tests_of(self, path: str, covers: Callable[[str], bool]) -> list[str]:
        """Return the stable tests, in suite order, that run a function of a file.

        ``covers`` selects functions by their key in the test map, ``path/module.py::Class.name``.
        """
        keys = [key for key in self._functions.get(path, []) if covers(key)]
        return sorted({test for key in keys for test in self.baseline.tests_of[key]}, key=self._position.__getitem__)

    def runs_at_import(self, path: str, covers: Callable[[str], bool]) -> bool:
        """Return whether a function of a file runs while the package is imported; without it nothing would work."""
        return any(covers(key) for key in self.baseline.at_import if key.startswith(f"{path}::"))

    def tests_of_lines(self, path: str) -> dict[int, list[str]]:
        """Return the stable tests, in suite order, of each line (1-based) of a file that a test runs."""
        return self._lines.get(path, {})

    @cached_property
    def _lines(self) -> dict[str, dict[int, list[str]]]:
        index: dict[str, dict[int, list[str]]] = {}
        for test in self.baseline.passed:
            for path, lines in self.baseline.covered(test).items():
                tests_of_line = index.setdefault(path, {})
                for line in lines:
                    tests_of_line.setdefault(line, []).append(test)
        return index

    def decides(self, tests: list[str], max_share: float) -> bool:
        """Return whether there are ``tests``, and they are at most the share ``max_share`` of all stable tests."""
        return 0 < len(tests) <= max_share * len(self.baseline.passed)


def in_seed_order(items: Iterable[T], seed: int, name: str, key: Callable[[T], Any]) -> list[T]:
    """Return the items in an order drawn from ``seed`` and ``name``, the same whatever order they come in."""
    pool = sorted(items, key=key)
    stream(seed, name).shuffle(pool)
    return pool


def in_turn(rows: Iterable[Iterable[T]]) -> Iterator[T]:
    """Yield the first item of each row, then the second of each; a row is read no further than needed."""
    waiting = [iter(row) for row in rows]
    while waiting:
        remaining = []
        for row in waiting:
            for item in row:
                yield item
                remaining.append(row)
                break
        waiting = remaining
