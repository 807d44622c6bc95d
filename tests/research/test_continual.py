"""Study of forgetting: demonstrations are right in the state that the policy has reached, and SFT learns them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from helpers.scripted_policy import base

from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import default_drills
from etude.models import Reward
from etude.research.continual.arms import demonstration, demonstrations, due_call, sft
from etude.research.effort.dialogues import hint_text
from etude.trainers.rollouts.rollout import Rollout

TASK = "drill-recover-12-l1"
SOLUTION = default_drills().drill(TASK).solution()


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"role": "assistant", "text": "", "tool_calls": [{"name": name, "arguments": arguments}]}


def test_due_call_is_the_first_one_that_was_not_made() -> None:
    assert due_call(TASK, []) == SOLUTION[0]
    assert due_call(TASK, [SOLUTION[0], ("nonsense", {})]) == SOLUTION[1]
    assert due_call(TASK, SOLUTION) == ("submit", {"answer": default_drills().drill(TASK).answer})


def test_demonstrations_follow_what_the_policy_did() -> None:
    """A refused call that is made again, or a malformed one, leaves the next call due."""
    first = SOLUTION[0]
    messages = [call(*first), call(*first), call("broken", "{"), call(*SOLUTION[1])]
    rollout = Rollout(TASK, "e", [], 0, [], [], Reward(value=0.0), "submit", messages=messages)
    errors = demonstrations(rollout)
    assert [error.turn for error in errors] == [0, 1, 2, 3]
    assert [error.hints[0].text for error in errors] == [hint_text(first), *[hint_text(SOLUTION[1])] * 3]


def test_demonstration_solves_its_task() -> None:
    row = asyncio.run(demonstration(TASK))

    async def replay() -> float:
        session = DrillSession(default_drills())
        await session.reset(task_id=TASK)
        for message in row["messages"]:
            if message["role"] == "assistant":
                await session.step({"text": "", "tool_calls": message["tool_calls"]})
        reward = session.state().reward
        assert reward is not None
        return reward.value

    assert asyncio.run(replay()) == 1.0


def test_sft_lowers_the_loss_of_its_demonstrations(tmp_path: Path) -> None:
    losses = sft(base(tmp_path / "base"), tmp_path / "out", [TASK] * 6, rate=3e-3, steps=6)
    assert losses[-1] < losses[0] - 0.5
    assert (tmp_path / "out" / "config.json").is_file()
