"""The grade of verifiers' stock ``nemo-gym`` taskset, also for a task that no agent has touched.

The noop check of `vf-validate` (0.4) scores such tasks, and the stock grade refuses a trace without a branch before it
asks any server. A server answers for an untouched session like for any other, so this one asks:

    [taskset.task.rewards]
    nemo_gym = { fn = "etude_verifiers.untouched:grade" }
"""

from __future__ import annotations

import verifiers.v1 as vf
from verifiers.v1.tasksets.nemo_gym import NeMoGymData, NeMoGymTask


async def grade(task: NeMoGymData, trace: vf.Trace) -> float:
    """The server's reward. Raises httpx.HTTPStatusError when the machine failed, so that no score is recorded."""
    if trace.branches:
        return float(await NeMoGymTask(task).nemo_gym(trace))
    answer = await trace.state.post("verify", {**task.row, "response": None})
    answer.raise_for_status()
    return float(answer.json()["reward"])
