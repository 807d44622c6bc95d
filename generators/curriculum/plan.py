"""Plan of a curriculum: which settings of which generators are asked for how many candidates.

The last run's skill and the fitted weights give the share of tries that each setting's typical task is expected to
fail. Settings within the band are asked for, those in its middle most. So the plan moves up the ladders, and from
small to combined tasks, as the solve rate rises, and down again as it falls.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...environments.rng import stream
from ...environments.tasks.static_features import TaskFeatures
from .band import Band
from .item_response import Fit, fit
from .ladder import Setting
from .play_log import PlayLog
from .priors import vector

PER_GENERATOR = 2
"""Most settings of one generator in a plan."""
OUTSIDE = 3
"""Settings that are asked for where none is within the band: those nearest to it."""


@dataclass(frozen=True)
class Request:
    """Candidates of one setting."""

    setting: Setting
    """Generator and knobs."""
    count: int
    """Number of candidates to ask for on each source."""
    failure_rate: float
    """Share of tries that its typical task is expected to fail."""


@dataclass(frozen=True)
class Plan:
    """What a curriculum asks for, and why."""

    requests: Sequence[Request]
    """Settings, the ones with the most candidates first."""
    fit: Fit
    """What the runs say about skill and difficulty."""
    log: PlayLog
    """The runs."""
    band: Band
    """Difficulties that are asked for."""

    @property
    def warning(self) -> str:
        """Return why no setting is within the band, in one line; empty when one is."""
        rates = [request.failure_rate for request in self.requests]
        if any(rate in self.band for rate in rates):
            return ""
        is_hard = min(rates) > self.band.high
        problem = "the easiest setting is expected to fail in" if is_hard else "the hardest setting fails only in"
        rate = min(rates) if is_hard else max(rates)
        return f"{problem} {rate:.0%} of the tries; add generators to -g that are {'easier' if is_hard else 'harder'}"

    @property
    def digest(self) -> str:
        """Return a digest of what is asked for: two plans with the same one give the same tasks."""
        data = [[request.setting.generator, dict(request.setting.knobs), request.count] for request in self.requests]
        text = json.dumps([data, sorted(self.outgrown())], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def outgrown(self) -> set[str]:
        """Return the played tasks that the last player is expected to solve, or to fail, too often."""
        vectors = {task: vector(features) for task, features in self.log.features.items()}
        return {task for task, numbers in vectors.items() if self.fit.failure_rate(numbers, task) not in self.band}

    def report(self) -> dict[str, Any]:
        """Return the plan as JSON values, for ``report.json``."""
        return {
            "runs": self.log.runs,
            "solve_rate": round(self.log.solve_rate(), 4),
            "skill": round(self.fit.skill, 3),
            "band": str(self.band),
            "solved_sometimes": self.log.of_both(),
            "requests": [
                {**asdict(request.setting), "count": request.count, "expected_failure_rate": request.failure_rate}
                for request in self.requests
            ],
            "warning": self.warning,
        }


def make_plan(ladders: Mapping[str, Sequence[Setting]], log: PlayLog, band: Band, count: int, seed: int) -> Plan:
    """Return the plan for ``count`` candidates per generator on average; it depends on the arguments alone."""
    fitted = fit(log.plays, {task: vector(features) for task, features in log.features.items()})
    played: dict[str, list[TaskFeatures]] = {}
    for _, features in sorted(log.features.items()):
        played.setdefault(features.generator, []).append(features)
    rated = [
        (setting, _expected_failure_rate(setting, fitted, played.get(setting.generator, [])))
        for settings in ladders.values()
        for setting in settings
    ]
    chosen = _within(rated, band) or _nearest(rated, band)
    weights = [_weight(rate, band) for _, rate in chosen]
    counts = _shares(weights, count * len(ladders), [_tie(seed, setting) for setting, _ in chosen])
    requests = [Request(setting, share, rate) for (setting, rate), share in zip(chosen, counts, strict=True) if share]
    requests.sort(key=lambda item: (-item.count, item.setting.generator, item.setting.step))
    return Plan(requests, fitted, log, band)


def _expected_failure_rate(setting: Setting, fitted: Fit, played: Sequence[TaskFeatures]) -> float:
    """Return the expected share of failed tries, rounded so that no last bit of a machine decides a tie."""
    return round(fitted.failure_rate(vector(setting.typical_features(played))), 3)


Rated = tuple[Setting, float]
"""A setting and its expected share of failed tries."""


def _within(rated: Sequence[Rated], band: Band) -> list[Rated]:
    """Return the settings within the band, of each generator those nearest to its middle."""
    chosen: dict[str, list[Rated]] = {}
    for item in sorted(rated, key=lambda item: (abs(item[1] - band.middle), item[0].generator, item[0].step)):
        nearest = chosen.setdefault(item[0].generator, [])
        if item[1] in band and len(nearest) < PER_GENERATOR:
            nearest.append(item)
    return [item for settings in chosen.values() for item in settings]


def _nearest(rated: Sequence[Rated], band: Band) -> list[Rated]:
    """Return the settings nearest to the band, at most one of each generator."""
    order = sorted(rated, key=lambda item: (abs(item[1] - band.middle), item[0].generator, item[0].step))
    nearest = {item[0].generator: item for item in reversed(order)}
    return sorted(nearest.values(), key=order.index)[:OUTSIDE]


def _weight(rate: float, band: Band) -> float:
    """Return how much is asked of a setting: 1 in the middle of the band, a seventh at its ends and outside."""
    away = (rate - band.middle) / (band.high - band.low) * 2
    return math.exp(-2 * min(abs(away), 1.0) ** 2)


def _shares(weights: Sequence[float], total: int, ties: Sequence[float]) -> list[int]:
    """Return whole shares of ``total`` in proportion to the weights; the largest remainders get the ones left over."""
    exact = [total * weight / sum(weights) for weight in weights]
    shares = [math.floor(share) for share in exact]
    order = sorted(range(len(exact)), key=lambda place: (round(shares[place] - exact[place], 6), ties[place]))
    for place in order[: total - sum(shares)]:
        shares[place] += 1
    return shares


def _tie(seed: int, setting: Setting) -> float:
    return stream(seed, f"curriculum {setting.generator}", setting.step).random()
