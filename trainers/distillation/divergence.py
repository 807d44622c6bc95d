"""Divergence of the student's next-token distribution from the teacher's, row by row, with exact gradients.

Generalised Jensen-Shannon divergence (GKD, arXiv:2306.13649; the convention of OPSD, SDPO and TRL). With the student's
distribution S, the teacher's T and the mixture M = (1 - beta) S + beta T,

    D = beta KL(T || M) + (1 - beta) KL(S || M),     beta = 0: KL(T || S),     beta = 1: KL(S || T).

D goes to 0 as beta goes to 0 or 1, but the two ends are not scaled, so a sweep over beta jumps there; ``normalised``
divides by beta (1 - beta), which makes D continuous. Only the student gets gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ROWS, COLUMNS = 256, 32_768
"""Largest block of logits in memory, rows by vocabulary. About eight of them exist at once, 0.3 GB in float32, for any
number of rows and tokens. The gradients of hidden states and of the head come on top; they are linear in both."""


@dataclass(frozen=True)
class Head:
    """Output head, which turns hidden states into logits."""

    weight: Tensor
    """Matrix [V, H]."""
    bias: Tensor | None = None
    """Bias [V]."""
    temperature: float = 1.0
    """Divisor of the logits."""
    softcap: float = 0.0
    """Soft cap of the logits before the temperature, as in Gemma 2; 0 for none."""

    def logits(self, hidden: Tensor, columns: slice = slice(None)) -> Tensor:
        """Return the logits of hidden states [R, H] for a slice of the vocabulary, [R, columns], in float32.

        They are computed in the matrix's type, with or without autocast.
        """
        weight, bias = self.weight[columns], None if self.bias is None else self.bias[columns]
        with torch.autocast(hidden.device.type, enabled=False):
            logits = torch.nn.functional.linear(hidden.to(weight.dtype), weight, bias).float()
        if self.softcap:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return logits / self.temperature


def divergence(student: Tensor, teacher: Tensor, beta: float = 0.5, *, normalised: bool = False) -> Tensor:
    """Return D of each row, [R], in nats. ``student`` and ``teacher`` are logits [R, V].

    Raise ValueError for a beta outside [0, 1].
    """
    scale = _scale(beta, normalised)
    log_s, log_t = student.log_softmax(-1), teacher.detach().log_softmax(-1)
    return _terms(log_s, log_t, beta).sum(-1) * scale


def top_k_divergence(
    student: Tensor, teacher: Tensor, beta: float = 0.5, *, k: int, by: str = "student", normalised: bool = False
) -> Tensor:
    """Return D of each row, [R], over the ``k`` likeliest tokens of ``by`` and one bucket for all other tokens.

    It is never more than ``divergence`` (data processing inequality), and equal to it when k = V.
    """
    scale = _scale(beta, normalised)
    log_s, log_t = student.log_softmax(-1), teacher.detach().log_softmax(-1)
    chosen = {"student": log_s.detach(), "teacher": log_t}[by].topk(min(k, log_s.shape[-1]), dim=-1).indices
    return _terms(_with_tail(log_s, chosen), _with_tail(log_t, chosen), beta).sum(-1) * scale


def sampled_token(student: Tensor, teacher: Tensor) -> Tensor:
    """Return an estimate [R] of the reverse KL from the log-probabilities [R] of sampled tokens.

    The value is their difference. The gradient is that of the score function, sg(log S - log T) grad log S, whose
    expectation is the gradient of KL(S || T).
    """
    gap = student.detach() - teacher.detach()
    return gap * student - (gap * student).detach() + gap


def fused_divergence(
    student: Tensor,
    student_head: Head,
    teacher: Tensor,
    teacher_head: Head,
    beta: float = 0.5,
    *,
    normalised: bool = False,
    rows: int = ROWS,
    columns: int = COLUMNS,
) -> Tensor:
    """Return ``divergence`` of hidden states [R, H] with at most ``rows`` x ``columns`` logits in memory.

    Values and gradients (of ``student`` and of its head) are those of complete logits, at any block size.
    """
    scale = _scale(beta, normalised)
    weight, bias = student_head.weight, student_head.bias
    value: Tensor = _Fused.apply(
        student, weight, bias, teacher.detach(), student_head, teacher_head, beta, rows, columns
    )
    return value * scale


def fused_top_k(
    student: Tensor,
    student_head: Head,
    teacher: Tensor,
    teacher_head: Head,
    beta: float = 0.5,
    *,
    k: int,
    normalised: bool = False,
    rows: int = ROWS,
) -> Tensor:
    """Return ``top_k_divergence`` by the student of hidden states [R, H], with ``rows`` rows of logits in memory."""

    def block(student: Tensor, teacher: Tensor) -> Tensor:
        logits = student_head.logits(student), teacher_head.logits(teacher)
        return top_k_divergence(*logits, beta, k=k, normalised=normalised)

    return _by_rows(block, rows, student, teacher.detach())


def log_probabilities(hidden: Tensor, head: Head, tokens: Tensor, *, rows: int = ROWS) -> Tensor:
    """Return the log-probability [R] of each row's token [R], with ``rows`` rows of logits in memory."""

    def block(hidden: Tensor, tokens: Tensor) -> Tensor:
        return head.logits(hidden).log_softmax(-1).gather(-1, tokens[:, None])[:, 0]

    return _by_rows(block, rows, hidden, tokens)


def _by_rows(function: Callable[..., Tensor], rows: int, *tensors: Tensor) -> Tensor:
    """Apply a function to blocks of rows; its intermediate tensors are computed again in the backward pass."""
    from torch.utils.checkpoint import checkpoint

    blocks = zip(*(tensor.split(rows) for tensor in tensors), strict=True)
    return torch.cat([checkpoint(function, *block, use_reentrant=False) for block in blocks])


def _scale(beta: float, normalised: bool) -> float:
    if not 0 <= beta <= 1:
        raise ValueError(f"beta must lie in [0, 1], got {beta}")
    return 1 / (beta * (1 - beta)) if normalised and 0 < beta < 1 else 1.0


def _terms(log_s: Tensor, log_t: Tensor, beta: float) -> Tensor:
    """Return the term of D for each token; it is 0 for a token that has no probability under either distribution."""
    if beta == 0:
        return _times(log_t, log_t - log_s)
    if beta == 1:
        return _times(log_s, log_s - log_t)
    log_m = _mixed(log_s, log_t, beta)
    return beta * _times(log_t, log_t - log_m) + (1 - beta) * _times(log_s, log_s - log_m)


def _mixed(log_s: Tensor, log_t: Tensor, beta: float) -> Tensor:
    """Return log M. It is finite even where S and T are 0, because logaddexp has no gradient at two -inf."""
    least = torch.finfo(log_s.dtype).min
    return torch.logaddexp(log_s.clamp(min=least) + math.log1p(-beta), log_t.clamp(min=least) + math.log(beta))


def _times(log_p: Tensor, gap: Tensor) -> Tensor:
    """Return P times the gap, 0 where P is 0."""
    zero = log_p == -math.inf
    return log_p.exp() * torch.where(zero, torch.zeros_like(gap), gap)


def _with_tail(log_p: Tensor, chosen: Tensor) -> Tensor:
    """Return log-probabilities [R, k + 1] of the chosen tokens [R, k] and of all others together."""
    chosen_log_p = log_p.gather(-1, chosen)
    others = log_p.scatter(-1, chosen, -math.inf)
    if chosen.shape[-1] == log_p.shape[-1]:
        return chosen_log_p
    empty = (others == -math.inf).all(-1, keepdim=True)  # logsumexp has no gradient there
    tail = others.masked_fill(empty, 0.0).logsumexp(-1, keepdim=True).masked_fill(empty, -math.inf)
    return torch.cat([chosen_log_p, tail], dim=-1)


class _Fused(torch.autograd.Function):
    """Divergence in blocks of logits, which are computed to normalise, again to sum, and again for the gradient.

    With g = dD/dS (up to a constant): (1 - beta)(log S - log M); -T / S at beta 0; log S - log T at beta 1. The
    gradient of a row's student logits is S (g - sum S g).
    """

    @staticmethod
    def forward(
        ctx: Any,
        student: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        teacher: Tensor,
        student_head: Head,
        teacher_head: Head,
        beta: float,
        rows: int,
        columns: int,
    ) -> Tensor:
        ctx.heads, ctx.beta, ctx.blocks = (student_head, teacher_head), beta, (rows, columns)
        norms_s = _normalisers(student, student_head, rows, columns)
        norms_t = _normalisers(teacher, teacher_head, rows, columns)
        value = student.new_zeros(student.shape[0], dtype=torch.float32)
        mean = torch.zeros_like(value)
        for part in _blocks(student.shape[0], rows):
            for cols in _blocks(weight.shape[0], columns):
                log_s = student_head.logits(student[part], cols) - norms_s[part, None]
                log_t = teacher_head.logits(teacher[part], cols) - norms_t[part, None]
                value[part] += _terms(log_s, log_t, beta).sum(-1)
                mean[part] += _slope(log_s, log_t, beta).sum(-1)
                del log_s, log_t  # before the next block is made
        ctx.save_for_backward(student, teacher, norms_s, norms_t, mean)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        student, teacher, norms_s, norms_t, mean = ctx.saved_tensors
        student_head, teacher_head = ctx.heads
        weight, bias = student_head.weight, student_head.bias
        needed = ctx.needs_input_grad
        to_hidden = torch.zeros_like(student, dtype=torch.float32) if needed[0] else None
        to_weight = torch.zeros_like(weight, dtype=torch.float32) if needed[1] else None
        to_bias = torch.zeros_like(bias, dtype=torch.float32) if bias is not None and needed[2] else None
        for part in _blocks(student.shape[0], ctx.blocks[0]):
            for cols in _blocks(weight.shape[0], ctx.blocks[1]):
                logits = student_head.logits(student[part], cols)
                log_s = logits - norms_s[part, None]
                log_t = teacher_head.logits(teacher[part], cols) - norms_t[part, None]
                slope = _slope(log_s, log_t, ctx.beta) - log_s.exp() * mean[part, None]
                slope = slope * grads[0][part, None] / student_head.temperature
                if student_head.softcap:
                    slope = slope * (1 - (logits * student_head.temperature / student_head.softcap) ** 2)
                if to_hidden is not None:
                    to_hidden[part] += slope @ weight[cols].float()
                if to_weight is not None:
                    to_weight[cols] += slope.T @ student[part].float()
                if to_bias is not None:
                    to_bias[cols] += slope.sum(0)
                del logits, log_s, log_t, slope
        pairs = ((to_hidden, student), (to_weight, weight), (to_bias, bias))
        gradients = [None if gradient is None else gradient.to(value.dtype) for gradient, value in pairs]
        return (*gradients, None, None, None, None, None, None)


def _slope(log_s: Tensor, log_t: Tensor, beta: float) -> Tensor:
    """Return S g for each token (see ``_Fused``)."""
    if beta == 0:
        return -log_t.exp()
    if beta == 1:
        return _times(log_s, log_s - log_t)
    return (1 - beta) * _times(log_s, log_s - _mixed(log_s, log_t, beta))


def _normalisers(hidden: Tensor, head: Head, rows: int, columns: int) -> Tensor:
    """Return the logsumexp of each row's logits, [R]."""
    norms = hidden.new_full((hidden.shape[0],), -math.inf, dtype=torch.float32)
    for part in _blocks(hidden.shape[0], rows):
        for cols in _blocks(head.weight.shape[0], columns):
            norms[part] = torch.logaddexp(norms[part], head.logits(hidden[part], cols).logsumexp(-1))
    return norms


def _blocks(number: int, size: int) -> Iterator[slice]:
    """Return slices of at most ``size`` that cover ``number`` places."""
    return (slice(start, min(start + size, number)) for start in range(0, number, size))
