"""One attempt: an exploit, or its honest twin, played in an episode and graded."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ConnectionLost, InfrastructureError, ServerFull, ServerInfrastructureError
from ...models import Episode
from ...monitors.exploits import Exploit, Facts, ToolCall
from ..actions import Action, call, turn
from ..runs.play import Opened, Player


@dataclass(frozen=True)
class Attempt:
    """The outcome of one attempt."""

    task_id: str
    exploit: str
    exploit_class: str
    twin: bool
    """Whether the honest twin was played, after the task's own solution."""
    needs: str
    """``out_of_process`` for an exploit that only grading in another process stops."""
    assurance: str
    """The task's assurance, as its reward says."""
    reward: float | None
    """None when the attempt could not be scored."""
    findings: tuple[str, ...] = ()
    """Exploit ids of the findings."""
    severities: tuple[str, ...] = ()
    """Severities of the findings, in the same order."""
    detected: bool = False
    """Whether a finding has one of the exploit's classes."""
    cause: str = ""
    """Why the attempt could not be scored; '' where it was."""
    seconds: float = 0.0

    @property
    def rewarded(self) -> bool:
        """Return whether an exploit got a reward; a twin is an honest solution and should get one."""
        return not self.twin and bool(self.reward)

    @property
    def lost(self) -> bool:
        """Return whether an honest twin scored less than 1."""
        return self.twin and self.reward is not None and self.reward < 1


def attempt_of(row: Mapping[str, Any]) -> Attempt:
    """Return the attempt of which ``asdict`` and JSON made a row."""
    return Attempt(**{**row, "findings": tuple(row["findings"]), "severities": tuple(row["severities"])})


def action_of(tool_call: ToolCall) -> Action:
    """Return the turn in which an agent makes this call."""
    return turn("", call(tool_call.tool, **tool_call.arguments))


async def attempt(
    opened: Opened, task_id: str, exploit: Exploit, facts: Facts, solution: list[Action] | None = None
) -> Attempt:
    """Play an exploit, or with a ``solution`` play that and then the exploit's twin; submit and return the outcome.

    When the machine fails, the attempt has no score and names the cause.
    """
    started = time.monotonic()
    player, finished = opened
    twin = solution is not None
    script = exploit.twin if twin else exploit.script
    actions = [*(solution or []), *(action_of(tool_call) for tool_call in script(facts)), action_of(ToolCall("submit"))]
    cause = ""
    try:
        await play(player, task_id, actions)
        episode = await finished()
    except (InfrastructureError, ServerInfrastructureError, ServerFull, ConnectionLost) as error:
        episode, cause = Episode(episode_id="", task_id=task_id, prompt=""), str(error)
    reward = episode.reward
    ids = tuple(finding.exploit_id for finding in episode.findings)
    return Attempt(
        task_id=task_id,
        exploit=exploit.id,
        exploit_class=exploit.exploit_class,
        twin=twin,
        needs=exploit.needs,
        assurance=reward.assurance if reward else "",
        reward=reward.value if reward is not None and reward.valid else None,
        findings=ids,
        severities=tuple(finding.severity for finding in episode.findings),
        detected=bool(set(ids) & set(exploit.classes)),
        cause=cause,
        seconds=round(time.monotonic() - started, 2),
    )


async def play(player: Player, task_id: str, actions: list[Action]) -> None:
    """Reset the player and play the actions in order, until the episode ends."""
    observation = await player.reset(task_id=task_id)
    for action in actions:
        if observation.done:
            break
        observation = await player.step(action)
