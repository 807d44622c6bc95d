"""The penalty for overlong responses counts what the policy sampled, and no output of tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.made_up_rollouts import ROOM, made_up, unplayed

from etude.trainers.rollouts.rollout import Rollout, Span


def with_output(task: str, sampled: int, output: int) -> Rollout:
    """Return a solved rollout: a prompt of 4 ids, two turns of ``sampled`` ids together, ``output`` ids between."""
    first, second = sampled // 2, sampled - sampled // 2
    start = 4 + first + output
    ids = [3 + place % 80 for place in range(start + second)]
    spans = [Span(4, 4, 4 + first), Span(start, start, start + second)]
    return replace(made_up(1.0, task), ids=ids, turns=spans)


@pytest.mark.parametrize(
    ("sampled", "output", "penalty"), [(10, 0, 0.0), (10, 50, 0.0), (48, 0, 0.0), (54, 0, -0.5), (54, 6, -0.5)]
)
def test_reward_falls_with_sampled_ids_alone(sampled: int, output: int, penalty: float, tmp_path: Path) -> None:
    """DAPO's penalty begins at 0.8 of the room of 60 ids that the prompt leaves: at 48."""
    assert ROOM == 64

    def invent(task: str, number: int) -> Rollout:
        return with_output(task, sampled, output) if number % 2 else replace(made_up(0.0, task), truncated=False)

    trainer = unplayed(tmp_path, "dapo", invent, max_steps=1, tasks=4)
    try:
        trainer.train()
        rewards = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    finally:
        trainer.close()
    assert rewards == [pytest.approx((1.0 + penalty) / 2)]
