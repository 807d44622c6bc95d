"""The turn-local loss for verl (0.9): a distillation loss that is registered as ``etude_turn_local``.

verl's policy losses see no teacher, so this is one of its distillation losses, which do. verl adds it to its policy
loss with ``distillation_loss_coef``. Conventions of verl:

- ``model_output["log_probs"]`` and ``data["teacher_logprobs"]`` are without padding, over prompt and response; row p
  belongs to token p + 1. ``no_padding_2_padding`` makes them [B, R].
- ``data["teacher_logprobs"]`` has a last axis: here of size 2, with the teacher's log-probability and the weight of
  the token's site divided by N (``teacher_fields``, after ``divide_by_step``).
- ``agg_loss`` divides by tokens, sequences or a constant of the mini-batch and multiplies by the number of
  data-parallel ranks, whose gradients are then averaged. The losses are multiplied by what it divides by, so that any
  ``loss_agg_mode`` gives the same sum over the sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..distillation.distiller import Settings
from .site_scores import SiteScores
from .turn_local import SAMPLED, token_losses

NAME = "etude_turn_local"
"""Name in ``distillation.distillation_loss.loss_mode``."""


def register(name: str = NAME) -> None:
    """Register the loss in verl's registry. Raise ValueError when the name is taken."""
    from verl.trainer.distillation.losses import DistillationLossSettings, register_distillation_loss

    register_distillation_loss(DistillationLossSettings(names=[name], use_estimator=True))(turn_local)


def turn_local(
    config: Any, distillation_config: Any, model_output: Any, data: Any, settings: Settings = SAMPLED
) -> tuple[Tensor, dict[str, Any]]:
    """Return the loss of each response token, [B, R], and metrics: a distillation loss in verl's sense.

    ``config`` is verl's actor configuration, ``data`` the micro-batch with ``teacher_logprobs``, ``response_mask``,
    ``prompts``, ``responses``, ``batch_num_tokens`` and ``global_batch_size``, and ``rollout_log_probs`` or
    ``old_log_probs`` for the importance weight. Raise ValueError for a configuration that would change the loss.
    """
    from verl.workers.utils.padding import no_padding_2_padding

    options = distillation_config.distillation_loss
    for key, required in (("use_policy_gradient", False), ("loss_max_clamp", None)):
        if getattr(options, key) != required:
            value = "null" if required is None else "false"
            raise ValueError(f"{NAME} needs distillation.distillation_loss.{key}={value}, got {getattr(options, key)}")
    student = no_padding_2_padding(model_output["log_probs"], data)
    teacher = no_padding_2_padding(data["teacher_logprobs"], data)
    if teacher.dim() != 3 or teacher.shape[-1] != 2:
        raise ValueError(
            f"teacher_logprobs must have 2 numbers for each token, got shape {tuple(teacher.shape)}; "
            "fill them with teacher_fields"
        )
    mask = _padded(data["response_mask"])
    sampler = data.get("rollout_log_probs", data.get("old_log_probs", None))
    weights = torch.where(mask.bool(), teacher[..., 1], 0.0)
    losses = token_losses(
        student, teacher[..., 0], weights, None if sampler is None else _padded(sampler), settings=settings
    )
    metrics = {f"distillation/etude_{name}": value for name, value in losses.metrics.items()}
    return losses.values * _divisor(config, data, mask), metrics


def teacher_fields(scores: SiteScores, prompt_ids: Sequence[int], response_ids: Sequence[int]) -> dict[str, Tensor]:
    """Return ``teacher_ids`` and ``teacher_logprobs`` of one sample, both [S, 2], for an agent loop's ``extra_fields``.

    S is the length of prompt and response. Row p belongs to token p + 1, as in verl's own teacher. Raise ValueError
    when the scores are not those of the response.
    """
    if len(scores.weights) != len(response_ids):
        raise ValueError(f"the response has {len(response_ids)} ids, its scores {len(scores.weights)}")
    ids = [*prompt_ids, *response_ids][1:] + [0]
    rows = [[0.0, 0.0]] * (len(prompt_ids) - 1) + scores.pairs() + [[0.0, 0.0]]
    return {
        "teacher_ids": torch.tensor(ids, dtype=torch.int32)[:, None].repeat(1, 2),
        "teacher_logprobs": torch.tensor(rows),
    }


def _padded(tensor: Tensor) -> Tensor:
    return tensor.to_padded_tensor(0) if tensor.is_nested else tensor


def _divisor(config: Any, data: Any, mask: Tensor) -> Tensor | float:
    """Return what verl's ``agg_loss`` divides a token's loss by."""
    mode, sequences = config.loss_agg_mode, data["global_batch_size"]
    if mode == "token-sum":
        return 1.0
    if mode == "token-mean":
        return _global(data["batch_num_tokens"], "batch_num_tokens")
    if mode == "seq-mean-token-sum":
        return _global(sequences, "global_batch_size")
    if mode == "seq-mean-token-sum-norm":
        return _global(sequences, "global_batch_size") * (config.loss_scale_factor or mask.shape[-1])
    if mode == "seq-mean-token-mean":
        return (mask.sum(-1, keepdim=True) + 1e-8) * _global(sequences, "global_batch_size")
    raise ValueError(f"{NAME} does not know loss_agg_mode {mode!r}; use token-mean")


def _global(value: Any, name: str) -> float:
    if value is None:
        raise ValueError(f"verl gave no {name} of the mini-batch; use its engine workers")
    return float(value)
