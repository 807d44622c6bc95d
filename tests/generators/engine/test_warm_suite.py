"""Trials of many changes in one process: the same outcomes as in processes of their own, or an honest refusal."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from helpers.deleted_total import PROJECT, snapshot_of

from etude.environments.snapshots import Snapshot, scratch_tree
from etude.environments.snapshots.store.patches import make_patch
from etude.environments.snapshots.test_run.test_runner import TestRun
from etude.errors import OutOfTime
from etude.generators.engine.trials_plugin import fork, limits
from etude.generators.engine.warm_suite import Trial, TrialResult, WarmSuite
from etude.generators.python.mutants import mutants
from etude.generators.validation.measured_stages import Stages, fails, failure_text

CORE = """\
import functools

STEP = 2
TABLE = [number * STEP for number in range(4)]


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        wrapper.calls += 1
        return function(*args)

    wrapper.calls = 0
    return wrapper


def first(values):
    return values[0]


FIRST = first([7, 8])


@logged
def scaled(value, factor=3):
    if value < 0:
        return 0
    return value * factor


class Counter:
    def __init__(self):
        self.count = 0

    @property
    def double(self):
        return self.count + self.count

    @classmethod
    def of(cls, count):
        counter = cls()
        counter.count = count
        return counter

    def down(self):
        while self.count > 0:
            self.count -= 1
        return [self.count for _ in range(2)]


def pairs(values):
    def pair(value):
        return value, value + 1

    return [pair(value) for value in values]
"""
TESTS = """\
import pytest

from abacus.core import FIRST, TABLE, Counter, first, pairs, scaled


@pytest.fixture(scope="module")
def count():
    return 3


@pytest.fixture
def counter(count):
    return Counter.of(count)


def test_scaled():
    assert scaled(2) == 6
    assert scaled(-1) == 0
    assert scaled.calls >= 2


def test_table():
    assert TABLE[1] == 2 and FIRST == first([7])


def test_double(counter):
    assert counter.double == 6


def test_down(counter):
    assert counter.down() == [0, 0]


def test_pairs():
    assert pairs([1, 2]) == [(1, 2), (2, 3)]
"""
FILES = {
    "pyproject.toml": PROJECT.format(name="abacus"),
    "src/abacus/__init__.py": "",
    "src/abacus/core.py": CORE,
    "src/abacus/late.py": "def late():\n    return 1\n",
    "tests/test_core.py": TESTS + "\n\ndef test_late():\n    from abacus.late import late\n\n    assert late() == 1\n",
}
MODULE = "src/abacus/core.py"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return snapshot_of(tmp_path_factory.mktemp("source") / "abacus", FILES)


def run(snapshot: Snapshot, *changes: tuple[str, str], path: str = MODULE) -> list[TrialResult]:
    """Return the results of trials that each replace one text of a file by another."""
    source = (snapshot.tree / path).read_text()
    assert all(before in source for before, _ in changes)
    trials = [
        Trial({path: source.replace(before, after).encode()}, snapshot.baseline.passed) for before, after in changes
    ]
    return asyncio.run(WarmSuite(snapshot).run(trials))


def failed(result: TrialResult) -> set[str]:
    assert result.cause == ""
    return {test.partition("::")[2] for test in result.others}


def test_changed_functions_methods_and_closures_take_effect(snapshot: Snapshot) -> None:
    results = run(
        snapshot,
        ("value * factor", "value + factor"),
        ("self.count + self.count", "self.count"),
        ("counter.count = count", "counter.count = count + 1"),
        ("value + 1", "value + 2"),
    )
    assert [failed(result) for result in results] == [
        {"test_scaled"},
        {"test_double"},
        {"test_double"},
        {"test_pairs"},
    ]


def test_a_trial_leaves_nothing_behind_for_the_next(snapshot: Snapshot) -> None:
    change = ("counter.count = count", "Counter.double = property(lambda self: 0)\n        counter.count = count")
    results = run(snapshot, change, ("return value * factor", "return factor * value"))
    assert failed(results[0]) == {"test_double"}
    assert failed(results[1]) == set()


def test_outcomes_say_how_a_test_failed(snapshot: Snapshot) -> None:
    (result,) = run(snapshot, ("return value * factor", "raise KeyError(value)"))
    outcome = result.others["tests/test_core.py::test_scaled"]
    assert (outcome.outcome, outcome.when, outcome.exception, outcome.message) == ("failed", "call", "KeyError", "2")


def test_a_change_outside_of_function_bodies_is_refused(snapshot: Snapshot) -> None:
    results = run(
        snapshot,
        ("STEP = 2", "STEP = 3"),
        ("factor=3", "factor=4"),
        ("number * STEP", "number + STEP"),
        ("@property", "@functools.cached_property"),
        ("wrapper.calls += 1", "wrapper.calls -= 1"),
        ("return values[0]", "return values[-1]"),
    )
    assert [result.cause.partition(":")[0] for result in results] == ["not swappable"] * 6
    assert "runs while the package is imported" in results[-1].cause
    assert all(result.noticed is None for result in results)


@pytest.mark.parametrize(
    ("after", "is_refused"),
    [
        ("    return values[0]\n", False),
        ("    values = [1]\n    return values[0]\n", True),
        ("    return values[0]\n    return values[1]\n", True),
        ("", True),
    ],
)
def test_a_function_that_runs_at_import_is_refused_when_its_body_gains_or_loses_a_line(
    snapshot: Snapshot, after: str, is_refused: bool
) -> None:
    content = CORE.replace("    return values[0]\n", after).encode()
    assert bool(WarmSuite(snapshot).refusal({MODULE: content})) is is_refused


def test_a_module_that_only_a_test_imports_is_refused(snapshot: Snapshot) -> None:
    (result,) = run(snapshot, ("return 1", "return 2"), path="src/abacus/late.py")
    assert "is not imported before the tests run" in result.cause


def test_a_loop_without_end_and_an_early_exit_count_as_noticed(snapshot: Snapshot) -> None:
    exit_now = "import os; os._exit(0)"
    results = run(snapshot, ("self.count -= 1", "self.count += 1"), ("return value * factor", exit_now))
    assert [(result.cause, result.noticed) for result in results] == [("timeout", True), ("ended early", True)]


def test_a_limit_that_an_overloaded_machine_reaches_is_no_verdict(snapshot: Snapshot, monkeypatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1000.0, 1000.0, 1000.0))
    with pytest.raises(OutOfTime, match="overloaded"):
        run(snapshot, ("self.count -= 1", "self.count += 1"))


def test_tests_that_sleep_have_more_wall_time_and_no_more_cpu_time() -> None:
    job = {"extra_s": 1.0, "factor": 10.0, "control_s": 20.0}
    seconds = {"busy": [0.5, 0.5], "asleep": [0.0, 30.0]}
    assert limits(["busy"], seconds, job) == (6.0, 70.0)
    assert limits(["busy", "asleep"], seconds, job) == (6.0, 370.0)
    assert limits(["busy"], {}, job) == (20.0, 205.0)


def test_a_process_that_does_not_end_in_its_wall_time_is_stopped() -> None:
    asleep = fork(lambda: time.sleep(60) or {}, cpu_s=5.0, wall_s=0.3)
    assert asleep["cause"] == "timeout"
    assert fork(lambda: {"passed": ["a"]}, cpu_s=5.0, wall_s=30.0)["passed"] == ["a"]


def test_a_trial_whose_tests_do_not_pass_on_the_unchanged_package_proves_nothing(snapshot: Snapshot) -> None:
    source = (snapshot.tree / MODULE).read_bytes()
    trial = Trial({MODULE: source}, ["tests/test_core.py::test_that_does_not_exist"])
    assert asyncio.run(WarmSuite(snapshot).run([trial]))[0].cause == "unsteady"


def test_failing_tests_of_a_large_file_do_not_use_up_the_time_of_a_trial(tmp_path: Path) -> None:
    helpers = "".join(f"\n\ndef helper_{number}(value):\n    return [value, {number}]\n" for number in range(3000))
    many = "\n\n@pytest.mark.parametrize('n', range(100))\ndef test_many(n):\n    assert pairs([n]) == [(n, n + 1)]\n"
    test = "import pytest\n\nfrom abacus.core import pairs\n" + helpers + many
    snapshot = snapshot_of(tmp_path / "abacus", {**FILES, "tests/test_large.py": test})
    (result,) = run(snapshot, ("value + 1", "value + 2"))
    assert len(failed(result)) == 101


def compare(snapshot: Snapshot, changed: list[bytes]) -> int:
    """Check each warm outcome against a run in a process of its own; return how many were conclusive."""
    trials = [Trial({MODULE: source}, snapshot.baseline.passed) for source in changed]
    results = asyncio.run(WarmSuite(snapshot).run(trials))
    conclusive = [(source, result) for source, result in zip(changed, results, strict=True) if not result.cause]
    for source, result in conclusive:
        cold = asyncio.run(cold_run(snapshot, source))
        warm = result.as_run()
        failing = {test: failure_text(cold, test) for test in snapshot.baseline.passed if fails(cold, test)}
        assert failing == {test: failure_text(warm, test) for test in result.others}
    return len(conclusive)


async def cold_run(snapshot: Snapshot, source: bytes) -> TestRun:
    """Return the run of all tests on a tree with this module, in a fresh sandbox."""
    patch = make_patch({MODULE: (snapshot.tree / MODULE).read_bytes()}, {MODULE: source})
    with scratch_tree(snapshot, patch) as tree:
        return await Stages(snapshot).run(tree)


def test_warm_outcomes_are_those_of_processes_of_their_own(snapshot: Snapshot) -> None:
    changed = [mutant.source for mutant in mutants(CORE.encode(), range(1, 60))]
    assert compare(snapshot, changed[::4]) >= 5


MANY = "".join(
    f"""
def part{number}(values, limit={number}):
    total = 0
    for value in values:
        if value > limit and value % 2 == 0 or value < -limit:
            total += value * {number} - limit
        elif not value:
            return total // 2
    return total
"""
    for number in range(10)
)


@pytest.mark.slow
def test_two_hundred_verdicts_are_those_of_processes_of_their_own(snapshot: Snapshot, tmp_path: Path) -> None:
    checks = "".join(
        f"""

def test_part{number}():
    assert part{number}([20, -30, 7]) == {sum(v * number - number for v in (20, -30))}
    assert part{number}([40, 0, 5]) == {(40 * number - number) // 2}
"""
        for number in range(10)
    )
    files = {**FILES, MODULE: CORE + MANY, "tests/test_core.py": f"from abacus.core import *\n{checks}{TESTS}"}
    larger = snapshot_of(tmp_path / "abacus", files)
    sources = [mutant.source for mutant in mutants((CORE + MANY).encode(), range(60, 200))]
    assert compare(larger, sources[:220]) >= 200
