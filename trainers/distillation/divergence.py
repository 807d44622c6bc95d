"""How far the student's next-token distribution is from the teacher's, row by row, with exact gradients.

Generalised Jensen-Shannon divergence (GKD, arXiv:2306.13649; the convention of OPSD, SDPO and TRL): with the mixture
M = (1 - beta) S + beta T,

    D = beta KL(T || M) + (1 - beta) KL(S || M),     beta = 0: KL(T || S),     beta = 1: KL(S || T).

D goes to 0 as beta goes to 0 or 1, while the ends are unscaled, so that a sweep over beta jumps there; ``normalised``
divides by beta (1 - beta), which makes it continuous. Gradients go to the student alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ROWS, COLUMNS = 256, 32_768
"""The largest block of logits that is ever held, rows by vocabulary. Some eight of them live at once, 0.3 GB in
float32, however many rows and tokens there are; what comes on top is linear in either: gradients of hidden states and
of the head."""


@dataclass(frozen=True)
class Head:
    """What makes logits of hidden states: a matrix [V, H], perhaps a bias [V], a temperature, a soft cap (Gemma 2)."""

    weight: Tensor
    bias: Tensor | None = None
    temperature: float = 1.0
    softcap: float = 0.0

    def logits(self, hidden: Tensor, columns: slice = slice(None)) -> Tensor:
        """[R, H] to [R, columns], in float32; computed in the matrix's type, whatever is autocast around it."""
        weight, bias = self.weight[columns], None if self.bias is None else self.bias[columns]
        with torch.autocast(hidden.device.type, enabled=False):
            logits = torch.nn.functional.linear(hidden.to(weight.dtype), weight, bias).float()
        if self.softcap:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return logits / self.temperature


def divergence(student: Tensor, teacher: Tensor, beta: float = 0.5, *, normalised: bool = False) -> Tensor:
    """D of each row. ``student`` and ``teacher`` are logits [R, V]; the result is [R], in nats.

    Raises ValueError for a beta outside [0, 1].
    """
    scale = _scale(beta, normalised)
    log_s, log_t = student.log_softmax(-1), teacher.detach().log_softmax(-1)
    return _sum_of(log_s, log_t, beta).sum(-1) * scale


def top_k_divergence(
    student: Tensor, teacher: Tensor, beta: float = 0.5, *, k: int, by: str = "student", normalised: bool = False
) -> Tensor:
    """As ``divergence``, over the ``k`` likeliest tokens of ``by`` and one bucket for all others.

    Never more than the divergence over the whole vocabulary (data processing), and equal to it when k = V.
    """
    scale = _scale(beta, normalised)
    log_s, log_t = student.log_softmax(-1), teacher.detach().log_softmax(-1)
    chosen = {"student": log_s.detach(), "teacher": log_t}[by].topk(min(k, log_s.shape[-1]), dim=-1).indices
    return _sum_of(_with_tail(log_s, chosen), _with_tail(log_t, chosen), beta).sum(-1) * scale


def sampled_token(student: Tensor, teacher: Tensor) -> Tensor:
    """Reverse KL from the sampled tokens alone: log-probabilities [R] of both. Its value is their difference, its
    gradient that of the score function, sg(log S - log T) grad log S, whose expectation is the gradient of KL(S || T).
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
    """``divergence`` of hidden states [R, H], through their heads, never holding more than rows x columns of logits.

    The same values and gradients (of ``student`` and of its head) as through whole logits, at any block size.
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
    """``top_k_divergence``, by the student, of hidden states [R, H]; holds ``rows`` rows of whole logits at a time."""

    def some(mine: Tensor, theirs: Tensor) -> Tensor:
        logits = student_head.logits(mine), teacher_head.logits(theirs)
        return top_k_divergence(*logits, beta, k=k, normalised=normalised)

    return _by_rows(some, rows, student, teacher.detach())


def log_probabilities(hidden: Tensor, head: Head, tokens: Tensor, *, rows: int = ROWS) -> Tensor:
    """The log-probability [R] of each row's token [R]; holds ``rows`` rows of whole logits at a time."""

    def some(part: Tensor, wanted: Tensor) -> Tensor:
        return head.logits(part).log_softmax(-1).gather(-1, wanted[:, None])[:, 0]

    return _by_rows(some, rows, hidden, tokens)


def _by_rows(each: Callable[..., Tensor], rows: int, *given: Tensor) -> Tensor:
    """``each`` of blocks of rows, one after the other; what it makes on the way is made again for the gradient."""
    from torch.utils.checkpoint import checkpoint

    parts = zip(*(tensor.split(rows) for tensor in given), strict=True)
    return torch.cat([checkpoint(each, *part, use_reentrant=False) for part in parts])


def _scale(beta: float, normalised: bool) -> float:
    if not 0 <= beta <= 1:
        raise ValueError(f"beta must lie in [0, 1], got {beta}")
    return 1 / (beta * (1 - beta)) if normalised and 0 < beta < 1 else 1.0


def _sum_of(log_s: Tensor, log_t: Tensor, beta: float) -> Tensor:
    """What each token adds to D; a token that neither gives any probability adds 0."""
    if beta == 0:
        return _times(log_t, log_t - log_s)
    if beta == 1:
        return _times(log_s, log_s - log_t)
    log_m = _mixed(log_s, log_t, beta)
    return beta * _times(log_t, log_t - log_m) + (1 - beta) * _times(log_s, log_s - log_m)


def _mixed(log_s: Tensor, log_t: Tensor, beta: float) -> Tensor:
    """Where both give nothing it is no number that counts, but finite: logaddexp has no gradient at twice -inf."""
    least = torch.finfo(log_s.dtype).min
    return torch.logaddexp(log_s.clamp(min=least) + math.log1p(-beta), log_t.clamp(min=least) + math.log(beta))


def _times(log_p: Tensor, gap: Tensor) -> Tensor:
    gone = log_p == -math.inf
    return log_p.exp() * torch.where(gone, torch.zeros_like(gap), gap)


def _with_tail(log_p: Tensor, chosen: Tensor) -> Tensor:
    """[R, V] to [R, k + 1]: the last is the log of what the others hold together."""
    kept = log_p.gather(-1, chosen)
    others = log_p.scatter(-1, chosen, -math.inf)
    if chosen.shape[-1] == log_p.shape[-1]:
        return kept
    nothing = (others == -math.inf).all(-1, keepdim=True)  # whose logsumexp has no gradient
    tail = others.masked_fill(nothing, 0.0).logsumexp(-1, keepdim=True).masked_fill(nothing, -math.inf)
    return torch.cat([kept, tail], dim=-1)


class _Fused(torch.autograd.Function):
    """Blocks of logits, made once to normalise, once to sum, and once more for the gradient.

    With g = dD/dS (up to a constant): (1 - beta)(log S - log M); -T / S at beta 0; log S - log T at beta 1; the
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
        for part in _parts(student.shape[0], rows):
            for some in _parts(weight.shape[0], columns):
                log_s = student_head.logits(student[part], some) - norms_s[part, None]
                log_t = teacher_head.logits(teacher[part], some) - norms_t[part, None]
                value[part] += _sum_of(log_s, log_t, beta).sum(-1)
                mean[part] += _slope(log_s, log_t, beta).sum(-1)
                del log_s, log_t  # before the next block is made
        ctx.save_for_backward(student, teacher, norms_s, norms_t, mean)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        student, teacher, norms_s, norms_t, mean = ctx.saved_tensors
        student_head, teacher_head = ctx.heads
        weight, bias = student_head.weight, student_head.bias
        wanted = ctx.needs_input_grad
        to_hidden = torch.zeros_like(student, dtype=torch.float32) if wanted[0] else None
        to_weight = torch.zeros_like(weight, dtype=torch.float32) if wanted[1] else None
        to_bias = torch.zeros_like(bias, dtype=torch.float32) if bias is not None and wanted[2] else None
        for part in _parts(student.shape[0], ctx.blocks[0]):
            for some in _parts(weight.shape[0], ctx.blocks[1]):
                logits = student_head.logits(student[part], some)
                log_s = logits - norms_s[part, None]
                log_t = teacher_head.logits(teacher[part], some) - norms_t[part, None]
                slope = _slope(log_s, log_t, ctx.beta) - log_s.exp() * mean[part, None]
                slope = slope * grads[0][part, None] / student_head.temperature
                if student_head.softcap:
                    slope = slope * (1 - (logits * student_head.temperature / student_head.softcap) ** 2)
                if to_hidden is not None:
                    to_hidden[part] += slope @ weight[some].float()
                if to_weight is not None:
                    to_weight[some] += slope.T @ student[part].float()
                if to_bias is not None:
                    to_bias[some] += slope.sum(0)
                del logits, log_s, log_t, slope
        found = (to_hidden, to_weight, to_bias)
        given = (student, weight, bias)
        cast = [None if g is None else g.to(x.dtype) for g, x in zip(found, given, strict=True)]
        return (*cast, None, None, None, None, None, None)


def _slope(log_s: Tensor, log_t: Tensor, beta: float) -> Tensor:
    """S g for each token (see ``_Fused``)."""
    if beta == 0:
        return -log_t.exp()
    if beta == 1:
        return _times(log_s, log_s - log_t)
    return (1 - beta) * _times(log_s, log_s - _mixed(log_s, log_t, beta))


def _normalisers(hidden: Tensor, head: Head, rows: int, columns: int) -> Tensor:
    """The log of the sum of exponentials of each row's logits, [R]."""
    norms = hidden.new_full((hidden.shape[0],), -math.inf, dtype=torch.float32)
    for part in _parts(hidden.shape[0], rows):
        for some in _parts(head.weight.shape[0], columns):
            norms[part] = torch.logaddexp(norms[part], head.logits(hidden[part], some).logsumexp(-1))
    return norms


def _parts(number: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, number)) for start in range(0, number, size))
