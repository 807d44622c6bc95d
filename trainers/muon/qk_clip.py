"""QK-clip: query and key weights shrink where attention logits exceed a threshold (Kimi K2, arXiv:2507.20534).

After a step, each head h whose largest logit S_h is over the threshold tau gets gamma_h = tau / S_h; others 1. The
weights change so that every logit of the head becomes gamma_h times what it was. It has no effect where queries and
keys are normalized after their projection (q_norm, k_norm), which bounds logits already.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .sharding.shards import local, own_box

THRESHOLD = 100.0


@torch.no_grad()
def clip_heads_(
    query: Tensor, key: Tensor, largest: Tensor, *, threshold: float = THRESHOLD, biases: tuple[Tensor, ...] = ()
) -> Tensor:
    """Shrink the weights of multi-head or grouped-query attention in place, and return gamma [H].

    The weights of queries [H d, D] and keys [K d, D] may be DTensors; ``biases`` are those of queries and keys.
    ``largest`` [H] has the largest logit of each query head. A key head takes the root of the smallest gamma of its
    group, each of its query heads the rest. Raise ValueError when heads do not fit.
    """
    gamma = _gamma(largest, threshold)
    heads = gamma.numel()
    width = query.shape[0] // heads
    groups = key.shape[0] // width if width else 0
    if heads * width != query.shape[0] or not groups or groups * width != key.shape[0] or heads % groups:
        raise ValueError(
            f"{heads} heads do not fit queries {tuple(query.shape)} and keys {tuple(key.shape)}; pass one logit for "
            "each query head"
        )
    of_keys = gamma.view(groups, -1).amin(1).sqrt()
    of_queries = gamma / of_keys.repeat_interleave(heads // groups)
    for weight, factors in zip((query, key, *biases), (of_queries, of_keys) * 2, strict=False):
        _scale_rows_(weight, factors.repeat_interleave(width))
    return gamma


@torch.no_grad()
def clip_latent_(
    query: Tensor, key_value: Tensor, largest: Tensor, *, nope: int, rope: int, value: int, threshold: float = THRESHOLD
) -> Tensor:
    """Shrink the weights of multi-head latent attention in place, and return gamma [H].

    ``query`` [H (nope + rope), D] and ``key_value`` [H (nope + value), L] are q_b_proj and kv_b_proj. The rotary key is
    shared by all heads and stays, so that the rotary part of queries takes gamma, the other parts its root.
    """
    gamma = _gamma(largest, threshold)
    if query.shape[0] != gamma.numel() * (nope + rope) or key_value.shape[0] != gamma.numel() * (nope + value):
        raise ValueError(
            f"{gamma.numel()} heads do not fit queries {tuple(query.shape)} and keys {tuple(key_value.shape)}; pass "
            "one logit for each head, and the sizes of the model's configuration"
        )
    root, ones = gamma.sqrt().unsqueeze(1), torch.ones_like(gamma).unsqueeze(1)
    _scale_rows_(query, torch.cat([root.expand(-1, nope), gamma.unsqueeze(1).expand(-1, rope)], 1).reshape(-1))
    _scale_rows_(key_value, torch.cat([root.expand(-1, nope), ones.expand(-1, value)], 1).reshape(-1))
    return gamma


def _gamma(largest: Tensor, threshold: float) -> Tensor:
    if threshold <= 0:
        raise ValueError(f"threshold must be positive, got {threshold}")
    return (threshold / largest.float().clamp(min=threshold)).flatten()


def _scale_rows_(weight: Tensor, factors: Tensor) -> None:
    """Multiply the rows of a weight or a bias by factors, on each rank those that it holds."""
    start, stop = own_box(weight)[0]
    rows = local(weight)
    rows.mul_(factors[start:stop].to(rows.dtype).view(-1, *[1] * (rows.ndim - 1)))
