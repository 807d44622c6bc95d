"""Newton-Schulz iteration: the orthogonal factor of many matrices at once, by matrix products alone.

For a matrix with the singular value decomposition U S V^T the result is close to U V^T. How close depends on the
coefficients and on how small singular values are (coefficients.py). Two methods compute the same polynomial:

- ``direct``: each step forms X X^T and multiplies it to X (Muon, Jordan et al. 2024).
- ``gram``: the steps act on the Gram matrix X X^T of the short side alone, and one product at the end gives X. It is
  cheaper for oblong matrices. Rounding errors of the Gram matrix grow, so it restarts from X after ``RESTART_AFTER``
  steps, and it needs the precision of float16: with bfloat16 a small transformer diverged within 40 steps.

Nothing here waits for the device or depends on values, so both can be captured in a CUDA graph and compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .coefficients import MARGINS, Triple, coefficients

METHODS = ("direct", "gram")
RESTART_AFTER = 2
EPS = 1e-7


def orthogonalize(
    matrices: Tensor,
    name: str = "polar_express",
    *,
    steps: int | None = None,
    method: str = "direct",
    symmetric: bool = False,
    dtype: torch.dtype | None = None,
    eps: float = EPS,
) -> Tensor:
    """Return the orthogonal factors of ``matrices`` [..., M, N] with the same shape, in ``dtype``.

    Leading dimensions are a batch. ``iteration_type`` says which type is the default. A matrix of zeros stays zero.
    With ``symmetric`` a product X X^T is formed from three of its four quarters, which pays where matrix products are
    limited by arithmetic. Raise ValueError for an unknown name or method, and for the Gram method in bfloat16.
    """
    triples, dtype = coefficients(name, steps), iteration_type(method, matrices.device, dtype)
    tall = matrices.size(-2) > matrices.size(-1)
    # float16 has too small a range for gradients, so those are divided by their norm before
    first = torch.float32 if dtype == torch.float16 else dtype
    wide = (matrices.mT if tall else matrices).to(first, copy=True)
    norm = torch.linalg.vector_norm(wide, dim=(-2, -1), keepdim=True)
    wide = wide.div_((norm * MARGINS.get(name, 1.0)).clamp(min=eps)).to(dtype)
    flat = wide.reshape(-1, *wide.shape[-2:])
    result = (_direct if method == "direct" else _gram)(flat, triples, symmetric).view(wide.shape)
    return result.mT if tall else result


def iteration_type(method: str, device: torch.device, dtype: torch.dtype | None = None) -> torch.dtype:
    """Return the type of a method's iteration.

    The default is bfloat16 for ``direct``. For ``gram`` it is float16, on a CPU float32: few CPUs multiply float16.
    Raise ValueError for an unknown method, and for the Gram method in bfloat16.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    if method == "gram" and dtype == torch.bfloat16:
        raise ValueError("the gram method diverges in bfloat16; use float16 or float32")
    if dtype is not None:
        return dtype
    if method == "direct":
        return torch.bfloat16
    return torch.float32 if device.type == "cpu" else torch.float16


def _direct(x: Tensor, triples: Sequence[Triple], symmetric: bool) -> Tensor:
    for a, b, c in triples:
        gram = _with_transpose(x, symmetric)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _gram(x: Tensor, triples: Sequence[Triple], symmetric: bool) -> Tensor:
    """Apply the steps to the Gram matrix R: with P = a + b R + c R^2, X becomes P X and R becomes P R P."""
    starts = [0, RESTART_AFTER] if len(triples) > RESTART_AFTER else [0]
    for start, stop in zip(starts, [*starts[1:], len(triples)], strict=True):
        gram, factor = _with_transpose(x, symmetric), None
        for index, (a, b, c) in enumerate(triples[start:stop], start):
            polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
            polynomial.diagonal(dim1=-2, dim2=-1).add_(a)
            factor = polynomial if factor is None else torch.bmm(polynomial, factor)
            if index + 1 < stop:
                gram = torch.bmm(torch.bmm(polynomial, gram), polynomial)
        assert factor is not None
        x = torch.bmm(factor, x)
    return x


def _with_transpose(x: Tensor, symmetric: bool) -> Tensor:
    """Return X X^T of each matrix [B, M, N]."""
    if not symmetric:
        return torch.bmm(x, x.mT)
    rows = x.size(-2)
    half = rows // 2
    upper, lower = x[:, :half], x[:, half:]
    result = x.new_empty(x.size(0), rows, rows)
    result[:, :half, :half] = torch.bmm(upper, upper.mT)
    result[:, half:, half:] = torch.bmm(lower, lower.mT)
    corner = torch.bmm(lower, upper.mT)
    result[:, half:, :half] = corner
    result[:, :half, half:] = corner.mT
    return result
