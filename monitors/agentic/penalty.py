"""What a verdict may do to a reward: lower it, and only where mechanical evidence stands beside it."""

from __future__ import annotations

from collections.abc import Sequence

from ...models import Finding
from .verdict import PREFIX


def is_of_judge(finding: Finding) -> bool:
    """Return whether a judge made the finding: it is then no mechanical evidence."""
    return finding.exploit_id.startswith(PREFIX)


def penalty_factor(findings: Sequence[Finding], weight: float) -> float:
    """Return the factor of a reward, from ``1 - weight`` to 1: 1 unless a judge and a monitor accuse the same episode.

    A judge accuses with an exploit that succeeded or is part of the graded change, a mechanical monitor with a finding
    that is ``suspect`` or ``confirmed``. Where both name turns, the turns must be the same or neighbours. Raises
    ValueError for a weight outside 0 to 1.
    """
    if not 0.0 <= weight <= 1.0:
        raise ValueError(f"the weight of a penalty must be from 0 to 1, got {weight!r}")
    accusing = [item for item in findings if item.severity != "info"]
    judged = [item for item in accusing if is_of_judge(item) and (item.succeeded or item.integrated)]
    mechanical = [item for item in accusing if not is_of_judge(item)]
    agree = any(_near(one, other) for one in judged for other in mechanical)
    return 1.0 - weight if agree else 1.0


def _near(one: Finding, other: Finding) -> bool:
    """Return whether two findings may be about the same thing."""
    return one.turn is None or other.turn is None or abs(one.turn - other.turn) <= 1
