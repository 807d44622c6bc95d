"""The turn-local loss for slime: ``--loss-type custom_loss`` and the path of ``turn_local`` as its function.

Conventions of slime: ``logits`` is [1, T, V] with the samples of the micro-batch one after the other; everything that
is per token is a list of tensors, one for each sample and over its response. ``loss_function`` multiplies by the number
of micro-batches and of data-parallel ranks, by which Megatron divides again, and divides by the rollouts of the step,
so the turn-local part is multiplied by those.

slime hands a fixed set of fields to its loss. ``Sample.teacher_log_probs`` is one of them, and may have two numbers for
each token: ``sample.teacher_log_probs = scores.pairs()``, after ``divide_by_step``. With ``--custom-config-path FILE``
the YAML file may set these keys:

| key | meaning | default |
|---|---|---|
| ``etude_coefficient`` | factor of the turn-local loss | 1.0 |
| ``etude_policy_loss`` | whether slime's policy loss is added | true |
| ``etude_gate`` | whether a site is left out if its hint does not help | true |
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .turn_local import SAMPLED, token_losses


def turn_local(args: Any, batch: Any, logits: Tensor, sum_of_sample_mean: Any) -> tuple[Tensor, dict[str, Any]]:
    """Return slime's policy loss plus the turn-local loss, a scalar, and metrics: a custom loss in slime's sense.

    Raise ValueError for ``--calculate-per-token-loss``, for a gate with context parallelism, which cuts sites into
    parts, and for teacher log-probabilities without weights.
    """
    from slime.backends.megatron_utils import loss as slime

    settings = replace(SAMPLED, gate=getattr(args, "etude_gate", True))
    if args.calculate_per_token_loss:
        raise ValueError("the turn-local loss has its own divisor; remove --calculate-per-token-loss")
    if settings.gate and getattr(args, "context_parallel_size", 1) > 1:
        raise ValueError("context parallelism cuts sites into parts; set etude_gate: false or use one context rank")
    pairs = batch.get("teacher_log_probs")
    if pairs is None or any(pair.dim() != 2 or pair.shape[-1] != 2 for pair in pairs):
        raise ValueError("teacher_log_probs must have 2 numbers for each token; set it to SiteScores.pairs()")
    _, answers = slime.get_log_probs_and_entropy(
        logits,
        args=args,
        unconcat_tokens=batch["unconcat_tokens"],
        total_lengths=batch["total_lengths"],
        response_lengths=batch["response_lengths"],
        **slime.get_rollout_top_p_logprob_kwargs(args, batch),
    )
    student = _rows(answers["log_probs"])
    scores = _rows(pairs)
    sampler = batch.get("rollout_log_probs") or batch.get("log_probs")
    losses = token_losses(
        student, scores[..., 0], scores[..., 1], _rows(sampler) if sampler else None, settings=settings
    )
    distilled = losses.values.sum() * args.global_batch_size
    total, log = getattr(args, "etude_coefficient", 1.0) * distilled, {}
    if getattr(args, "etude_policy_loss", True):
        loss, log = slime.policy_loss_function(args, batch, logits, sum_of_sample_mean)
        total = total + loss
    elif not student.numel():
        total = total + 0 * logits.sum()
    reported = {f"etude_{name}": logits.new_tensor(value) for name, value in losses.metrics.items()}
    return total, {**log, "loss": total.detach().clone(), "etude_loss": distilled.detach().clone(), **reported}


def _rows(samples: list[Tensor]) -> Tensor:
    """Return one tensor [B, R, ...] of the samples' tensors [R_i, ...], padded with 0 behind them."""
    return torch.nn.utils.rnn.pad_sequence(list(samples), batch_first=True)
