"""The turn-local loss for SkyRL (0.3): a policy loss that is registered as ``etude_turn_local``.

Conventions of SkyRL: a policy loss gets response tensors [B, R], padded on the side of the response that SkyRL chose,
and returns a sum over the micro-batch. The trainer has scaled the advantages per mini-batch in advance, so that the sum
over all micro-batches is the mean that ``loss_reduction`` names. Workers multiply the sum by the number of
data-parallel ranks, over which gradients are averaged.

A policy loss sees the advantages and nothing else that is per token, so the scores of the sites travel in them:
``advantages`` is [B, R, 3], with SkyRL's scaled advantage, the teacher's log-probability and the weight divided by N.
``SitesMixin`` builds it where SkyRL scales the advantages, mini-batch by mini-batch.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..distillation.distiller import Settings
from .site_scores import SiteScores
from .turn_local import SAMPLED, token_losses

NAME = "etude_turn_local"
"""Name in ``trainer.algorithm.policy_loss_type``."""
FIELD = "etude_site_scores"
"""Key of the scores, one for each response, in a generator's output, and of the tensor in the training batch."""


def register(base: str = "regular", coefficient: float = 1.0, settings: Settings = SAMPLED, name: str = NAME) -> None:
    """Register ``turn_local`` with these arguments in SkyRL's registry, before ``initialize_ray`` is called.

    SkyRL then copies the registry to its workers, which must have ``etude`` installed.
    """
    from skyrl.backends.skyrl_train.utils.ppo_utils import PolicyLossRegistry

    function = functools.partial(turn_local, base=base, coefficient=coefficient, settings=settings)
    PolicyLossRegistry.register(name, function)


def turn_local(
    log_probs: Tensor,
    old_log_probs: Tensor | None,
    advantages: Tensor,
    config: Any,
    loss_mask: Tensor | None = None,
    rollout_logprobs: Tensor | None = None,
    *,
    base: str = "regular",
    coefficient: float = 1.0,
    settings: Settings = SAMPLED,
) -> tuple[Tensor, dict[str, float]]:
    """Return SkyRL's policy loss ``base`` plus ``coefficient`` times the turn-local loss, a scalar, and metrics.

    ``base`` is the name of a registered policy loss, or "" for none. ``advantages`` is [B, R, 3], see above; the other
    tensors are [B, R]. SkyRL's micro-batches of nothing but padding have advantages [B, R] and are passed on. Raise
    ValueError for other shapes.
    """
    is_padding = advantages.dim() == 2 and loss_mask is not None and not bool(loss_mask.any())
    if is_padding:
        advantages = torch.nn.functional.pad(torch.zeros_like(advantages)[..., None], (0, 2))
    if advantages.dim() != 3 or advantages.shape[-1] != 3:
        raise ValueError(
            f"advantages must be [B, R, 3] for {NAME}, got shape {tuple(advantages.shape)}; "
            "train with a trainer that has SitesMixin"
        )
    sampler = rollout_logprobs if rollout_logprobs is not None else old_log_probs
    weights = advantages[..., 2]
    if loss_mask is not None:
        weights = torch.where(loss_mask != 0, weights, 0.0)
    losses = token_losses(log_probs, advantages[..., 1], weights, sampler, settings)
    metrics = {f"etude_{name}": value for name, value in losses.metrics.items()}
    distilled = losses.values.sum()
    metrics["etude_distillation_loss"] = float(distilled.detach())
    if not base:
        return coefficient * distilled, metrics
    from skyrl.backends.skyrl_train.utils.ppo_utils import PolicyLossRegistry

    named = dataclasses.replace(config, policy_loss_type=base)
    loss, base_metrics = PolicyLossRegistry.get(base)(
        log_probs, old_log_probs, advantages[..., 0], named, loss_mask=loss_mask, rollout_logprobs=rollout_logprobs
    )
    return loss + coefficient * distilled, {**base_metrics, **metrics}


class SitesMixin:
    """Mixin of SkyRL's trainer: ``class Trainer(SitesMixin, RayPPOTrainer)``.

    The generator adds ``generator_output["etude_site_scores"]``, one ``SiteScores`` for each response.
    """

    def convert_to_training_input(self, generator_output: Any, uids: list[str]) -> Any:
        """Return SkyRL's training batch with the scores as one more tensor, [B, R, 2]."""
        batch = super().convert_to_training_input(generator_output, uids)  # type: ignore[misc]
        batch[FIELD] = scores_tensor(generator_output[FIELD], batch["response_mask"])
        return batch

    def _normalize_advantages(
        self,
        data: Any,
        mini_batch_boundaries: list[tuple[int, int]],
        prompt_boundaries: list[tuple[int, int]] | None = None,
    ) -> Any:
        """Return SkyRL's batch with scaled advantages [B, R, 3]."""
        batch = super()._normalize_advantages(data, mini_batch_boundaries, prompt_boundaries)  # type: ignore[misc]
        batch["advantages"] = with_sites(batch["advantages"], batch[FIELD], mini_batch_boundaries)
        return batch


def scores_tensor(scores: Sequence[SiteScores], response_mask: Tensor) -> Tensor:
    """Return the scores [B, R, 2] at the places that ``response_mask`` [B, R] marks as the response's tokens.

    Rows after the last score are padding and stay 0. Raise ValueError when a response has another length.
    """
    tensor = torch.zeros(*response_mask.shape, 2)
    for row, score in enumerate(scores):
        places = response_mask[row].bool()
        if int(places.sum()) != len(score.weights):
            raise ValueError(f"response {row} has {int(places.sum())} ids, its scores {len(score.weights)}")
        tensor[row, places.cpu()] = torch.tensor(score.pairs()).reshape(-1, 2)
    return tensor


def with_sites(advantages: Tensor, scores: Tensor, boundaries: Sequence[tuple[int, int]]) -> Tensor:
    """Return [B, R, 3] of advantages [B, R] and scores [B, R, 2], whose weights are divided by N per mini-batch.

    ``boundaries`` are the first and the end row of each mini-batch, which is one optimizer step.
    """
    scores = scores.to(advantages)
    weights = torch.zeros_like(scores[..., 1])
    for start, end in boundaries:
        total = scores[start:end, :, 1].double().sum().item()
        weights[start:end] = scores[start:end, :, 1] / (total or 1.0)
    return torch.stack([advantages, scores[..., 0], weights], dim=-1)
