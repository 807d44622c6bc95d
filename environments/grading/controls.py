"""Negative controls: hidden tests with one expected value changed, which a right solution has to fail.

pytest runs tests and the code under test in one process, so that code can forge what pytest reports: by a replaced
report, by an object that equals everything, by the expected value that it reads in the calling frame. Such a forgery
passes a control as it passes the test itself. Nothing in the process says which of the two it is beside: a draw for
each grade decides in which run a test is changed. When a task is validated, its own solution shows that it fails each
control (``generators/validation/checks/controls.py``).
"""

from __future__ import annotations

import base64
import functools
import json
import random
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import GraderError
from ...models import Task
from ..snapshots.test_run.test_runner import TestRun

COMPONENT = "controls"
PASSED = "passes although its expected value was changed"


@dataclass(frozen=True)
class Control:
    """One change of one test function: the bytes from ``start`` to ``end`` of its file become ``text``."""

    test: str
    """Id of the function, without parameters."""
    start: int
    end: int
    text: str
    fails: tuple[str, ...]
    """Ids of the function's tests, after the change, that the task's own solution fails."""
    passes: tuple[str, ...] = ()
    """Those that it still passes: other parameters."""

    @property
    def path(self) -> str:
        """Return the file of the test."""
        return self.test.partition("::")[0]


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
            Control(**{**item, "fails": tuple(item["fails"]), "passes": tuple(item["passes"])}) for item in fields
        )
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise GraderError("the task's controls are damaged; make the task again") from error


def drawn_parts(controls: Sequence[Control], choice: random.Random) -> list[list[Control]]:
    """Return the controls of each further run of one grade: two halves, drawn at random; one run for one control.

    So every test is changed once, and code beside a test cannot know in which of the runs.
    """
    shuffled = choice.sample(list(controls), len(controls))
    middle = (len(shuffled) + choice.randint(0, 1)) // 2
    return [part for part in (shuffled[:middle], shuffled[middle:]) if part]


def changed_files(tree: Path, controls: Sequence[Control], chosen: Sequence[Control]) -> dict[str, bytes]:
    """Return the files of all controls, with the changes of the ``chosen`` ones, by path. Raises OSError.

    A run without controls writes these files too: their times would distinguish it from one with some.
    """
    files = {path: (tree / path).read_bytes() for path in sorted({control.path for control in controls})}
    for control in sorted(chosen, key=lambda item: item.start, reverse=True):  # later spans keep their place
        source = files[control.path]
        files[control.path] = source[: control.start] + control.text.encode() + source[control.end :]
    return files


def requested_tests(task: Task, controls: Sequence[Control]) -> list[str]:
    """Return the tests of a run with some controls: as many as without, in an order that does not depend on them."""
    replaced = {control.test: control for control in controls}
    tests: set[str] = set()
    files: dict[str, None] = {}
    for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]:
        control = replaced.get(test.partition("[")[0])
        tests.update([test] if control is None else [*control.fails, *control.passes])
        files[test.partition("::")[0]] = None
    if not task.pytest.controls:
        return [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]
    position = {path: number for number, path in enumerate(files)}
    return sorted(tests, key=lambda test: (position[test.partition("::")[0]], test))


def unexpected(task: Task, controls: Sequence[Control], run: TestRun) -> dict[str, str]:
    """Return the tests of a run with controls that ended otherwise than the task's own solution, with the reason.

    The submission has passed all tests before.
    """
    must_fail = {test for control in controls for test in control.fails}
    wrong: dict[str, str] = {}
    for test in requested_tests(task, controls):
        outcome = run.outcomes.get(test)
        passed = outcome is not None and outcome.outcome == "passed"
        if passed and test in must_fail:
            wrong[test] = PASSED
        elif not passed and test not in must_fail:
            wrong[test] = f"fails when it runs again: {outcome.message if outcome else run.cause or 'not run'}"[:300]
    if not wrong and not run.complete:
        wrong[controls[0].test] = f"the run with changed tests is not complete: {run.cause}"[:300]
    return wrong
