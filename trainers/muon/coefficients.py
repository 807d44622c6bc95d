"""Coefficients of the Newton-Schulz iteration, by name.

One step maps each singular value s of a matrix to a s + b s^3 + c s^5. A set lists (a, b, c) of every step; when more
steps are asked for, the last triple repeats.
"""

from __future__ import annotations

Triple = tuple[float, float, float]

COEFFICIENTS: dict[str, tuple[Triple, ...]] = {
    "polar_express": (
        (8.156554524902461, -22.48329292557795, 15.878769915207462),
        (4.042929935166739, -2.808917465908714, 0.5000178451051316),
        (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
        (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
        (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
    ),
    "jordan": ((3.4445, -4.775, 2.0315),) * 5,
    "you": (
        (4.0848, -6.8946, 2.9270),
        (3.9505, -6.3029, 2.6377),
        (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046),
        (2.8366, -3.0525, 1.2012),
    ),
    "exact": ((3.4445, -4.775, 2.0315),) * 8 + ((2.0, -1.5, 0.5),) * 2,
}
"""``polar_express``: the composition with the least worst-case error (arXiv:2505.16932), for five steps and a norm
that is 2 % too large. ``jordan``: one triple with the steepest slope at 0, as in torch.optim.Muon. ``you``: five
triples that end closer to 1. ``exact``: ten steps whose result is the polar factor in float32."""

MARGINS = {"polar_express": 1.02}
"""Factor by which the norm is enlarged before the first step, 1 where it is not given."""


def coefficients(name: str, steps: int | None = None) -> tuple[Triple, ...]:
    """Return the triples of each step of a set, all of it by default.

    Raise ValueError for an unknown name and for fewer than one step.
    """
    if name not in COEFFICIENTS:
        raise ValueError(f"unknown coefficients {name!r}; choose one of {', '.join(COEFFICIENTS)}")
    triples = COEFFICIENTS[name]
    if steps is None:
        return triples
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    return (triples + (triples[-1],) * steps)[:steps]


def newton_schulz_flops(rows: int, columns: int, steps: int = 5, *, gram: bool = False, restarts: int = 1) -> int:
    """Return the floating point operations of matrix products for one matrix, 2 for each multiplication.

    With k <= l the sides: the direct iteration takes 4 k^2 l + 2 k^3 for a step. The one on Gram matrices takes 2 k^2 l
    for each start and each end, 8 k^3 for a step and 4 k^3 less where nothing has to be updated or multiplied yet.
    """
    short, long = sorted((rows, columns))
    if not gram:
        return steps * (4 * short**2 * long + 2 * short**3)
    parts = restarts + 1
    return parts * 4 * short**2 * long + steps * 8 * short**3 - parts * 6 * short**3
