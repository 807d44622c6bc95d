"""Rollouts as the records of atropos and rLLM, which have a slot for the reward of each turn, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...rollouts.rollout import Rollout
from .turns import turn_rewards

MASKED = -100
"""Value of atropos' masks at the ids that are not learned from."""


def atropos_group(rollouts: Sequence[Rollout]) -> dict[str, list[Any]]:
    """Return a ``ScoredDataGroup`` of atropos; each assistant's message has its turn's ``reward``."""
    group: dict[str, list[Any]] = {"tokens": [], "masks": [], "scores": [], "messages": []}
    for rollout in (one for one in rollouts if one.reward.valid):
        learned = [0] * rollout.prompt + rollout.mask
        credit = iter(turn_rewards(rollout.error_turns, len(rollout.turns)))
        group["tokens"].append(rollout.ids)
        group["masks"].append([token if learn else MASKED for token, learn in zip(rollout.ids, learned, strict=True)])
        group["scores"].append(rollout.reward.value)
        rewarded = [_turn(m, next(credit)) if m["role"] == "assistant" else m for m in rollout.messages]
        group["messages"].append(rewarded)
    return group


def _turn(message: Mapping[str, Any], reward: float) -> dict[str, Any]:
    """Return an action as a message with ``content``, which atropos' API requires, and its turn's ``reward``."""
    return {"content": message.get("text") or "", **{k: v for k, v in message.items() if k != "text"}, "reward": reward}


def rllm_steps(rollout: Rollout) -> list[dict[str, Any]] | None:
    """Return the fields of a ``Step`` of rLLM for each turn; the grade is the ``reward`` of their ``Trajectory``."""
    credit, cut = turn_rewards(rollout.error_turns, len(rollout.turns)), rollout.prompt
    steps = []
    for turn, reward in zip(rollout.turns, credit, strict=True):
        logprobs = rollout.logprobs[turn.start - cut : turn.end - cut]
        step = {"prompt_ids": rollout.ids[: turn.start], "response_ids": rollout.ids[turn.start : turn.end]}
        steps.append({**step, "logprobs": logprobs, "reward": reward, "done": turn is rollout.turns[-1]})
    return steps if rollout.reward.valid else None
