"""The turn-local loss for slime: ``--loss-type custom_loss`` and the path of ``turn_local`` as its function.

Conventions of slime: ``logits`` is [1, T, V] with the samples of the micro-batch one after the other; everything that
is per token is a list of tensors, one for each sample and over its response. ``loss_function`` multiplies by the number
of micro-batches and of data-parallel ranks, by which Megatron divides again, and divides by the rollouts of the step,
so the turn-local part is multiplied by those.

slime hands a fixed set of fields to its loss, with one number for each response token, which its logs average.
``Sample.teacher_log_probs`` is one of them: ``sample.teacher_log_probs = teacher_log_probs(scores)``, after
``divide_by_step``. A negative number is the teacher's log-probability of a site token; another token has the weight of
the sample's sites. The mean that slime logs under this name has no meaning then. With ``--custom-config-path FILE``
the YAML file may set these keys:

| key | meaning | default |
|---|---|---|
| ``etude_coefficient`` | factor of the turn-local loss | 1.0 |
| ``etude_policy_loss`` | whether slime's policy loss is added | true |
| ``etude_gate`` | whether a site is left out if its hint does not help | true |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .site_scores import SiteScores
from .turn_local import SAMPLED, token_losses

_CERTAIN = -1e-30
"""Log-probability of a site token that the teacher gives all probability; 0 would be a weight."""


def teacher_log_probs(scores: SiteScores) -> list[float]:
    """Return the scores of a sample as one number for each response token, see above.

    A response that is one site from its first to its last token has no place for the weight. Its last token, which
    ends the turn, is then left out of the site. Raise ValueError for sites of different weights.
    """
    weights = {weight for weight in scores.weights if weight}
    if len(weights) > 1:
        raise ValueError(f"the sites of a sample must have one weight, got {sorted(weights)}; use choose_sites")
    weight = max(weights, default=0.0)
    numbers = [
        min(logp, _CERTAIN) if own_weight else weight
        for logp, own_weight in zip(scores.teacher_logps, scores.weights, strict=True)
    ]
    if numbers and all(number < 0 for number in numbers):
        numbers[-1] = weight
    return numbers


def turn_local(args: Any, batch: Any, logits: Tensor, sum_of_sample_mean: Any) -> tuple[Tensor, dict[str, Any]]:
    """Return slime's policy loss plus the turn-local loss, a scalar, and metrics: a custom loss in slime's sense.

    Raise ValueError for ``--calculate-per-token-loss``, for context parallelism, which cuts samples into parts, and for
    a batch without teacher log-probabilities.
    """
    from slime.backends.megatron_utils import loss as slime

    settings = replace(SAMPLED, gate=getattr(args, "etude_gate", True))
    if args.calculate_per_token_loss:
        raise ValueError("the turn-local loss has its own divisor; remove --calculate-per-token-loss")
    if getattr(args, "context_parallel_size", 1) > 1:
        raise ValueError("context parallelism cuts samples into parts; set --context-parallel-size 1")
    if batch.get("teacher_log_probs") is None:
        raise ValueError(
            "the batch has no teacher_log_probs; set them on each sample with slime_loss.teacher_log_probs"
        )
    _, answers = slime.get_log_probs_and_entropy(
        logits,
        args=args,
        unconcat_tokens=batch["unconcat_tokens"],
        total_lengths=batch["total_lengths"],
        response_lengths=batch["response_lengths"],
        **slime.get_rollout_top_p_logprob_kwargs(args, batch),
    )
    student = _rows(answers["log_probs"])
    teacher, weights = _decoded(batch["teacher_log_probs"])
    sampler = batch.get("rollout_log_probs") or batch.get("log_probs")
    losses = token_losses(student, teacher, weights, _rows(sampler) if sampler else None, settings=settings)
    distilled = losses.values.sum() * args.global_batch_size
    total, log = getattr(args, "etude_coefficient", 1.0) * distilled, {}
    if getattr(args, "etude_policy_loss", True):
        loss, log = slime.policy_loss_function(args, batch, logits, sum_of_sample_mean)
        total = total + loss
    elif not student.numel():
        total = total + 0 * logits.sum()
    reported = {f"etude_{name}": logits.new_tensor(value) for name, value in losses.metrics.items()}
    return total, {**log, "loss": total.detach().clone(), "etude_loss": distilled.detach().clone(), **reported}


def _decoded(samples: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the teacher's log-probabilities and the weights of the tokens, both [B, R], from ``teacher_log_probs``."""
    numbers = _rows(samples)
    inside = numbers < 0
    weights = numbers.clamp(min=0).amax(-1, keepdim=True) * inside
    return torch.where(inside, numbers, 0.0), weights


def _rows(samples: Sequence[Tensor]) -> Tensor:
    """Return one tensor [B, R, ...] of the samples' tensors [R_i, ...], padded with 0 behind them."""
    return torch.nn.utils.rnn.pad_sequence(list(samples), batch_first=True)
