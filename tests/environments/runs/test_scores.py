"""pass@k, its interval, and what a summary adds up."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from etude.environments.runs.scores import estimates, pass_at_k, summarise, wilson


@pytest.mark.parametrize(("n", "c"), [(1, 0), (1, 1), (5, 2), (6, 0), (6, 6), (7, 5)])
def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_one(n: int, c: int) -> None:
    outcomes = [1] * c + [0] * (n - c)
    for k in range(1, n + 1):
        draws = list(combinations(outcomes, k))
        assert pass_at_k(n, c, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))


def test_wilson_is_the_published_interval() -> None:
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3.
    for right, trials, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson(right / trials, trials) == pytest.approx((low, high), abs=5e-5)


def test_k_doubles_up_to_the_number_of_samples() -> None:
    result = estimates([[True] * 6, [False] * 5 + [True]], 6)
    assert list(result) == ["1", "2", "4", "6"]
    assert result["1"]["value"] == pytest.approx((1 + 1 / 6) / 2)
    assert result["6"]["value"] == 1.0


def test_a_task_with_too_few_valid_samples_is_not_counted() -> None:
    result = estimates([[True, True], [False]], 2)
    assert (result["1"]["value"], result["1"]["tasks"]) == (0.5, 2)
    assert (result["2"]["value"], result["2"]["tasks"]) == (1.0, 1)
    assert estimates([], 2) == {}


def row(task_id: str, value: float, *, sample: int = 0, valid: bool = True, calls: int = 0) -> dict[str, Any]:
    usage = {
        "calls": calls,
        "prompt_tokens": 10,
        "completion_tokens": 1,
        "usd": 0.5,
        "estimated": 0,
        "context_full": False,
    }
    return {
        "task_id": task_id,
        "sample": sample,
        "cause": "" if valid else "lost",
        "reward": {"valid": valid, "value": value},
        "end": "submit" if valid else None,
        "sandbox": None,
        "usage": usage if calls else {},
    }


def test_a_summary_counts_what_was_spent_on_episodes_that_were_played_again(tmp_path: Path) -> None:
    rows = [row("a", 1.0, calls=2), row("a", 0.0, sample=1, calls=3), row("b", 0.0, sample=1, valid=False, calls=1)]
    summary = summarise("x", rows, [*rows, row("a", 0.0, valid=False, calls=4)], 2, "out")
    assert (summary.episodes, summary.valid, summary.solved, summary.reward, summary.ok) == (3, 2, 1, 0.5, False)
    assert summary.failures == {"b (sample 1)": "lost"}
    assert (summary.usage["calls"], summary.usage["usd"]) == (10, 2.0)
    assert summary.ends == {"none": 1, "submit": 2}


def test_usage_is_empty_for_agents_without_a_model() -> None:
    assert summarise("oracle", [row("a", 1.0)], [row("a", 1.0)], 1, "out").usage == {}
