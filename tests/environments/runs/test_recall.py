"""Recall: the difference in solve rate between tasks and their renamed twins."""

from __future__ import annotations

from typing import Any

import pytest

from etude.environments.runs.recall import recall_rates


def row(task: str, value: float, valid: bool = True) -> dict[str, Any]:
    return {"task_id": task, "reward": {"value": value, "valid": valid}}


TWINS = {"a2": "a", "b2": "b", "c2": "c"}


def test_the_difference_is_the_mean_over_pairs_that_were_played_on_both_sides() -> None:
    rows = [row("a", 1.0), row("a", 1.0), row("a2", 1.0), row("a2", 0.0), row("b", 1.0), row("b", 0.0)]
    rows += [row("b2", 0.0), row("b2", 0.0), row("c", 1.0), row("other", 1.0)]
    rates = recall_rates(rows, TWINS)
    assert (rates["pairs"], rates["rate"], rates["twin_rate"]) == (2, 0.75, 0.25)
    assert rates["difference"] == pytest.approx(0.5)
    assert -1 <= rates["low"] < 0.5 < rates["high"] <= 1


def test_the_interval_excludes_zero_when_many_pairs_differ() -> None:
    twins = {f"t{n}": f"o{n}" for n in range(60)}
    rows = [row(f"o{n}", float(n % 4 > 0)) for n in range(60)] + [row(f"t{n}", float(n % 4 == 3)) for n in range(60)]
    rates = recall_rates(rows, twins)
    assert rates["difference"] == pytest.approx(0.5) and rates["low"] > 0.2


def test_spoiled_episodes_do_not_count() -> None:
    assert recall_rates([row("a", 1.0), row("a2", 0.0, valid=False)], TWINS) == {}
    assert recall_rates([row("a", 1.0)], {}) == {}
