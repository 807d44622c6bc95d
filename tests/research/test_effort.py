"""Study of effort: its dialogues, its measures, and tables that are those of the recorded rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from etude.environments.drill.tasks import default_drills
from etude.research.effort.dialogues import dialogues, with_verb
from etude.research.effort.runs import held_out, learned, mean_interval
from etude.research.effort.study import slope_ratio, token_ratio, verdict_of


def test_dialogues_are_the_same_for_the_same_seed_and_end_with_an_answer() -> None:
    rows = list(dialogues(40))
    assert rows == list(dialogues(40))
    assert rows != list(dialogues(40, seed=1))
    answers = [json.dumps(row["messages"][-2]["tool_calls"][0]["function"]) for row in rows]
    assert all('"submit"' in answer for answer in answers)
    right = [default_drills().drill(row["task_id"]).answer in answer for row, answer in zip(rows, answers, strict=True)]
    assert 10 < sum(right) < 40


def test_dialogues_waste_calls_that_have_worked() -> None:
    repeats = 0
    for row in dialogues(40):
        calls = [m["tool_calls"][0]["function"] for m in row["messages"] if m["role"] == "assistant"]
        repeats += sum(before == after for before, after in zip(calls, calls[1:], strict=False))
    assert repeats > 10


def test_with_verb_replaces_a_verb_of_two_words() -> None:
    assert with_verb("car_due_date_look_up", "get") == "car_due_date_get"
    assert with_verb("look_up_car_due_date", "get") == "get_car_due_date"
    with pytest.raises(ValueError, match="has no reading verb"):
        with_verb("submit", "get")


def test_learned_tasks_are_no_held_out_ones() -> None:
    tasks = learned("verbs", (1, 2, 3), 1, 30)
    assert {name.rpartition("-l")[2] for name in tasks} == {"1", "2", "3"}
    assert not set(tasks) & {name for level in (1, 2, 3) for name in held_out("verbs", level, 500)}
    assert tasks != learned("verbs", (1, 2, 3), 2, 30)


def test_mean_interval_is_students() -> None:
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert (low, high) == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5))


def row(*tokens: float) -> dict[str, Any]:
    return {"sets": {f"level {level}": {"tokens": value} for level, value in enumerate(tokens, 1)}}


def test_ratios_compare_levels() -> None:
    assert token_ratio(row(10, 20, 30), row(40, 40, 40)) == 0.25
    assert slope_ratio(row(10, 40, 60), row(10, 20, 30)) == 2.0


def test_verdict_needs_the_whole_interval_on_one_side() -> None:
    verdicts = [verdict_of(0.1, 0.2, side, bound) for side in ("above", "below") for bound in (0.0, 0.15, 0.3)]
    assert verdicts == ["supported", "open", "refuted", "refuted", "open", "supported"]
