"""A rollout as the records of verl, slime and AReaL, by their documented fields, as plain values.

The rollout has the ids as they were sampled, so that nothing is tokenised again. An invalid rollout has no record.
"""

from __future__ import annotations

from typing import Any

from ...rollouts.rollout import Rollout
from .turns import turn_rewards


def verl_fields(rollout: Rollout) -> dict[str, Any] | None:
    """Return the fields of verl's ``AgentLoopOutput`` except ``metrics``; without a score None: play again."""
    fields: dict[str, Any] = {
        "prompt_ids": rollout.ids[: rollout.prompt],
        "response_ids": rollout.ids[rollout.prompt :],
    }
    fields |= {"response_mask": rollout.mask, "response_logprobs": rollout.logprobs or None}
    fields |= {
        "reward_score": rollout.reward.value,
        "num_turns": 2 * len(rollout.turns),  # as verl counts: the prompt and the answers between turns, too
        "extra_fields": annotated(rollout),
    }
    return fields if rollout.reward.valid else None


def slime_fields(rollout: Rollout) -> dict[str, Any]:
    """Return attributes of slime's ``Sample``; ``status`` is a value of its enumeration, without a score aborted."""
    status = "truncated" if rollout.truncated else "completed"
    fields: dict[str, Any] = {
        "tokens": rollout.ids,
        "response_length": len(rollout.ids) - rollout.prompt,
        "loss_mask": rollout.mask,
    }
    fields |= {"rollout_log_probs": rollout.logprobs or None, "metadata": annotated(rollout)}
    if not rollout.reward.valid:
        return fields | {"reward": None, "status": "aborted", "remove_sample": True}
    return fields | {"reward": rollout.reward.value, "status": status, "remove_sample": False}


def areal_fields(rollout: Rollout) -> dict[str, list[Any]] | None:
    """Return what AReaL's ``arun_episode`` returns, as lists to be made tensors; without a score None, a rejection."""
    before, length = [0] * rollout.prompt, len(rollout.ids)
    fields: dict[str, Any] = {
        "input_ids": [rollout.ids],
        "loss_mask": [before + rollout.mask],
        "rewards": [rollout.reward.value],
    }
    fields |= {"logprobs": [before + rollout.logprobs], "attention_mask": [[1] * length], "versions": [[-1] * length]}
    return fields if rollout.reward.valid else None


def annotated(rollout: Rollout) -> dict[str, Any]:
    """Return the rewards of the turns and the error turns, for the free field that each record has."""
    errors = [error.model_dump(mode="json") for error in rollout.error_turns]
    return {"turn_rewards": turn_rewards(rollout.error_turns, len(rollout.turns)), "error_turns": errors}
