"""Texts in tests and docstrings give held-out arguments shapes that a function's own tests do not show."""

from __future__ import annotations

import random

from etude.environments.grading.out_of_process.held_out.inputs import held_out_calls
from etude.environments.grading.out_of_process.held_out.literals import alike, character_kinds, literals
from etude.environments.grading.out_of_process.held_out.variation import stretched
from etude.environments.snapshots import Snapshot
from etude.environments.tasks.task_trees import Materials
from etude.models import Task


def test_the_texts_of_a_task_are_short_and_sorted(task: Task, snapshot: Snapshot) -> None:
    texts = literals(task, Materials(task, snapshot))
    assert texts == sorted(set(texts)) and all(1 < len(text) <= 60 for text in texts)


def test_texts_of_the_same_kinds_of_characters_are_alike() -> None:
    assert character_kinds(">=1.2") == {">", "=", "0", "."}
    assert alike(">=1.2", ["1.0.0-rc.1", "total of", "a=b"]) == ["1.0.0-rc.1"]


def test_the_end_of_a_longer_text_is_added_to_one_that_begins_alike() -> None:
    texts = {stretched(">=2.3.7", ["1.0.0-rc.1+build"], random.Random(seed)) for seed in range(100)}
    assert ">=2.3.7-rc.1+build" in texts and ">=1.0.0-rc.1+build" in texts
    assert not any(
        "-rc" in text
        for text in (stretched(">=2.3", ["1-rc.1"], random.Random(n)) for n in range(9))
        if "2.3-rc" in text
    )


def test_bold_calls_are_proposed_where_they_are_wanted() -> None:
    answer = {"result": True, "after": None, "error": None, "printed": ""}
    state = [["g", "m", "Version"]]
    version = ["o", 1, ["new", *state], [], ["D", [["major", 2]]], None, None]
    calls = [{"target": "m:Version.match", "arguments": [version, ">=2.3.7"], "keywords": {}, "answer": answer}]
    modest = held_out_calls([calls], random.Random(1), False)["m:Version.match"]
    both = held_out_calls([calls], random.Random(1), True, ["1.0.0-rc.1"])["m:Version.match"]
    assert not any("is_bold" in call for call in modest)
    bold = [call for call in both if "is_bold" in call]
    assert any(call["arguments"][1] == ">=2.3.7-rc.1" for call in bold)
    assert all(call["arguments"][0][2:] == version[2:] for call in both), "what an object holds stays together"
    numbers = [call["arguments"][0][1] for call in both]
    assert len(set(numbers)) == len(numbers), "each call has objects of its own"
