"""Turn-local distillation loss from the log-probabilities of sampled tokens, as engines exchange them.

The loss is ``distillation.Distiller``'s with the estimator ``sampled``: on the tokens of the error turns, the
score-function estimate of the reverse KL from the policy with the hint to the policy without it. Engines pass one
log-probability for each token and no hidden states, so the other estimators are not available. With p the policy,
T its frozen copy that has read the hint, q the policy that sampled, and sg the stop of the gradient:

    L = sum over sites w_site sum over tokens rho min(log p - log T, clip) / N,     rho = min(sg(p / q), ratio_clip),

whose gradient is that of sg(log p - log T) log p. N is the sum of the weights of all site tokens of the whole
optimizer step; an engine divides by it as described in its module.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..distillation.distiller import MIN_GAIN, MIN_GAIN_BFLOAT16, Settings
from ..distillation.divergence import sampled_token

SAMPLED = Settings(estimator="sampled")
"""Settings of the loss where a configuration names none."""


@dataclass(frozen=True)
class TokenLosses:
    """Loss of each token of a micro-batch."""

    values: Tensor
    """Weighted loss of each token, [B, R], 0 outside the sites; not divided by N. Only it has a gradient."""
    metrics: dict[str, float]
    """Sums over the micro-batch, under the names of ``Distiller``'s metrics."""


def token_losses(
    student_logps: Tensor,
    teacher_logps: Tensor,
    weights: Tensor,
    sampler_logps: Tensor | None = None,
    settings: Settings = SAMPLED,
) -> TokenLosses:
    """Return the loss of each token. All tensors are [B, R]: rows of R tokens, padded in any way with weight 0.

    ``weights`` is the weight of the token's site, 0 outside the sites; a row's sites are its runs of other weights, so
    that sites must not touch (``site_scores`` refuses those that do). ``sampler_logps`` are the log-probabilities at
    the time of sampling; None stands for the student's. Raise ValueError for another estimator or unequal shapes.
    """
    if settings.estimator != "sampled":
        raise ValueError(f"estimator must be 'sampled' in an engine, which has no logits, got {settings.estimator!r}")
    shapes = [tuple(t.shape) for t in (student_logps, teacher_logps, weights, sampler_logps) if t is not None]
    if len(set(shapes)) != 1 or len(shapes[0]) != 2:
        raise ValueError(f"log-probabilities and weights must all be [B, R], got {shapes}")
    inside = weights != 0
    student = torch.where(inside, student_logps, 0.0).float()
    teacher = torch.where(inside, teacher_logps, 0.0).float().detach()
    values = sampled_token(student, teacher)
    if settings.clip is not None:
        values = values.clamp(max=settings.clip)
    gains = (student.detach() - teacher) * inside
    helps, number = _sites_that_help(gains, inside, _is_rounded(student_logps))
    gate = helps.to(values) if settings.gate else torch.ones_like(values)
    factors = weights.to(values) * gate
    if sampler_logps is not None:
        gap = torch.where(inside, student.detach() - sampler_logps.float(), 0.0)
        factors = factors * gap.nan_to_num(0.0).clamp(-20, 20).exp().clamp(max=settings.ratio_clip)
    helped = int((_starts(inside) & helps).sum())
    return TokenLosses(
        values * factors,
        {
            "tokens": float(inside.sum()),
            "sites": float(number),
            "sites_helped": float(helped),
            "divergence": float((values.detach() * gate * inside).sum()),
            "teacher_gain": float(gains.sum()),
        },
    )


def _is_rounded(logps: Tensor) -> bool:
    return logps.dtype != torch.float32 or torch.is_autocast_enabled(logps.device.type)


def _starts(inside: Tensor) -> Tensor:
    """Return whether a token is the first of its site, [B, R]."""
    before = torch.nn.functional.pad(inside[:, :-1], (1, 0))
    return inside & ~before


def _sites_that_help(gains: Tensor, inside: Tensor, rounded: bool) -> tuple[Tensor, int]:
    """Return whether a token's site makes the failed turn less likely, [B, R], and the number of sites."""
    starts = _starts(inside).flatten()
    numbers = starts.cumsum(0) * inside.flatten()  # 0 outside the sites
    count = int(starts.sum())
    sums = gains.new_zeros(count + 1).index_add(0, numbers, gains.flatten())
    lengths = gains.new_zeros(count + 1).index_add(0, numbers, torch.ones_like(gains).flatten())
    bounds = MIN_GAIN_BFLOAT16 * lengths.sqrt() if rounded else torch.full_like(lengths, MIN_GAIN)
    helps = sums > bounds
    helps[0] = False
    return helps[numbers].view_as(inside), count
