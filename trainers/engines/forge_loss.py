"""The turn-local loss for TorchForge: a loss function of its ``TitanTrainer``.

``TitanTrainer`` calls ``loss(logits, **targets)`` with the targets that the application's ``collate`` made, one
micro-batch for each data-parallel rank, and averages gradients over the ranks. Conventions of its GRPO application:
``logits`` is [B, S, V] over request and response, and the last R ids of a row are the response, padded behind.
``collate`` adds ``teacher_logps`` and ``weights`` from ``SiteScores``, after ``divide_by_step``.
"""

from __future__ import annotations

from torch import Tensor

from ..distillation.distiller import Settings
from .turn_local import SAMPLED, token_losses


def turn_local(
    logits: Tensor,
    response: Tensor,
    teacher_logps: Tensor,
    weights: Tensor,
    sampler_logps: Tensor | None = None,
    *,
    ranks: int = 1,
    temperature: float = 1.0,
    settings: Settings = SAMPLED,
) -> Tensor:
    """Return the turn-local loss of a micro-batch, a scalar, times ``ranks``, over which gradients are averaged.

    ``logits`` is [B, S, V], ``response`` the ids [B, R], and the others are [B, R]. Raise ValueError when there is no
    id before the response.
    """
    length = response.shape[1]
    if logits.shape[1] <= length:
        raise ValueError(f"{logits.shape[1]} logits for {length} response ids; give those of the request too")
    rows = (logits[:, -length - 1 : -1].float() / temperature).log_softmax(-1)
    student = rows.gather(-1, response[..., None]).squeeze(-1)
    return token_losses(student, teacher_logps, weights, sampler_logps, settings).values.sum() * ranks
