"""Preference pairs: from the teachers' answers in one state to a pair, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ...errors import ReplayError
from ...models import Record
from .settings import Consensus as Rules
from .turns.action_equality import Canonical, is_same, similarity

_ROUNDING = 1e-9
_PRIOR_STRENGTH = 10.0
"""Number of executed answers that the initial estimate of a teacher's accuracy is worth."""
_DETECTED = 0.75
"""Share of wrong executed answers that is expected to fail visibly; the others do no harm."""


class Reliability:
    """How often each teacher is right, by the kind of error that the student made: the mean of a Beta posterior.

    The prior for one kind of error is the teacher's accuracy on the other kinds; the prior for that is ``initial``.
    An answer that merely did no harm counts as right with probability a / (a + (1 - a) (1 - detected)), where a is the
    current accuracy.
    """

    def __init__(self, initial: Mapping[str, float]) -> None:
        self._initial = dict(initial)
        self._counts: dict[tuple[str, str], tuple[float, float]] = {}

    def observe(self, teacher: str, kind: str, score: float) -> None:
        """Count an executed answer: right above 0, wrong below 0, without harm at 0."""
        right, wrong = self._counts.get((teacher, kind), (0.0, 0.0))
        accuracy = self.accuracy(teacher, kind)
        odds = accuracy / (accuracy + (1 - accuracy) * (1 - _DETECTED)) if score == 0 else float(score > 0)
        self._counts[teacher, kind] = (right + odds, wrong + 1 - odds)

    def accuracy(self, teacher: str, kind: str = "") -> float:
        """Return the accuracy, in (0, 1), at one kind of error; '' stands for turns without an error."""
        return _posterior_mean(self.overall(teacher, without=kind), *self._counts.get((teacher, kind), (0.0, 0.0)))

    def overall(self, teacher: str, without: str | None = None) -> float:
        """Return the accuracy, in (0, 1), over all executed answers, except those at the kind ``without``."""
        rows = sorted(self._counts.items())
        counts = [count for (name, kind), count in rows if name == teacher and kind != without]
        return _posterior_mean(self._initial[teacher], sum(c[0] for c in counts), sum(c[1] for c in counts))

    def table(self) -> dict[str, dict[str, float]]:
        """Return every teacher's accuracy by kind of error; the key '' has the overall one."""
        table = {}
        for name in self._initial:
            kinds = sorted({kind for teacher, kind in self._counts if teacher == name and kind})
            table[name] = {"": round(self.overall(name), 4), **{k: round(self.accuracy(name, k), 4) for k in kinds}}
        return table


@dataclass(frozen=True)
class WeightedAnswer:
    """One teacher's answer, with the weight of its vote; ``value`` is None when it was not executed."""

    action: Canonical
    weight: float
    value: float | None = None


@dataclass(frozen=True)
class Agreement:
    """Clusters of answers that count as the same, the heaviest first; no cluster holds two different executed values.

    ``medoids`` has each cluster's answer that is most similar to the others (the shortest of equal ones, an executed
    one where there is any). ``share`` is the first cluster's share of all weight, ``margin`` its lead over the second.
    """

    clusters: tuple[tuple[int, ...], ...]
    medoids: tuple[int, ...]
    share: float
    margin: float


@dataclass(frozen=True)
class Decision:
    """The pair that a turn becomes; ``answer`` is the index of the teacher's answer in it.

    ``kind`` is ``correct`` (the answer over the student's action), ``student_good`` (the student's action over the
    answer), or '' for no pair.
    """

    kind: Literal["", "correct", "student_good"]
    reason: str
    answer: int = -1
    agreement: Agreement | None = None


class Pair(Record):
    """One line of a file of pairs: two actions in the same state, as the wire takes them, and their origin.

    ``values`` are executed values by teacher, and by ``student``; ``how`` says how each was obtained. ``tokens`` and
    ``usd`` are what each answer took, ``propensity`` is the probability with which the turn was asked about.
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
    how: dict[str, str] = Field(default_factory=dict)  # prose: ok
    tokens: dict[str, tuple[int, int]] = Field(default_factory=dict)
    usd: dict[str, float] = Field(default_factory=dict)
    propensity: float = 1.0


def agreement_of(answers: Sequence[WeightedAnswer], tau: float) -> Agreement | None:
    """Cluster the answers; None without answers. The result does not depend on the order of teachers.

    Two answers are in one cluster when a chain of answers, each ``is_same`` as the next, connects them.
    """
    if not answers:
        return None
    clusters = clusters_of(answers, tau)
    medoids = {cluster: _medoid(cluster, answers) for cluster in clusters}
    total = sum(answer.weight for answer in answers)
    mass = {cluster: sum(answers[index].weight for index in cluster) / total for cluster in clusters}
    ordered = sorted(clusters, key=lambda cluster: (-round(mass[cluster], 12), repr(answers[medoids[cluster]].action)))
    second = mass[ordered[1]] if len(ordered) > 1 else 0.0
    ordered_medoids = tuple(medoids[cluster] for cluster in ordered)
    return Agreement(tuple(ordered), ordered_medoids, mass[ordered[0]], mass[ordered[0]] - second)


def clusters_of(answers: Sequence[WeightedAnswer], tau: float) -> list[tuple[int, ...]]:
    """Return the clusters of ``agreement_of``, ordered by their first index.

    Where an unexecuted answer would connect two answers with different executed values, the executed answers are
    clustered without it.
    """
    clusters = []
    for cluster in _components(range(len(answers)), answers, tau):
        values = {answers[index].value for index in cluster} - {None}
        executed = [index for index in cluster if answers[index].value is not None]
        others = [index for index in cluster if answers[index].value is None]
        if len(values) > 1:
            clusters += [*_components(executed, answers, tau), *_components(others, answers, tau)]
        else:
            clusters.append(cluster)
    return sorted(clusters)


def decide(
    student: Canonical, student_value: float | None, answers: Sequence[WeightedAnswer], rules: Rules
) -> Decision:
    """Decide which pair the answers make. Execution goes first: an answer that it proves better needs no agreement,
    and no agreement saves an answer that failed."""
    answers = [_with_students_value(answer, student, student_value) for answer in answers]
    agreement = agreement_of(answers, rules.tau)
    if agreement is None:
        return Decision("", "no answers")
    own_value = student_value or 0.0
    others = {i for i, answer in enumerate(answers) if not is_students_answer(student, student_value, answer, rules)}
    proved = [i for i in agreement.medoids if i in others and (answers[i].value or 0.0) > max(own_value, 0.0)]
    if proved:
        best = max(proved, key=lambda i: (answers[i].value or 0.0, -agreement.medoids.index(i)))
        return Decision("correct", "proved by execution", best, agreement)
    first, chosen = agreement.clusters[0], agreement.medoids[0]
    if agreement.share < rules.share - _ROUNDING or agreement.margin < rules.margin - _ROUNDING:
        return Decision("", "teachers split", agreement=agreement)
    if len(first) < rules.least:
        return Decision("", "too few answers", agreement=agreement)
    if not others.issuperset(first):
        return _confirm_student(student_value, answers, agreement, others)
    value = answers[chosen].value
    if value is not None and value < 0:
        return Decision("", "the consensus erred", agreement=agreement)
    if (value or 0.0) < own_value:
        return Decision("", "the student's action is worth more", agreement=agreement)
    return Decision("correct", "consensus", chosen, agreement)


def is_students_answer(student: Canonical, student_value: float | None, answer: WeightedAnswer, rules: Rules) -> bool:
    """Return whether a teacher's answer is what the student did (``is_same``); an equal action if that failed."""
    return is_same(student, answer.action, rules.tau, student_value, answer.value)


def disagreed(
    student: Canonical,
    student_value: float | None,
    answers: Sequence[WeightedAnswer],
    decision: Decision,
    rules: Rules,
) -> bool:
    """Return what the gate learns: whether the teachers had a better answer, or most of them another one."""
    assert decision.agreement is not None, "there is at least one answer"
    clusters = zip(decision.agreement.clusters, decision.agreement.medoids, strict=True)
    _, _, leading = min((-len(cluster), repr(answers[medoid].action), medoid) for cluster, medoid in clusters)
    return decision.kind == "correct" or not is_students_answer(student, student_value, answers[leading], rules)


def read_pairs(path: Path) -> list[Pair]:
    """Read a file of pairs. Raises ReplayError when it cannot be read or holds no pair."""
    try:
        lines = path.read_bytes().split(b"\n")  # not splitlines: a teacher's text may hold other line separators
    except OSError as error:
        raise ReplayError(f"cannot read {path} ({error.strerror}): `etude replay` writes it") from None
    pairs = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            pairs.append(Pair.model_validate_json(line))
        except ValueError:
            raise ReplayError(f"{path}:{number} is not a pair; remove the line, or replay again") from None
    if not pairs:
        raise ReplayError(
            f"{path} holds no pair for channels.replay to learn from; run `etude replay` on more episodes"
        )
    return pairs


def _confirm_student(
    value: float | None, answers: Sequence[WeightedAnswer], agreement: Agreement, others: set[int]
) -> Decision:
    """Decide on a pair where the consensus agrees with the student: it needs another answer that failed."""
    failed = [i for cluster in agreement.clusters[1:] for i in cluster if i in others and (answers[i].value or 0.0) < 0]
    if not failed or (value is not None and value < 0):
        return Decision("", "the student agrees", agreement=agreement)
    answer = min(failed, key=lambda i: repr(answers[i].action))
    return Decision("student_good", "an outlier failed", answer, agreement)


def _with_students_value(answer: WeightedAnswer, student: Canonical, value: float | None) -> WeightedAnswer:
    """Give an unexecuted answer the value of the student's action when both are equal."""
    return replace(answer, value=value) if answer.value is None and answer.action == student else answer


def _components(among: Sequence[int], answers: Sequence[WeightedAnswer], tau: float) -> list[tuple[int, ...]]:
    """Return the connected components of the answers ``among``; an edge is ``is_same``."""
    remaining, components = set(among), []
    while remaining:
        waiting, cluster = [min(remaining)], set()
        while waiting:
            index = waiting.pop()
            cluster.add(index)
            remaining.discard(index)
            one = answers[index]
            waiting += [
                i for i in remaining if is_same(one.action, answers[i].action, tau, one.value, answers[i].value)
            ]
        components.append(tuple(sorted(cluster)))
    return components


def _medoid(cluster: tuple[int, ...], answers: Sequence[WeightedAnswer]) -> int:
    def rank(index: int) -> tuple[bool, float, int, str]:
        one = answers[index]
        likeness = sum(answers[i].weight * similarity(one.action, answers[i].action) for i in cluster)
        return (one.value is None, -round(likeness, 9), one.action.size, repr(one.action))

    return min(cluster, key=rank)


def _posterior_mean(prior: float, right: float, wrong: float) -> float:
    return (prior * _PRIOR_STRENGTH + right) / (_PRIOR_STRENGTH + right + wrong)
