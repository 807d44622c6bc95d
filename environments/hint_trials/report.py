"""What trials came to: the difference that each hint made, and what hints of a kind or a template made together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...intervals import Arms, Interval, newcombe, stratified
from ..runs.reader import Stored
from ..runs.scores import totals
from ..snapshots.store.cache import write_whole
from .fork_points import Place
from .hint_policy import arm_of
from .log import Trial

HINTS_FILE = "hints.jsonl"


@dataclass(frozen=True)
class HintScore:
    """One hint at one error turn. ``difference`` is ``None`` until there is a valid trial with it and one without."""

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
        found, arms = self.difference, self.trials
        return {
            "by": self.by,
            "name": self.name,
            "error_turns": self.error_turns,
            "with": f"{arms.with_successes:g}/{arms.with_trials:g}",
            "without": f"{arms.without_successes:g}/{arms.without_trials:g}",
            "difference": found and found.value,
            "low": found and found.low,
            "high": found and found.high,
        }


@dataclass(frozen=True)
class CausalReport:
    """Of all ``error_turns`` of the run, ``measured`` were; ``without_hint`` had none, ``unreached`` no turn to change.

    Trials that were not valid are in ``void`` and in no other number. ``replayed`` and ``diverged`` count valid ones.
    ``ok``: every trial was valid.
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
        return self.measured > 0 and not any(self.void.values())


def report(episodes: Sequence[Stored], places: Sequence[Place], trials: Sequence[Trial], out: str) -> CausalReport:
    """The report of a measurement: ``places`` of ``episodes`` and their ``trials``."""
    errors = [(error, one) for one in episodes for error in one.episode.error_turns]
    late = [error.turn + (error.site == "recovery") >= len(one.episode.turns) for error, one in errors]
    bare = [not error.hints for error, _ in errors]
    valid = [trial for trial in trials if trial.valid]
    void = [trial for trial in trials if not trial.valid]
    return CausalReport(
        error_turns=len(errors),
        without_hint=sum(bare),
        unreached=sum(is_late and not is_bare for is_late, is_bare in zip(late, bare, strict=True)),
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


def write_hints(out: Path, places: Iterable[Place], found: CausalReport, *, learned: bool) -> None:
    """``OUT/hints.jsonl``: each measured ErrorTurn, its hints with their scores, and the scores with their intervals.

    ``learned``: a chooser chose the hints that were tried.
    """
    by_place: dict[str, dict[str, HintScore]] = {}
    for score in found.hints:
        by_place.setdefault(score.place, {})[score.arm] = score
    lines = []
    for place in places:
        scores, one = by_place.get(place.name, {}), place.stored
        error = place.error.model_copy(deep=True)
        seen: set[str] = set()
        for hint in error.hints:
            arm = arm_of(hint)
            tried = scores.get(arm)
            if tried is None or arm in seen:
                continue
            seen.add(arm)
            hint.score = None if tried.difference is None else tried.difference.value
            hint.source = "learned" if learned and len(place.hints()) > 1 else hint.source
        row = {"task_id": one.episode.task_id, "sample": one.sample, "episode_id": one.episode.episode_id}
        row |= {"error_turn": error.model_dump(mode="json"), "scores": [asdict(score) for score in scores.values()]}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_whole(out / HINTS_FILE, "".join(lines).encode())


def _scores(places: Sequence[Place], valid: Sequence[Trial]) -> list[HintScore]:
    """One per error turn and hint that was tried there, in the order of the places."""
    of_place = _grouped(valid)
    found = []
    for place in places:
        here = of_place.get(place.name, ())
        for arm in dict.fromkeys(trial.arm for trial in here if trial.arms):
            arms = _arms(here, arm)
            difference = newcombe(arms) if arms.comparable else None
            found.append(HintScore(place.name, place.error.kind, arm, arms, difference))
    return found


def _pooled(places: Sequence[Place], valid: Sequence[Trial]) -> list[PooledScore]:
    """All together, by kind of error, and by template."""
    of_place = _grouped(valid)
    strata: dict[tuple[str, str], list[Arms]] = {("all", "all"): []}
    for place in places:
        here = of_place.get(place.name, ())
        for key in (("all", "all"), ("kind", str(place.error.kind))):
            strata.setdefault(key, []).append(_arms(here))
        for arm in {trial.arm for trial in here if trial.arms}:
            strata.setdefault(("hint", arm), []).append(_arms(here, arm))
    return [
        PooledScore(by, name, len(strata[by, name]), _added(strata[by, name]), stratified(strata[by, name]))
        for by, name in sorted(strata, key=lambda key: (["all", "kind", "hint"].index(key[0]), key[1]))
    ]


def _grouped(trials: Iterable[Trial]) -> Mapping[str, Sequence[Trial]]:
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.place, []).append(trial)
    return found


def _arms(trials: Sequence[Trial], arm: str | None = None) -> Arms:
    """Counts of one place, with ``arm`` (``None``: any hint) and without a hint."""
    said = [trial.success for trial in trials if trial.arms and arm in (None, trial.arm)]
    plain = [trial.success for trial in trials if not trial.arms]
    return Arms(sum(said), len(said), sum(plain), len(plain))


def _added(strata: Sequence[Arms]) -> Arms:
    return Arms(
        sum(arms.with_successes for arms in strata),
        sum(arms.with_trials for arms in strata),
        sum(arms.without_successes for arms in strata),
        sum(arms.without_trials for arms in strata),
    )


def _by_side(trials: Sequence[Trial]) -> dict[str, int]:
    return {
        "with": sum(bool(trial.arms) for trial in trials),
        "without": sum(not trial.arms for trial in trials),
    }
