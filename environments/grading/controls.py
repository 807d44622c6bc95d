"""Negative controls: copies of hidden tests with another expected value, which a right solution fails.

pytest runs tests and the code under test in one process, so that code can forge what pytest reports: with a replaced
report, with an object that equals everything, or with the expected value that it reads in the calling frame. Such a
forgery passes a control as it passes the test itself. A test and its controls run in one process, under names that are
drawn for each grade, and their values differ in one character, so that nothing shows which of them is right. When a
task is validated, its own solution has to pass the test and fail each control
(``generators/validation/checks/controls.py``).
"""

from __future__ import annotations

import base64
import functools
import json
import random
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ...errors import GraderError
from ..snapshots.test_run.test_runner import TestRun

COMPONENT = "controls"
PASSED = "passes although its expected value was changed"


@dataclass(frozen=True)
class Control:
    """One test function and its copies with other values.

    The function is the bytes from ``start`` to ``end`` of its file. Its name begins at ``name_at`` and its value at
    ``value_at``, both counted from ``start``.
    """

    test: str
    """Id of the function, without parameters."""
    start: int
    end: int
    name_at: int
    value_at: int
    values: tuple[str, ...]
    """The texts of the value, the right one first."""
    names: tuple[str, ...]
    """The names of the function and of its copies, as many as values."""
    cases: tuple[tuple[str, ...], ...]
    """For each value, the ends of the ids of all its cases after the function's name, such as ``[1-2]``."""
    fails: tuple[tuple[str, ...], ...]
    """For each value, the cases that the task's own solution fails; none for the right value."""

    @property
    def path(self) -> str:
        """Return the file of the test."""
        return self.test.partition("::")[0]

    def source(self, function: bytes, order: Sequence[int]) -> bytes:
        """Return the function's source followed by its copies; the name number i has the value ``order[i]``."""
        return b"\n\n".join(
            self._copy(function, name, self.values[value]) for name, value in zip(self.names, order, strict=True)
        )

    def _copy(self, function: bytes, name: str, value: str) -> bytes:
        edits = [(self.name_at, self.names[0], name), (self.value_at, self.values[0], value)]
        for place, old, new in sorted(edits, reverse=True):
            function = function[:place] + new.encode() + function[place + len(old.encode()) :]
        return function

    def originals_of(self, value: int, case: str) -> tuple[str, ...]:
        """Return the case of the test itself that stands where ``case`` stands among those of a value.

        A changed value may change the case's id. Where a value has another number of cases, all of the test return.
        """
        cases, right = self.cases[value], self.cases[0]
        return (right[cases.index(case)],) if len(cases) == len(right) else right

    def id_of(self, name: int, case: str) -> str:
        """Return the id of a case of the function with one of the names."""
        return f"{self.test[: len(self.test) - len(self.names[0])]}{self.names[name]}{case}"


def pack(controls: Sequence[Control]) -> str:
    """Return controls as text for a row; '' for none."""
    if not controls:
        return ""
    text = json.dumps([asdict(control) for control in controls], separators=(",", ":"), sort_keys=True)
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


@functools.lru_cache(maxsize=64)
def unpack(text: str) -> tuple[Control, ...]:
    """Return the controls that ``pack`` wrote. Raises GraderError for anything else."""
    if not text:
        return ()
    try:
        fields = json.loads(zlib.decompress(base64.b85decode(text)))
        return tuple(
            Control(
                **{
                    **item,
                    **{name: tuple(item[name]) for name in ("values", "names")},
                    **{name: tuple(map(tuple, item[name])) for name in ("cases", "fails")},
                }
            )
            for item in fields
        )
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise GraderError("the task's controls are damaged; make the task again") from error


@dataclass(frozen=True)
class Placed:
    """Controls with the order of their values in one run."""

    controls: tuple[Control, ...]
    orders: tuple[tuple[int, ...], ...]

    @classmethod
    def drawn(cls, controls: Sequence[Control], choice: random.Random) -> Placed:
        """Return the controls with orders that ``choice`` draws."""
        orders = [choice.sample(range(len(control.values)), len(control.values)) for control in controls]
        return cls(tuple(controls), tuple(map(tuple, orders)))

    def files(self, tree: Path) -> dict[str, bytes]:
        """Return the test files of a tree with the copies, by path. Raises OSError."""
        files = {path: (tree / path).read_bytes() for path in sorted({control.path for control in self.controls})}
        pairs = zip(self.controls, self.orders, strict=True)
        for control, order in sorted(
            pairs, key=lambda pair: pair[0].start, reverse=True
        ):  # later spans keep their place
            source = files[control.path]
            copies = control.source(source[control.start : control.end], order)
            files[control.path] = source[: control.start] + copies + source[control.end :]
        return files

    def requested(self, tests: Iterable[str]) -> list[str]:
        """Return the tests to run for these: a function with controls has all its cases under all its names."""
        placed = {control.test: (control, order) for control, order in zip(self.controls, self.orders, strict=True)}
        result: dict[str, None] = {}
        for test in tests:
            control, order = placed.get(test.partition("[")[0], (None, ()))
            if control is None:
                result[test] = None
                continue
            ids = [control.id_of(name, case) for name, value in enumerate(order) for case in control.cases[value]]
            result.update(dict.fromkeys(sorted(ids)))
        return list(result)

    def as_itself(self, run: TestRun) -> TestRun:
        """Return a run with the outcomes of the right values alone, under the ids that the tests really have."""
        originals = self._originals()
        outcomes = {name: outcome for test, outcome in run.outcomes.items() if (name := originals.get(test, test))}
        order, repeated = (
            [name for test in tests if (name := originals.get(test, test))] for tests in (run.order, run.repeated)
        )
        return replace(run, outcomes=outcomes, order=order, repeated=repeated)

    def passed(self, run: TestRun) -> dict[str, str]:
        """Return the controls that a run passes, with the reason.

        A case counts only where the same case of the test itself passes: code that answers otherwise may answer what a
        control expects. Code that fails a case on purpose gains nothing, because a control's case looks the same to it.
        """
        passed: dict[str, str] = {}
        succeeded = {test for test, item in run.outcomes.items() if item.outcome == "passed"}
        for control, order in zip(self.controls, self.orders, strict=True):
            right = order.index(0)
            for name, value in enumerate(order):
                for case in control.fails[value]:
                    test = control.id_of(name, case)
                    same = [control.id_of(right, one) for one in control.originals_of(value, case)]
                    if test in succeeded and succeeded.issuperset(same):
                        passed[test] = PASSED
        return passed

    def _originals(self) -> dict[str, str]:
        """Return for each id of a run the id that the test really has, '' for a control."""
        return {
            control.id_of(name, case): f"{control.test}{case}" if value == 0 else ""
            for control, order in zip(self.controls, self.orders, strict=True)
            for name, value in enumerate(order)
            for case in control.cases[value]
        }
