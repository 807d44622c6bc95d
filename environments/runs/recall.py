"""How much of a solve rate is recall: the difference between tasks and their renamed twins.

A twin asks for the same change of the same code under other names (``etude generate --obfuscate``). The part of the
solve rate that is lost there came from names: from remembering the repository, or from what good names say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...intervals import Arms, stratified

Row = Mapping[str, Any]


def recall_rates(rows: Sequence[Row], twins: Mapping[str, str]) -> dict[str, float]:
    """Return the solve rates of tasks and of their renamed twins, and their difference with its 95 % interval.

    ``twins`` maps the id of a twin to that of its task. Only pairs count of which both were played and scored. The
    rates and the difference are means over these pairs, weighted by their episodes (``intervals.stratified``). Empty
    when there is no such pair.
    """
    solved: dict[str, list[bool]] = {}
    for row in rows:
        if row["reward"]["valid"]:
            solved.setdefault(row["task_id"], []).append(row["reward"]["value"] == 1.0)
    pairs = [(solved[task], solved[twin]) for twin, task in twins.items() if twin in solved and task in solved]
    gap = stratified([Arms(sum(one), len(one), sum(other), len(other)) for one, other in pairs])
    if gap is None:
        return {}
    weights = [len(one) * len(other) / (len(one) + len(other)) for one, other in pairs]
    rates = [
        sum(weight * sum(part) / len(part) for weight, part in zip(weights, side, strict=True)) / sum(weights)
        for side in zip(*pairs, strict=True)
    ]
    return {
        "pairs": len(pairs),
        "rate": rates[0],
        "twin_rate": rates[1],
        "difference": gap.value,
        "low": gap.low,
        "high": gap.high,
    }
