"""From the teachers' answers in one state to a preference pair, or to none, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ...errors import ReplayError
from ...models import Record
from .action_equality import Canonical, is_same, similarity
from .settings import Consensus as Rules

_ENOUGH = 1e-9
_STRENGTH = 10.0
"""Of how many executed answers a first guess at a teacher's accuracy is worth."""
_SEEN = 0.75
"""Of wrong answers that are executed, the share that is presumed to be seen to fail; the others do no harm."""


class Reliability:
    """How often each teacher is right, by the kind of error that the student made: a Beta posterior's mean.

    What it does at other kinds is the prior of what it does at one, and ``first`` the prior of that. An answer that
    merely did no harm counts as right by the odds that it was: a / (a + (1 - a) (1 - seen)), with a as known so far.
    """

    def __init__(self, first: Mapping[str, float]) -> None:
        self._first = dict(first)
        self._counts: dict[tuple[str, str], tuple[float, float]] = {}

    def observe(self, teacher: str, kind: str, score: float) -> None:
        """An executed answer: right above 0, wrong below; at 0 it did no harm."""
        right, wrong = self._counts.get((teacher, kind), (0.0, 0.0))
        known = self.accuracy(teacher, kind)
        odds = known / (known + (1 - known) * (1 - _SEEN)) if score == 0 else float(score > 0)
        self._counts[teacher, kind] = (right + odds, wrong + 1 - odds)

    def accuracy(self, teacher: str, kind: str = "") -> float:
        """In (0, 1); ``kind`` '' is that of turns without an error."""
        return _mean(self.overall(teacher, without=kind), *self._counts.get((teacher, kind), (0.0, 0.0)))

    def overall(self, teacher: str, without: str | None = None) -> float:
        """In (0, 1): over all its executed answers, each counted once; those at one kind of error may be left out."""
        each = sorted(self._counts.items())
        counts = [count for (name, kind), count in each if name == teacher and kind != without]
        return _mean(self._first[teacher], sum(c[0] for c in counts), sum(c[1] for c in counts))

    def table(self) -> dict[str, dict[str, float]]:
        """Every teacher's accuracy, under '' in general, and by kind of error."""
        kinds = {name: sorted({kind for who, kind in self._counts if who == name and kind}) for name in self._first}
        return {
            name: {"": round(self.overall(name), 4), **{k: round(self.accuracy(name, k), 4) for k in kinds[name]}}
            for name in self._first
        }


@dataclass(frozen=True)
class Agreement:
    """Answers as clusters, by weight; ``share`` is the first one's of all weight, ``margin`` its lead over the second.
    ``medoids`` has each cluster's answer that is most like the others, the shortest of equal ones; where any was
    executed, one of these. No two answers of a cluster were told apart by execution."""

    clusters: tuple[tuple[int, ...], ...]
    medoids: tuple[int, ...]
    share: float
    margin: float


@dataclass(frozen=True)
class Decision:
    """``kind``: ``correct`` (an answer over the student's action), ``student_good`` (the student's action over an
    answer), or '' for no pair. ``answer`` is the index of that answer."""

    kind: Literal["", "correct", "student_good"]
    reason: str
    answer: int = -1
    agreement: Agreement | None = None


class Pair(Record):
    """One line of a file of pairs: both actions in the same state, as the wire takes them, and where they come from.

    ``values`` are executed ones by teacher, and by ``student``; ``how`` each was found out. ``usd`` is what this turn's
    answers took, ``propensity`` the probability with which the turn was asked about at all.
    """

    schema_version: int = 1
    kind: Literal["correct", "student_good"]
    episode_id: str
    task_id: str
    turn: int
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    chosen: dict[str, Any]
    rejected: dict[str, Any]
    error: str = ""
    reason: str = ""
    share: float
    margin: float
    teachers: dict[str, dict[str, Any] | None]
    weights: dict[str, float]
    values: dict[str, float] = Field(default_factory=dict)
    how: dict[str, str] = Field(default_factory=dict)
    tokens: dict[str, tuple[int, int]] = Field(default_factory=dict)
    usd: dict[str, float] = Field(default_factory=dict)
    propensity: float = 1.0


@dataclass(frozen=True)
class Heard:
    """One teacher's answer. ``value`` None: it was not executed."""

    action: Canonical
    weight: float
    value: float | None = None


def agreement(heard: Sequence[Heard], tau: float) -> Agreement | None:
    """None for no answers. Two answers are in one cluster when a chain of answers, each ``is_same`` as the next, leads
    from one to the other; so the result does not depend on the order of teachers."""
    if not heard:
        return None
    clusters = linked(heard, tau)
    medoids = {cluster: _medoid(cluster, heard) for cluster in clusters}
    total = sum(each.weight for each in heard)
    mass = {cluster: sum(heard[index].weight for index in cluster) / total for cluster in clusters}

    ordered = sorted(clusters, key=lambda cluster: (-round(mass[cluster], 12), repr(heard[medoids[cluster]].action)))
    second = mass[ordered[1]] if len(ordered) > 1 else 0.0
    return Agreement(
        tuple(ordered), tuple(medoids[cluster] for cluster in ordered), mass[ordered[0]], mass[ordered[0]] - second
    )


def linked(heard: Sequence[Heard], tau: float) -> list[tuple[int, ...]]:
    """The clusters of ``agreement``, by their first index. Where an answer that was not executed would join two that
    were told apart, those that were executed are linked without it."""
    found = []
    for cluster in _components(range(len(heard)), heard, tau):
        known = {heard[index].value for index in cluster} - {None}
        executed = [index for index in cluster if heard[index].value is not None]
        others = [index for index in cluster if heard[index].value is None]
        apart = len(known) > 1
        found += [*_components(executed, heard, tau), *_components(others, heard, tau)] if apart else [cluster]
    return sorted(found)


def decide(student: Canonical, student_value: float | None, heard: Sequence[Heard], rules: Rules) -> Decision:
    """Execution first: an answer that it proves better needs no agreement, and no agreement saves one that erred."""
    heard = [_known(each, student, student_value) for each in heard]
    found = agreement(heard, rules.tau)
    if found is None:
        return Decision("", "no answers")
    mine = student_value or 0.0
    others = {i for i, each in enumerate(heard) if not is_students(student, student_value, each, rules)}
    proved = [i for i in found.medoids if i in others and (heard[i].value or 0.0) > max(mine, 0.0)]
    if proved:
        best = max(proved, key=lambda i: (heard[i].value or 0.0, -found.medoids.index(i)))
        return Decision("correct", "proved by execution", best, found)
    first, chosen = found.clusters[0], found.medoids[0]
    if found.share < rules.share - _ENOUGH or found.margin < rules.margin - _ENOUGH:
        return Decision("", "teachers split", agreement=found)
    if len(first) < rules.least:
        return Decision("", "too few answers", agreement=found)
    if not others.issuperset(first):
        return _student_good(student_value, heard, found, others)
    value = heard[chosen].value
    if value is not None and value < 0:
        return Decision("", "the consensus erred", agreement=found)
    if (value or 0.0) < mine:
        return Decision("", "the student's action is worth more", agreement=found)
    return Decision("correct", "consensus", chosen, found)


def is_students(student: Canonical, student_value: float | None, answer: Heard, rules: Rules) -> bool:
    """Whether a teacher's answer is what the student did, see ``is_same``: where that erred, the very same only."""
    return is_same(student, answer.action, rules.tau, student_value, answer.value)


def disagreed(
    student: Canonical, student_value: float | None, heard: Sequence[Heard], decision: Decision, rules: Rules
) -> bool:
    """What the gate learns from a ``decision`` about answers: whether they made a better one than the student's, or
    most teachers gave another."""
    assert decision.agreement is not None, "somebody was heard"
    each = zip(decision.agreement.clusters, decision.agreement.medoids, strict=True)
    _, _, leading = min((-len(cluster), repr(heard[medoid].action), medoid) for cluster, medoid in each)
    return decision.kind == "correct" or not is_students(student, student_value, heard[leading], rules)


def read_pairs(path: Path) -> list[Pair]:
    """Raises ReplayError for a file that cannot be read or that holds none."""
    try:
        lines = path.read_bytes().split(b"\n")  # not splitlines: what teachers say may hold other ends of lines
    except OSError as error:
        raise ReplayError(f"cannot read {path} ({error.strerror}): `etude replay` writes it") from None
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append(Pair.model_validate_json(line))
        except ValueError:
            raise ReplayError(f"{path}:{number} is no pair: remove the line, or replay again") from None
    if not found:
        raise ReplayError(f"{path} holds no pair: there is nothing to learn from in channels.replay")
    return found


def _student_good(value: float | None, heard: Sequence[Heard], found: Agreement, others: set[int]) -> Decision:
    """The others agree with the student, and one answer was seen to fail."""
    failed = [i for cluster in found.clusters[1:] for i in cluster if i in others and (heard[i].value or 0.0) < 0]
    if not failed or (value is not None and value < 0):
        return Decision("", "the student agrees", agreement=found)
    return Decision("student_good", "an outlier failed", min(failed, key=lambda i: repr(heard[i].action)), found)


def _known(answer: Heard, student: Canonical, value: float | None) -> Heard:
    """The student's very action has its value, executed again or not."""
    return replace(answer, value=value) if answer.value is None and answer.action == student else answer


def _components(among: Sequence[int], heard: Sequence[Heard], tau: float) -> list[tuple[int, ...]]:
    """Connected ones."""
    left, found = set(among), []
    while left:
        waiting, cluster = [min(left)], set()
        while waiting:
            here = waiting.pop()
            cluster.add(here)
            left.discard(here)
            mine = heard[here]
            waiting += [i for i in left if is_same(mine.action, heard[i].action, tau, mine.value, heard[i].value)]
        found.append(tuple(sorted(cluster)))
    return found


def _medoid(cluster: tuple[int, ...], heard: Sequence[Heard]) -> int:
    def rank(index: int) -> tuple[bool, float, int, str]:
        mine = heard[index]
        likeness = sum(heard[i].weight * similarity(mine.action, heard[i].action) for i in cluster)
        return (mine.value is None, -round(likeness, 9), mine.action.size, repr(mine.action))

    return min(cluster, key=rank)


def _mean(prior: float, right: float, wrong: float) -> float:
    return (prior * _STRENGTH + right) / (_STRENGTH + right + wrong)
