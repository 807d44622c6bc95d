"""What a spawned process needs by its module's name."""

from __future__ import annotations

from typing import Any


def played(factory: Any, task: Any, calls: Any) -> Any:
    session = factory().create(task, seed=0, episode_id="spawned")
    results = [session.call_tool(*call) for call in calls]
    verified = session.verify([])
    session.close()
    return verified.env_reward, verified.artifacts["episode_id"], [result.done for result in results]
