"""The order of the work: each candidate gets one verdict, and a queue is never fuller than it may be."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest
from helpers.light_checks import LIGHT
from helpers.paths import DATA

from etude.environments.snapshots import SnapshotOptions
from etude.errors import GeneratorError
from etude.generators.curriculum.selection import select
from etude.generators.knob_parsing import parse_knobs, select_knobs
from etude.generators.library.deletion.function import FunctionDeletion
from etude.generators.machines import checking, steps
from etude.generators.machines.checking import Step, verdicts
from etude.generators.machines.records import Built, Settings, Work
from etude.generators.validation.checks.final_checks import CheckKnobs

SETTINGS = Settings("auto", parse_knobs(CheckKnobs, select_knobs(CheckKnobs, LIGHT)))


class HereQueue:
    """A queue that runs each step in this process when its result is asked for."""

    def __init__(self, most: int) -> None:
        self.most, self.waiting, self.longest = most, deque[Step](), 0
        self.groups: list[int] = []  # sizes of the groups that were judged together

    def processors(self) -> int:
        return 2

    def has_room(self) -> bool:
        return len(self.waiting) < self.most

    def is_empty(self) -> bool:
        return not self.waiting

    def submit(self, step: Step) -> None:
        self.waiting.append(step)
        self.groups += [len(step.keys)] if step.run is steps.judge else []
        self.longest = max(self.longest, len(self.waiting))

    def next_done(self) -> tuple[Step, steps.Done]:
        step = self.waiting.pop()
        return step, steps.timed(step.run, step.built, *step.arguments)


@pytest.fixture(scope="module")
def built() -> Built:
    return steps.build(str(DATA / "scales"), SnapshotOptions())[0]


def works(built: Built) -> Iterator[Work]:
    plan = select([FunctionDeletion()], {"min_lines": 3}, count=3, seed=7)
    proposals = steps.propose(built, plan)
    assert proposals.unfit == {} and proposals.failed == {}
    yield Work(built, {f"key {number}": candidate for number, candidate in enumerate(proposals.candidates)})


def test_each_candidate_gets_one_verdict_when_the_queue_is_short(built, monkeypatch):
    monkeypatch.setattr(checking, "BATCH", 2)
    queue = HereQueue(2)
    judged = list(verdicts(works(built), queue, SETTINGS))
    assert sorted(item.key for item in judged) == ["key 0", "key 1", "key 2"]
    assert queue.longest == 2
    assert all(item.cpu_seconds > 0 for item in judged)


def test_a_group_is_small_enough_that_every_processor_gets_one(built):
    queue = HereQueue(9)
    assert len(list(verdicts(works(built), queue, SETTINGS))) == 3
    assert queue.groups == [2, 1]


def test_groups_are_as_large_as_the_cost_of_the_last_one_allows():
    survivors = checking.Survivors()
    survivors.add([(f"key {number}", None) for number in range(120)], processors=2)
    sizes = []
    for cost in (None, 0.0, 3.0, 14.0, 200.0):
        survivors.cost = cost
        sizes.append(len(survivors.group()))
    assert sizes == [4, 32, 20, 4, 1]
    assert [key for key, _ in survivors.group()] == ["key 61"]


def test_slow_candidates_are_judged_in_small_groups(built, monkeypatch):
    monkeypatch.setattr(checking, "FIRST_GROUP", 1)
    monkeypatch.setattr(checking, "GROUP_SECONDS", 0.001)
    queue = HereQueue(1)
    assert len(list(verdicts(works(built), queue, SETTINGS))) == 3
    assert queue.groups == [1, 1, 1]


def test_a_snapshot_is_refused_when_other_tests_pass_on_this_machine(built):
    other = Built(built.source, built.reference, built.passing_tests + 1, "another digest")
    with pytest.raises(GeneratorError, match=f"scales 1.2.0 passes {built.passing_tests} tests on one machine"):
        steps.opened(other)
