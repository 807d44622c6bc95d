"""What a spawned process needs by its module's name."""

from __future__ import annotations

from typing import Any


def played(factory: Any, task: Any, calls: Any) -> Any:
    session = factory().create(task, seed=0, episode_id="spawned")
    results = [session.call_tool(*call) for call in calls]
    verified = session.verify([])
    session.close()
    return verified.env_reward, verified.artifacts["episode_id"], [result.done for result in results]


def played_alone(factory: Any, task: Any) -> Any:
    made = factory()
    session = made.create(task, seed=0, episode_id="spawned")
    ended = session.wait_for_completion()
    trace = session.fetch_training_trace()
    reward = session.verify([]).env_reward
    made.close()
    return ended, reward, [turn.node_id for turn in trace.turns]
