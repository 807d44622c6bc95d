"""Report of trials: the difference that each hint made, and that of all hints of a kind or a template together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

from ...intervals import Arms, Interval, newcombe, stratified
from ..runs.reader import Stored
from ..runs.scores import totals
from ..snapshots.store.cache import write_whole
from .fork_points import Place, every_place
from .hint_policy import arm_of
from .trials import Trial

HINTS_FILE = "hints.jsonl"


@dataclass(frozen=True)
class HintScore:
    """A hint at one error turn. ``difference`` is None until there is a valid trial with it and one without."""

    place: str
    kind: str
    arm: str
    trials: Arms
    difference: Interval | None


@dataclass(frozen=True)
class PooledScore:
    """Hints of one kind or template (``by``): the mean difference over their error turns, and its interval."""

    by: str
    name: str
    error_turns: int
    trials: Arms
    difference: Interval | None

    def row(self) -> dict[str, Any]:
        """Return plain values for a table."""
        difference, arms = self.difference, self.trials
        return {
            "by": self.by,
            "name": self.name,
            "error_turns": self.error_turns,
            "with": f"{arms.with_successes:g}/{arms.with_trials:g}",
            "without": f"{arms.without_successes:g}/{arms.without_trials:g}",
            "difference": difference and difference.value,
            "low": difference and difference.low,
            "high": difference and difference.high,
        }


@dataclass(frozen=True)
class CausalReport:
    """Report of a measurement.

    Of all ``error_turns`` of the run, ``measured`` were measured; ``without_hint`` had no hint, ``unreached`` no turn
    that a hint could change. Trials that are not valid count in ``void`` and ``causes`` alone.
    """

    error_turns: int
    without_hint: int
    unreached: int
    measured: int
    valid: dict[str, int]
    void: dict[str, int]
    causes: dict[str, int]
    replayed: int
    diverged: int
    pooled: list[PooledScore]
    hints: list[HintScore]
    usage: dict[str, float] = field(default_factory=dict)
    out: str = ""

    @property
    def ok(self) -> bool:
        """Return whether every trial was valid."""
        return self.measured > 0 and not any(self.void.values())


def report(episodes: Sequence[Stored], places: Sequence[Place], trials: Sequence[Trial], out: str) -> CausalReport:
    """Return the report of a measurement: ``places`` of ``episodes`` and their ``trials``."""
    every = every_place(episodes)
    valid = [trial for trial in trials if trial.valid]
    void = [trial for trial in trials if not trial.valid]
    return CausalReport(
        error_turns=len(every),
        without_hint=sum(not place.error.hints for place in every),
        unreached=sum(not place.is_reached and bool(place.error.hints) for place in every),
        measured=len(places),
        valid=_by_side(valid),
        void=_by_side(void),
        causes=dict(Counter(trial.cause or "not graded" for trial in void).most_common()),
        replayed=sum(trial.replayed for trial in valid),
        diverged=sum(trial.diverged for trial in valid),
        pooled=_pooled(places, valid),
        hints=_scores(places, valid),
        usage=totals([asdict(trial) for trial in trials]),
        out=out,
    )


def write_hints(out: Path, places: Iterable[Place], result: CausalReport, *, learned: bool) -> None:
    """Write ``OUT/hints.jsonl``: each measured ErrorTurn, its hints with scores, and the scores with intervals.

    ``learned`` marks the hints that were tried as chosen by a learned policy.
    """
    by_place: dict[str, dict[str, HintScore]] = {}
    for score in result.hints:
        by_place.setdefault(score.place, {})[score.arm] = score
    lines = []
    for place in places:
        scores, stored = by_place.get(place.name, {}), place.stored
        error = place.error.model_copy(deep=True)
        scored: set[str] = set()
        for hint in error.hints:
            arm = arm_of(hint)
            score_of_arm = scores.get(arm)
            if score_of_arm is None or arm in scored:
                continue
            scored.add(arm)
            hint.score = None if score_of_arm.difference is None else score_of_arm.difference.value
            hint.source = "learned" if learned and len(place.hints()) > 1 else hint.source
        row = {"task_id": stored.episode.task_id, "sample": stored.sample, "episode_id": stored.episode.episode_id}
        row |= {"error_turn": error.model_dump(mode="json"), "scores": [asdict(score) for score in scores.values()]}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_whole(out / HINTS_FILE, "".join(lines).encode())


def _scores(places: Sequence[Place], valid: Sequence[Trial]) -> list[HintScore]:
    """Return a score for each hint that was tried at an error turn, in the order of the places."""
    by_place = _grouped(valid)
    scores = []
    for place in places:
        trials = by_place.get(place.name, ())
        for arm in dict.fromkeys(trial.arm for trial in trials if trial.arms):
            arms = _arms(trials, arm)
            difference = newcombe(arms) if arms.comparable else None
            scores.append(HintScore(place.name, place.error.kind, arm, arms, difference))
    return scores


def _pooled(places: Sequence[Place], valid: Sequence[Trial]) -> list[PooledScore]:
    """Return the scores of all trials together, by kind of error, and by hint."""
    by_place = _grouped(valid)
    strata: dict[tuple[str, str], list[Arms]] = {("all", "all"): []}
    for place in places:
        trials = by_place.get(place.name, ())
        for key in (("all", "all"), ("kind", str(place.error.kind))):
            strata.setdefault(key, []).append(_arms(trials))
        for arm in {trial.arm for trial in trials if trial.arms}:
            strata.setdefault(("hint", arm), []).append(_arms(trials, arm))
    return [
        PooledScore(by, name, len(strata[by, name]), _added(strata[by, name]), stratified(strata[by, name]))
        for by, name in sorted(strata, key=lambda key: (["all", "kind", "hint"].index(key[0]), key[1]))
    ]


def _grouped(trials: Iterable[Trial]) -> Mapping[str, Sequence[Trial]]:
    by_place: dict[str, list[Trial]] = {}
    for trial in trials:
        by_place.setdefault(trial.place, []).append(trial)
    return by_place


def _arms(trials: Sequence[Trial], arm: str | None = None) -> Arms:
    """Return the counts of one place, with ``arm`` (None: any hint) and without a hint."""
    with_hint = [trial.success for trial in trials if trial.arms and arm in (None, trial.arm)]
    without = [trial.success for trial in trials if not trial.arms]
    return Arms(sum(with_hint), len(with_hint), sum(without), len(without))


def _added(strata: Sequence[Arms]) -> Arms:
    return Arms(*(sum(column) for column in zip(*map(astuple, strata), strict=True)))


def _by_side(trials: Sequence[Trial]) -> dict[str, int]:
    return {
        "with": sum(bool(trial.arms) for trial in trials),
        "without": sum(not trial.arms for trial in trials),
    }
