"""Functions that a spawned process imports by name."""

from __future__ import annotations

from typing import Any


def play(new_factory: Any, task: Any, calls: Any) -> Any:
    """Play the calls, and return the reward, the episode's id and whether each call ended it."""
    session = new_factory().create(task, seed=0, episode_id="spawned")
    results = [session.call_tool(*call) for call in calls]
    verified = session.verify([])
    session.close()
    return verified.env_reward, verified.artifacts["episode_id"], [result.done for result in results]


def play_alone(new_factory: Any, task: Any) -> Any:
    """Let the session play its episode, and return how it ended, its reward and its nodes."""
    factory = new_factory()
    session = factory.create(task, seed=0, episode_id="spawned")
    ended = session.wait_for_completion()
    trace = session.fetch_training_trace()
    reward = session.verify([]).env_reward
    factory.close()
    return ended, reward, [turn.node_id for turn in trace.turns]
