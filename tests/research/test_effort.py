"""Study of effort: its dialogues, its measures, and tables and picture that are those of the recorded rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from etude.environments.drill.tasks import default_drills
from etude.research.effort.curve import series, svg
from etude.research.effort.dialogues import dialogues, with_verb
from etude.research.effort.runs import held_out, learned, mean_interval
from etude.research.effort.study import ARMS, SETS, complete_arms, read_rows, slope_ratio, token_ratio, verdict_of


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


def test_arm_with_fewer_seeds_is_left_out_of_the_tables() -> None:
    rows = [{"arm": arm, "seed": seed} for arm in ("off", "light") for seed in (1, 2)]
    assert complete_arms([*rows, {"arm": "heavy", "seed": 1}]) == ["off", "light"]
    assert complete_arms([*rows, *({"arm": "heavy", "seed": seed} for seed in (1, 2))]) == ["off", "light", "heavy"]


def test_tables_are_those_of_the_rows(root: Path) -> None:
    folder = root / "research" / "effort"
    command = [sys.executable, str(folder / "study.py"), "--out", str(folder), "--print"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (folder / "RESULTS.md").read_text()
    tables = [line for line in printed.splitlines() if line]
    assert len(tables) >= 30
    assert all(line in page for line in tables)


def test_picture_is_that_of_the_rows(root: Path) -> None:
    folder = root / "research" / "effort"
    rows = read_rows(folder / "rows.jsonl")
    text = (folder / "curve.svg").read_text()
    assert text == svg(rows)
    assert ElementTree.fromstring(text).tag.endswith("svg")
    [base, *_] = series(rows)
    recorded = [next(row for row in rows if row["arm"] == "base")["sets"][level]["tokens"] for level in SETS]
    assert list(base.points) == list(zip([1.0, 2.0, 3.0], recorded, strict=True))


def test_counted_runs_are_those_of_the_registration(root: Path) -> None:
    rows = read_rows(root / "research" / "effort" / "rows.jsonl")
    made = sorted((row["arm"], row["seed"]) for row in rows if row["arm"] != "base")
    assert len(made) == len(set(made))
    assert {(arm, seed) for arm in ("off", "light") for seed in (1, 2, 3)} <= set(made)
    assert {arm for arm, _ in made} <= set(ARMS)
    assert all(cell["episodes"] == 48 for row in rows for cell in row["sets"].values())
