"""What one test must not lend another one: calls that show its result, and objects that they share."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.recorded_tasks import grade_of, task_with, with_record, without_held_out

from etude.environments.sandbox import ExecResult
from etude.environments.sandbox.backends.command_sandbox import CommandSandbox
from etude.environments.snapshots import Snapshot
from etude.models import Task

HEAD = "def largest(values):\n    return max(values)\n\n\ndef total(values):\n"
OWN = "    result = 0\n    for value in values:\n        result += value\n    return result\n"
TESTS = """from tally.core import total

SHARED = [13, 11, 12]


def test_a():
    assert total(SHARED) == 36


def test_b():
    assert total([30, 2, 4]) == sum(SHARED)


def test_c():
    assert total([1, 2]) == 3


def test_d():
    assert total([7, 2, 30, 4]) == 43


def test_e():
    assert total([70]) == 70


def test_f():
    assert total([]) == 0
"""
SPOILS = """    result = sum(values)
    if list(values) == [13, 11, 12]:
        values.clear()
    return 0 if list(values) == [30, 2, 4] else result
"""
"""The first answer empties the list that the second test adds up."""
PLURAL = "def largest(values):\n    return max(values)\n\n\nIRREGULAR = {irregular}\n\n\ndef total(word):\n"
IRREGULAR = {"ox": "oxen", "mouse": "mice", "goose": "geese", "child": "children", "tooth": "teeth"}
PLURAL_OWN = """    if word in IRREGULAR or word in IRREGULAR.values():
        return IRREGULAR.get(word, word)
    return word if word.endswith("s") else word + "s"
"""
PLURAL_TESTS = f"""import pytest
from tally.core import total

WORDS = {[*IRREGULAR.items(), ("cat", "cats"), ("dog", "dogs"), ("lamp", "lamps")]}


@pytest.mark.parametrize(("one", "many"), WORDS)
def test_one(one, many):
    assert total(one) == many


@pytest.mark.parametrize(("one", "many"), WORDS)
def test_many(one, many):
    assert total(many) == many
"""
SILENT_ONCE = """    import os, sys

    frame = sys._getframe(1)
    while frame is not None and "job" not in frame.f_locals:
        frame = frame.f_back
    if frame is not None and len(frame.f_locals["job"]["tests"]) == {group}:
        os._exit(0)
    return word if word.endswith("s") else word + "s"
"""


def task_of_body(task: Task, snapshot: Snapshot, name: str, head: str, own: str, tests: str, ids: list[str]) -> Task:
    """Return a recorded task whose function ``total`` has no body in the workspace."""
    exercise = (head + "    raise NotImplementedError\n").encode()
    hidden = [f"tests/test_hidden.py::{test}" for test in ids]
    made = task_with(task, snapshot, name, exercise, (head + own).encode(), tests, hidden, task.PASS_TO_PASS)
    return with_record(made, snapshot)


def test_an_answer_that_changes_what_a_later_test_expects_is_rejected(task: Task, snapshot: Snapshot) -> None:
    ids = [f"test_{letter}" for letter in "abcdef"]
    recorded = without_held_out(task_of_body(task, snapshot, "tally-shared", HEAD, OWN, TESTS, ids))
    grade = grade_of(recorded, (HEAD + SPOILS).encode())
    assert grade.reward.value == 0
    assert any("test_b" in failure.test for failure in grade.failures)


def test_tests_that_are_asked_apart_stay_apart_in_later_rounds(
    task: Task, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = PLURAL.format(irregular=IRREGULAR)
    words = [*IRREGULAR.items(), ("cat", "cats"), ("dog", "dogs"), ("lamp", "lamps")]
    ids = [f"test_{kind}[{one}-{many}]" for kind in ("one", "many") for one, many in words]
    recorded = task_of_body(task, snapshot, "tally-plural", head, PLURAL_OWN, PLURAL_TESTS, ids)
    jobs: list[list[str]] = []
    plain_exec = CommandSandbox.exec

    async def noted(self: CommandSandbox, *args: Any, **options: Any) -> ExecResult:
        _, start, job = (options.get("stdin") or b"").rpartition(b'{"opaque"')
        if start:
            calls = [call for calls in json.loads(start + job)["tests"].values() for call in calls]
            jobs.append([text for call in calls for text in call["arguments"] if isinstance(text, str)])
        return await plain_exec(self, *args, **options)

    monkeypatch.setattr(CommandSandbox, "exec", noted)
    silent = SILENT_ONCE.format(group=len(words))
    grade_of(recorded, (head + silent).encode())
    assert len(jobs) > 3, "the silent tests are asked again"
    assert not any("mouse" in job and "mice" in job for job in jobs)
