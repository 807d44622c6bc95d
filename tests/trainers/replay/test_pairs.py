"""Tests of pairs: when answers make a pair, when they do not, and how teachers' reliability is learned."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from etude.trainers.replay.pairs import Pair, Reliability, WeightedAnswer, agreement_of, decide, disagreed, read_pairs
from etude.trainers.replay.settings import Consensus
from etude.trainers.replay.turns.action_equality import Canonical, CanonicalCall, canonical, similarity

RULES = Consensus()


def do(name: str) -> Canonical:
    return Canonical((CanonicalCall(name),))


def say(*words: str) -> Canonical:
    return Canonical(words=words)


def weighted(*answers: tuple[str, float, float | None]) -> list[WeightedAnswer]:
    return [WeightedAnswer(do(name), weight, value) for name, weight, value in answers]


def edit(operator: str, old: str = "the line as it stands in the file") -> Canonical:
    """Return an edit; two that differ in ``operator`` alone are more similar than ``RULES.tau``."""
    new = f"def area(width, height): return width {operator} height # in square metres"
    call = {"name": "edit_file", "arguments": {"path": "a.py", "old": old, "new": new}}
    return canonical({"tool_calls": [call]})


BAD, GOOD, OTHER = edit("+"), edit("*"), edit("-")


def test_agreement_does_not_depend_on_the_order_of_teachers() -> None:
    rng = random.Random(0)
    for _ in range(500):
        words = [say(*rng.choices(["a", "b", "c", "d"], k=5)) for _ in range(5)]
        actions = [rng.choice([do("x"), do("y"), word]) for word in words]
        values = {action: rng.choice([None, -1.0, 0.0, 1.0]) for action in actions}
        answers = [WeightedAnswer(action, rng.uniform(0.5, 1), values[action]) for action in actions]
        order = rng.sample(range(5), 5)
        one = agreement_of(answers, 0.8)
        other = agreement_of([answers[i] for i in order], 0.8)
        assert one is not None and other is not None
        as_sets = [{actions[i] for i in cluster} for cluster in one.clusters]
        assert as_sets == [{actions[order[i]] for i in cluster} for cluster in other.clusters]
        assert actions[one.medoids[0]] == actions[order[other.medoids[0]]]
        assert one.share == pytest.approx(other.share) and one.margin == pytest.approx(other.margin)
        assert sorted(i for cluster in one.clusters for i in cluster) == list(range(5))
        assert all(len({values[actions[i]] for i in cluster} - {None}) < 2 for cluster in one.clusters)
        assert 0 < one.share <= 1 and 0 <= one.margin <= one.share


def test_medoid_is_the_most_central_answer_then_the_shorter_then_the_executed_one() -> None:
    middle = agreement_of([WeightedAnswer(say(*words), 1) for words in ("abcdef", "abcdeg", "abcxeg")], 0.8)
    assert middle is not None and middle.medoids[0] == 1 and len(middle.clusters) == 1
    short = agreement_of([WeightedAnswer(say(*"abcdefg"), 1), WeightedAnswer(say(*"abcdef"), 1)], 0.8)
    assert short is not None and short.medoids[0] == 1
    executed = agreement_of([WeightedAnswer(say(*"abcdefg"), 1, 1.0), WeightedAnswer(say(*"abcdef"), 1)], 0.8)
    assert executed is not None and executed.medoids[0] == 0 and len(executed.clusters) == 1


def test_clusters_never_join_answers_with_different_executed_values() -> None:
    def clusters(*answers: tuple[Canonical, float | None]) -> list[list[int]]:
        agreement = agreement_of([WeightedAnswer(action, 1, value) for action, value in answers], RULES.tau)
        assert agreement is not None
        return sorted(map(list, agreement.clusters))

    assert similarity(BAD, GOOD) > RULES.tau < similarity(GOOD, OTHER)
    assert clusters((BAD, None), (GOOD, None)) == clusters((BAD, 0.0), (GOOD, 0.0)) == [[0, 1]]
    assert clusters((BAD, 0.0), (GOOD, 0.5)) == [[0], [1]]
    assert clusters((BAD, -1.0), (GOOD, None)) == [[0], [1]], "an answer that failed joins no other answer"
    assert clusters((BAD, 0.0), (OTHER, None), (GOOD, 0.5)) == [[0], [1], [2]], (
        "an unexecuted answer does not join answers with different values"
    )


@pytest.mark.parametrize(
    ("student_value", "values", "kind", "reason"),
    [
        (-1.0, [None, None], "correct", "consensus"),
        (-1.0, [0.0, 0.0], "correct", "consensus"),
        (-1.0, [0.5, 0.5], "correct", "proved by execution"),
        (-1.0, [-1.0, -1.0], "", "the consensus erred"),
        (0.0, [0.5, 0.5], "correct", "proved by execution"),
        (0.0, [0.0, 0.0], "", "the student agrees"),
        (0.0, [None, None], "", "the student agrees"),
        (1.0, [0.0, 0.0], "", "the student's action is worth more"),
    ],
)
def test_decide_separates_a_one_word_fix_when_execution_shows_a_difference(
    student_value: float, values: list[float | None], kind: str, reason: str
) -> None:
    answers = [WeightedAnswer(GOOD, 0.85, value) for value in values]
    decision = decide(BAD, student_value, answers, RULES)
    assert (decision.kind, decision.reason) == (kind, reason)
    assert disagreed(BAD, student_value, answers, decision, RULES) == (reason != "the student agrees")


def test_decide_corrects_the_student_when_execution_proves_another_answer() -> None:
    answers = [WeightedAnswer(GOOD, 0.9, 0.5), WeightedAnswer(GOOD, 0.9, 0.5), WeightedAnswer(do("nope"), 0.6, -1.0)]
    decision = decide(BAD, 0.0, answers, RULES)
    assert (decision.kind, answers[decision.answer].action) == ("correct", GOOD)


def test_decide_takes_a_longer_timeout_as_a_correction_when_the_student_failed() -> None:
    wait = [
        canonical({"tool_calls": [{"name": "bash", "arguments": {"command": "ls", "timeout_s": s}}]}) for s in (1, 9)
    ]
    answers = [WeightedAnswer(wait[1], 0.85)] * 3
    assert decide(wait[0], -1.0, answers, RULES).kind == "correct"
    assert decide(wait[0], 0.0, answers, RULES).reason == "the student agrees"
    assert decide(wait[1], -1.0, answers, RULES).kind == ""


def test_decide_does_not_let_a_repeated_failure_represent_the_other_answers() -> None:
    answers = [
        WeightedAnswer(BAD, 0.9),
        WeightedAnswer(GOOD, 0.9),
        WeightedAnswer(GOOD, 0.9),
        WeightedAnswer(GOOD, 0.9),
    ]
    decision = decide(BAD, -1.0, answers, RULES)
    assert (decision.kind, answers[decision.answer].action) == ("correct", GOOD)
    alone = decide(BAD, -1.0, answers[:1] * 3, RULES)
    assert alone.reason == "the student agrees" and not disagreed(BAD, -1.0, answers[:1] * 3, alone, RULES)


@pytest.mark.parametrize(
    ("answers", "student", "value", "kind", "reason"),
    [
        ([("a", 1, None)] * 3, "s", None, "correct", "consensus"),
        ([("a", 1, None)] * 2, "s", None, "correct", "consensus"),
        ([("a", 1, None)] * 3, "a", None, "", "the student agrees"),
        ([("a", 1, None)], "s", None, "", "too few answers"),
        ([("a", 1, None), ("a", 1, None), ("b", 1, None)], "s", None, "", "teachers split"),
        ([("a", 0.9, None), ("a", 0.85, None), ("b", 0.7, None)], "s", None, "correct", "consensus"),
        ([("a", 1, None), ("b", 1, None), ("c", 1, None)], "s", None, "", "teachers split"),
        ([], "s", None, "", "no answers"),
        ([("a", 1, -1.0)] * 3, "s", None, "", "the consensus erred"),
        ([("a", 1, 0.0)] * 3, "s", 1.0, "", "the student's action is worth more"),
        ([("a", 1, 0.0)] * 3, "s", -1.0, "correct", "consensus"),
        ([("a", 1, 0.0), ("b", 1, 1.0), ("a", 1, 0.0)], "s", 0.0, "correct", "proved by execution"),
        ([("a", 1, 1.0)], "a", 1.0, "", "too few answers"),
        ([("s", 0.9, 0.0), ("s", 0.9, 0.0), ("b", 0.5, -1.0)], "s", 0.0, "student_good", "an outlier failed"),
        ([("s", 0.9, 0.0), ("s", 0.9, 0.0), ("b", 0.5, 0.0)], "s", 0.0, "", "the student agrees"),
        ([("s", 0.9, -1.0), ("s", 0.9, -1.0), ("b", 0.5, -1.0)], "s", -1.0, "", "the student agrees"),
    ],
)
def test_decide_gives_the_expected_pair_and_reason(
    answers: list[tuple[str, float, float | None]], student: str, value: float | None, kind: str, reason: str
) -> None:
    decision = decide(do(student), value, weighted(*answers), RULES)
    assert (decision.kind, decision.reason) == (kind, reason)


def test_decide_never_prefers_a_failed_answer_or_the_rejected_action() -> None:
    rng = random.Random(1)
    kinds = set()
    for _ in range(5000):
        values = {name: rng.choice([None, -1.0, 0.0, 0.5, 1.0]) for name in "sabc"}
        answers = [(n, rng.uniform(0.3, 1), values[n]) for n in rng.choices("sabc", [3, 3, 1, 1], k=3)]
        decision = decide(do("s"), values["s"], weighted(*answers), RULES)
        kinds.add(decision.kind)
        if decision.kind == "correct":
            assert answers[decision.answer][0] != "s"
            assert (answers[decision.answer][2] or 0.0) >= (values["s"] or 0.0)
            assert (answers[decision.answer][2] or 0.0) >= 0
        if decision.kind == "student_good":
            assert answers[decision.answer][0] != "s" and answers[decision.answer][2] == -1.0
            assert (values["s"] or 0.0) >= 0
    assert kinds == {"", "correct", "student_good"}


def test_reliability_is_learned_by_error_kind_and_starts_from_the_overall_accuracy() -> None:
    reliability = Reliability({"a": 0.85, "b": 0.85})
    assert reliability.accuracy("a") == reliability.accuracy("b", "timeout") == pytest.approx(0.85)
    for _ in range(30):
        reliability.observe("a", "timeout", 1.0)
        reliability.observe("b", "timeout", -1.0)
    assert reliability.accuracy("a", "timeout") > 0.95 > 0.4 > reliability.accuracy("b", "timeout")
    assert reliability.accuracy("b", "timeout") == pytest.approx(8.5 / 40) == reliability.accuracy("b", "traceback")
    assert set(reliability.table()["a"]) == {"", "timeout"}


@pytest.mark.parametrize("right", [0.9, 0.8, 0.6])
def test_reliability_is_nearly_unbiased_when_harmless_answers_count_in_part(right: float) -> None:
    """Three of four wrong answers fail visibly, and right answers are never proved right."""
    rng, reliability = random.Random(0), Reliability({"a": 0.85})
    for _ in range(3000):
        harmless = rng.random() < right or rng.random() < 0.25
        reliability.observe("a", "timeout", 0.0 if harmless else -1.0)
    assert reliability.accuracy("a", "timeout") == pytest.approx(right, abs=0.03)


def test_overall_reliability_counts_every_executed_answer_once() -> None:
    reliability = Reliability({"a": 0.85})
    for kind, score, times in (("edit_failed", 1.0, 90), ("", -1.0, 10)):
        for _ in range(times):
            reliability.observe("a", kind, score)
    assert reliability.table()["a"][""] == pytest.approx((8.5 + 90) / (10 + 100), abs=1e-4)
    assert set(reliability.table()["a"]) == {"", "edit_failed"} and reliability.accuracy(
        "a"
    ) < 0.5 < reliability.overall("a")


def test_decide_accepts_two_of_three_teachers_when_they_are_more_reliable() -> None:
    reliability = Reliability({"a": 0.85, "b": 0.85, "c": 0.85})
    for _ in range(10):
        reliability.observe("c", "", -1.0)
    answers = [WeightedAnswer(do(x), reliability.accuracy(t)) for t, x in (("a", "x"), ("b", "x"), ("c", "y"))]
    assert decide(do("s"), None, answers, RULES).kind == "correct"
    answers = [WeightedAnswer(do(x), reliability.accuracy(t)) for t, x in (("a", "x"), ("b", "y"), ("c", "y"))]
    assert decide(do("s"), None, answers, RULES).reason == "teachers split"


def test_read_pairs_reads_texts_with_unusual_line_separators(tmp_path: Path) -> None:
    both = {"chosen": {"text": "a\u2028b"}, "rejected": {"text": "a\x85b\n"}}
    where = {"episode_id": "e", "task_id": "t", "turn": 0, "messages": [], "tools": [], "share": 1.0, "margin": 1.0}
    pair = Pair.model_validate({"kind": "correct", **where, **both, "teachers": {}, "weights": {}})
    (tmp_path / "p.jsonl").write_text(json.dumps(pair.model_dump(), ensure_ascii=False) + "\n", encoding="utf-8")
    assert read_pairs(tmp_path / "p.jsonl") == [pair]
