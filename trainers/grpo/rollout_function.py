"""Functions that TRL calls for a batch of episodes: one plays them, one returns their rewards with the penalties."""

from __future__ import annotations

import time
from typing import Any

from ..distributed import sum_over_ranks
from ..rollouts.rollout import Rollout
from .effort import effort_penalties
from .objectives import overlong_penalty
from .parts import Parts


def rollout_func(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """Play a batch of episodes with an EtudeTrainer and return them in the form that TRL requires."""
    start = time.monotonic()
    trainer.sampled = trainer._play_batch()
    trainer.record_metric("seconds/playing", time.monotonic() - start)
    rollouts = trainer.sampled.rollouts
    # TRL cannot handle an empty completion: a rollout without turns gets one id, which is masked.
    filler = trainer._tokenizer.pad_token_id
    parts = trainer.parts
    trainer.effort = effort_penalties(rollouts, parts.effort, trainer._tokenizer.decode, sum_over_ranks)
    trainer.record_metrics(trainer.effort.metrics)
    shaped = zip(rollouts, trainer.effort.penalties, strict=True)
    scored = all(rollout.logprobs or not rollout.turns for rollout in rollouts)
    return {
        "prompt_ids": [rollout.ids[: rollout.prompt] for rollout in rollouts],
        "completion_ids": [rollout.ids[rollout.prompt :] or [filler] for rollout in rollouts],
        "logprobs": [rollout.logprobs or [0.0] for rollout in rollouts] if scored else None,
        "env_mask": [rollout.mask or [0] for rollout in rollouts],
        "reward": [shaped_reward(rollout, effort, parts) for rollout, effort in shaped],
    }


def shaped_reward(rollout: Rollout, effort: float, parts: Parts) -> float | None:
    """Return the reward with the penalties for length and effort; None, which TRL ignores, for an invalid episode.

    The length of a response (DAPO, arXiv:2503.14476, equation 13) is the number of ids that the policy sampled: tools'
    output is not its choice. The room is what the prompt leaves of ``max_ids``, so an episode that tools' output fills
    has no penalty; ``mask_truncated`` leaves it out of the loss where the objective says so.
    """
    if not rollout.reward.valid:
        return None
    room = parts.limits.max_ids - rollout.prompt
    return rollout.reward.value + overlong_penalty(sum(rollout.mask), room, parts.objective.overlong) + effort


def reward_func(prompts: Any, completions: Any, reward: list[float | None], **_: Any) -> list[float | None]:
    """Return the rewards that ``rollout_func`` has computed."""
    return reward
