"""Consensus: when answers make a pair, and when they do not."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from etude.trainers.replay.action_equality import Canonical, CanonicalCall, canonical, similarity
from etude.trainers.replay.pairs import Heard, Pair, Reliability, agreement, decide, disagreed, read_pairs
from etude.trainers.replay.settings import Consensus

RULES = Consensus()


def do(name: str) -> Canonical:
    return Canonical((CanonicalCall(name),))


def say(*words: str) -> Canonical:
    return Canonical(words=words)


def heard(*answers: tuple[str, float, float | None]) -> list[Heard]:
    return [Heard(do(name), weight, value) for name, weight, value in answers]


def edit(operator: str, old: str = "the line as it stands in the file") -> Canonical:
    """Edits that differ in one word: more alike than ``RULES.tau``."""
    new = f"def area(width, height): return width {operator} height # in square metres"
    call = {"name": "edit_file", "arguments": {"path": "a.py", "old": old, "new": new}}
    return canonical({"tool_calls": [call]})


BAD, GOOD, OTHER = edit("+"), edit("*"), edit("-")


def test_agreement_does_not_depend_on_the_order_of_teachers() -> None:
    chance = random.Random(0)
    for _ in range(500):
        words = [say(*chance.choices(["a", "b", "c", "d"], k=5)) for _ in range(5)]
        actions = [chance.choice([do("x"), do("y"), word]) for word in words]
        values = {action: chance.choice([None, -1.0, 0.0, 1.0]) for action in actions}
        answers = [Heard(action, chance.uniform(0.5, 1), values[action]) for action in actions]
        order = chance.sample(range(5), 5)
        one = agreement(answers, 0.8)
        other = agreement([answers[i] for i in order], 0.8)
        assert one is not None and other is not None
        as_sets = [{actions[i] for i in cluster} for cluster in one.clusters]
        assert as_sets == [{actions[order[i]] for i in cluster} for cluster in other.clusters]
        assert actions[one.medoids[0]] == actions[order[other.medoids[0]]]
        assert one.share == pytest.approx(other.share) and one.margin == pytest.approx(other.margin)
        assert sorted(i for cluster in one.clusters for i in cluster) == list(range(5))
        assert all(len({values[actions[i]] for i in cluster} - {None}) < 2 for cluster in one.clusters)
        assert 0 < one.share <= 1 and 0 <= one.margin <= one.share


def test_the_medoid_is_the_middle_one_and_the_shorter_of_equals() -> None:
    middle = agreement([Heard(say(*words), 1) for words in ("abcdef", "abcdeg", "abcxeg")], 0.8)
    assert middle is not None and middle.medoids[0] == 1 and len(middle.clusters) == 1
    short = agreement([Heard(say(*"abcdefg"), 1), Heard(say(*"abcdef"), 1)], 0.8)
    assert short is not None and short.medoids[0] == 1
    executed = agreement([Heard(say(*"abcdefg"), 1, 1.0), Heard(say(*"abcdef"), 1)], 0.8)
    assert executed is not None and executed.medoids[0] == 0 and len(executed.clusters) == 1


def test_answers_that_execution_told_apart_are_not_one() -> None:
    def clusters(*answers: tuple[Canonical, float | None]) -> list[list[int]]:
        found = agreement([Heard(action, 1, value) for action, value in answers], RULES.tau)
        assert found is not None
        return sorted(map(list, found.clusters))

    assert similarity(BAD, GOOD) > RULES.tau < similarity(GOOD, OTHER)
    assert clusters((BAD, None), (GOOD, None)) == clusters((BAD, 0.0), (GOOD, 0.0)) == [[0, 1]]
    assert clusters((BAD, 0.0), (GOOD, 0.5)) == [[0], [1]]
    assert clusters((BAD, -1.0), (GOOD, None)) == [[0], [1]], "what failed speaks for nothing else"
    assert clusters((BAD, 0.0), (OTHER, None), (GOOD, 0.5)) == [[0], [1], [2]], "nor does what is unknown join them"


@pytest.mark.parametrize(
    ("mine", "values", "kind", "reason"),
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
def test_a_fix_of_one_word_is_another_answer_once_execution_says_so(
    mine: float, values: list[float | None], kind: str, reason: str
) -> None:
    answers = [Heard(GOOD, 0.85, value) for value in values]
    decision = decide(BAD, mine, answers, RULES)
    assert (decision.kind, decision.reason) == (kind, reason)
    assert disagreed(BAD, mine, answers, decision, RULES) == (reason != "the student agrees")


def test_the_student_is_not_good_where_execution_shows_a_better_answer() -> None:
    answers = [Heard(GOOD, 0.9, 0.5), Heard(GOOD, 0.9, 0.5), Heard(do("nope"), 0.6, -1.0)]
    decision = decide(BAD, 0.0, answers, RULES)
    assert (decision.kind, answers[decision.answer].action) == ("correct", GOOD)


def test_a_longer_wait_corrects_what_failed_for_want_of_it() -> None:
    wait = [
        canonical({"tool_calls": [{"name": "bash", "arguments": {"command": "ls", "timeout_s": s}}]}) for s in (1, 9)
    ]
    answers = [Heard(wait[1], 0.85)] * 3
    assert decide(wait[0], -1.0, answers, RULES).kind == "correct"
    assert decide(wait[0], 0.0, answers, RULES).reason == "the student agrees"
    assert decide(wait[1], -1.0, answers, RULES).kind == ""


def test_one_that_fails_as_the_student_did_does_not_speak_for_the_others() -> None:
    answers = [Heard(BAD, 0.9), Heard(GOOD, 0.9), Heard(GOOD, 0.9), Heard(GOOD, 0.9)]
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
def test_decisions(
    answers: list[tuple[str, float, float | None]], student: str, value: float | None, kind: str, reason: str
) -> None:
    decision = decide(do(student), value, heard(*answers), RULES)
    assert (decision.kind, decision.reason) == (kind, reason)


def test_a_pair_never_prefers_what_failed_nor_the_rejected_action_itself() -> None:
    chance = random.Random(1)
    kinds = set()
    for _ in range(5000):
        values = {name: chance.choice([None, -1.0, 0.0, 0.5, 1.0]) for name in "sabc"}
        answers = [(n, chance.uniform(0.3, 1), values[n]) for n in chance.choices("sabc", [3, 3, 1, 1], k=3)]
        decision = decide(do("s"), values["s"], heard(*answers), RULES)
        kinds.add(decision.kind)
        if decision.kind == "correct":
            assert answers[decision.answer][0] != "s"
            assert (answers[decision.answer][2] or 0.0) >= (values["s"] or 0.0)
            assert (answers[decision.answer][2] or 0.0) >= 0
        if decision.kind == "student_good":
            assert answers[decision.answer][0] != "s" and answers[decision.answer][2] == -1.0
            assert (values["s"] or 0.0) >= 0
    assert kinds == {"", "correct", "student_good"}


def test_reliability_is_learned_by_kind_and_starts_from_what_is_known_in_general() -> None:
    known = Reliability({"a": 0.85, "b": 0.85})
    assert known.accuracy("a") == known.accuracy("b", "timeout") == pytest.approx(0.85)
    for _ in range(30):
        known.observe("a", "timeout", 1.0)
        known.observe("b", "timeout", -1.0)
    assert known.accuracy("a", "timeout") > 0.95 > 0.4 > known.accuracy("b", "timeout")
    assert known.accuracy("b", "timeout") == pytest.approx(8.5 / 40) == known.accuracy("b", "traceback")
    assert set(known.table()["a"]) == {"", "timeout"}


@pytest.mark.parametrize("right", [0.9, 0.8, 0.6])
def test_answers_that_do_no_harm_bias_it_little(right: float) -> None:
    """Where three of four wrong answers are seen to fail, and right ones never prove themselves."""
    chance, known = random.Random(0), Reliability({"a": 0.85})
    for _ in range(3000):
        harmless = chance.random() < right or chance.random() < 0.25
        known.observe("a", "timeout", 0.0 if harmless else -1.0)
    assert known.accuracy("a", "timeout") == pytest.approx(right, abs=0.03)


def test_in_general_every_executed_answer_counts_once() -> None:
    known = Reliability({"a": 0.85})
    for kind, score, times in (("edit_failed", 1.0, 90), ("", -1.0, 10)):
        for _ in range(times):
            known.observe("a", kind, score)
    assert known.table()["a"][""] == pytest.approx((8.5 + 90) / (10 + 100), abs=1e-4)
    assert set(known.table()["a"]) == {"", "edit_failed"} and known.accuracy("a") < 0.5 < known.overall("a")


def test_two_of_three_pass_once_they_are_known_to_be_better() -> None:
    known = Reliability({"a": 0.85, "b": 0.85, "c": 0.85})
    for _ in range(10):
        known.observe("c", "", -1.0)
    answers = [Heard(do(x), known.accuracy(t)) for t, x in (("a", "x"), ("b", "x"), ("c", "y"))]
    assert decide(do("s"), None, answers, RULES).kind == "correct"
    answers = [Heard(do(x), known.accuracy(t)) for t, x in (("a", "x"), ("b", "y"), ("c", "y"))]
    assert decide(do("s"), None, answers, RULES).reason == "teachers split"


def test_a_pair_may_hold_any_end_of_line(tmp_path: Path) -> None:
    both = {"chosen": {"text": "a\u2028b"}, "rejected": {"text": "a\x85b\n"}}
    where = {"episode_id": "e", "task_id": "t", "turn": 0, "messages": [], "tools": [], "share": 1.0, "margin": 1.0}
    pair = Pair.model_validate({"kind": "correct", **where, **both, "teachers": {}, "weights": {}})
    (tmp_path / "p.jsonl").write_text(json.dumps(pair.model_dump(), ensure_ascii=False) + "\n", encoding="utf-8")
    assert read_pairs(tmp_path / "p.jsonl") == [pair]
