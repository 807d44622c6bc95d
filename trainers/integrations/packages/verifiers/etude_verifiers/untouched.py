"""The grade of verifiers' ``nemo-gym`` taskset, extended to tasks that no agent has touched.

The noop check of `vf-validate` (0.4) scores such tasks, but the original grade refuses a trace without a branch before
it asks the server. The server grades an untouched session like any other, so this grade asks it:

    [taskset.task.rewards]
    nemo_gym = { fn = "etude_verifiers.untouched:grade" }
"""

from __future__ import annotations

import verifiers.v1 as vf
from verifiers.v1.tasksets.nemo_gym import NeMoGymData, NeMoGymTask


async def grade(task: NeMoGymData, trace: vf.Trace) -> float:
    """Return the server's reward. Raises httpx.HTTPStatusError when the machine failed, so that there is no score."""
    if trace.branches:
        return float(await NeMoGymTask(task).nemo_gym(trace))
    answer = await trace.state.post("verify", {**task.row, "response": None})
    answer.raise_for_status()
    return float(answer.json()["reward"])
