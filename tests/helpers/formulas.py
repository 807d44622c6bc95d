"""Formula of every objective, written out token by token, and batches on which it is compared with TRL's loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from helpers.made_up_rollouts import ROOM, Unplayed
from torch import Tensor

B, T, PROMPT = 4, 6, 3
ACCUMULATION = 2
ITEMS = 23
"""Tokens of the whole step; this micro-batch has a part of them."""
CLIPPED = ("grpo", "dr_grpo", "bnpo", "dapo")
PER_SEQUENCE = ("gspo", "luspo")
SPREAD = {"gspo": 8e-4, "luspo": 5e-3}
"""Spread of log ratios for objectives whose clips are narrower than those of single tokens."""
SEEDS = 6
Formula = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Returns the loss of log-probabilities [B, T], current and old, advantages [B] and a mask [B, T]."""


def clip(ratio: Tensor, low: float, high: float) -> Tensor:
    return ratio.clamp(1 - low, 1 + high)


def surrogate(ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    return -torch.minimum(ratio * advantage, clip(ratio, low, high) * advantage)


def tokens(mask: Tensor) -> list[list[int]]:
    return [[t for t in range(T) if mask[i, t]] for i in range(B)]


def grpo(now: Tensor, old: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    """Return 1/B sum_i 1/|o_i| sum_t (arXiv:2402.03300, equation 3)."""
    total = torch.zeros((), dtype=now.dtype)
    for i, places in enumerate(tokens(mask)):
        for t in places:
            total = total + surrogate((now[i, t] - old[i, t]).exp(), a[i], 0.2, 0.2) / len(places) / B
    return total / ACCUMULATION


def _total(now: Tensor, old: Tensor, a: Tensor, mask: Tensor, high: float) -> Tensor:
    terms = [surrogate((now[i, t] - old[i, t]).exp(), a[i], 0.2, high) for i, ts in enumerate(tokens(mask)) for t in ts]
    return torch.stack(terms).sum()


def dr_grpo(now: Tensor, old: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    """Return the sum over all tokens, divided by a constant: the length limit (arXiv:2503.20783)."""
    return _total(now, old, a, mask, 0.2) / (B * ROOM) / ACCUMULATION


def bnpo(now: Tensor, old: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    return _total(now, old, a, mask, 0.2) / mask.sum() / ACCUMULATION


def dapo(now: Tensor, old: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the tokens of the step, with a higher upper clip (arXiv:2503.14476, equation 8)."""
    return _total(now, old, a, mask, 0.28) / ITEMS


def sequence_ratio(now: Tensor, old: Tensor, i: int, places: list[int]) -> Tensor:
    """Return (pi / pi_old)^(1/|y|) (arXiv:2507.18071, equation 7)."""
    return torch.stack([now[i, t] - old[i, t] for t in places]).mean().exp()


def gspo(now: Tensor, old: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    terms = [surrogate(sequence_ratio(now, old, i, ts), a[i], 3e-4, 4e-4) for i, ts in enumerate(tokens(mask))]
    return torch.stack(terms).mean() / ACCUMULATION


def luspo(now: Tensor, old: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    """Return the loss with GSPO's ratio and each sequence weighted by its length."""
    terms = [
        len(ts) * surrogate(sequence_ratio(now, old, i, ts), a[i], 2e-3, 2.5e-3) for i, ts in enumerate(tokens(mask))
    ]
    return torch.stack(terms).mean() / ACCUMULATION


def cispo(now: Tensor, old: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of -sg(min(r, e)) A log pi over the tokens of the step (arXiv:2506.13585, equation 4)."""
    total = torch.zeros((), dtype=now.dtype)
    for i, places in enumerate(tokens(mask)):
        for t in places:
            weight = min(math.exp(float(now[i, t] - old[i, t])), 5.0)
            total = total - weight * a[i] * now[i, t]
    return total / ITEMS


def sapo(now: Tensor, old: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    """Return 4/tau sigma(tau (r - 1)) A, with tau 1 for good sequences and 1.05 for bad ones (arXiv:2511.20347)."""
    total = torch.zeros((), dtype=now.dtype)
    for i, places in enumerate(tokens(mask)):
        tau = 1.0 if a[i] > 0 else 1.05
        for t in places:
            gate = 4 / tau / (1 + (-tau * ((now[i, t] - old[i, t]).exp() - 1)).exp())
            total = total - gate * a[i] / len(places) / B
    return total / ACCUMULATION


def vespo(now: Tensor, old: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    """Return -sg(phi(w)) A log pi with phi(w) = w^k exp(l (1 - w)) of the sequence's whole ratio w."""
    total = torch.zeros((), dtype=now.dtype)
    for i, places in enumerate(tokens(mask)):
        w = math.exp(sum(float(now[i, t] - old[i, t]) for t in places))
        k, scale = (2.0, 3.0) if a[i] >= 0 else (3.0, 2.0)
        for t in places:
            total = total - w**k * math.exp(scale * (1 - w)) * a[i] * now[i, t]
    return total / ITEMS


FORMULAS: dict[str, Formula] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "bnpo": bnpo,
    "dapo": dapo,
    "gspo": gspo,
    "cispo": cispo,
    "sapo": sapo,
    "luspo": luspo,
    "vespo": vespo,
}


def draw(seed: int, spread: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return current and old log-probabilities, advantages of both signs, and a mask with padding and tool tokens."""
    generator = torch.Generator().manual_seed(seed)
    old = -3 * torch.rand(B, T, dtype=torch.float64, generator=generator)
    now = old + spread * torch.randn(B, T, dtype=torch.float64, generator=generator)
    advantages = torch.tensor([1.3, -0.7, 0.4, -1.1], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    return now.requires_grad_(), old, advantages, mask


def inputs_of(old: Tensor | None, advantages: Tensor, mask: Tensor) -> dict[str, Any]:
    """Return TRL's batch. Zeros of the mask after its last 1 become padding, all others tool tokens."""
    completion = mask.flip(-1).cummax(-1).values.flip(-1)
    rows = mask.shape[0]
    inputs = {
        "prompt_ids": torch.ones(rows, PROMPT, dtype=torch.long),
        "prompt_mask": torch.ones(rows, PROMPT, dtype=torch.long),
        "completion_ids": torch.ones_like(mask),
        "completion_mask": completion,
        "tool_mask": torch.where(completion == 1, mask, 1),  # TRL pads it with 1
        "advantages": advantages,
        "num_items_in_batch": torch.tensor(ITEMS),
    }
    return inputs if old is None else {**inputs, "old_per_token_logps": old}


def loss_of(trainer: Unplayed, now: Tensor, inputs: dict[str, Any], accumulation: int = ACCUMULATION) -> Tensor:
    """Return the trainer's own loss for these log-probabilities."""
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = accumulation
    trainer._get_per_token_logps_and_entropies = lambda *a, **k: (now, torch.zeros_like(now).detach(), None)
    loss: Tensor = trainer._compute_loss(trainer.model, inputs)
    return loss


def gradient(loss: Tensor, now: Tensor) -> Tensor:
    (result,) = torch.autograd.grad(loss, now)
    return result
