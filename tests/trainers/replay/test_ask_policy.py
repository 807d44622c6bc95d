"""The gate, the inquiry and their account."""

from __future__ import annotations

import random
import statistics

import pytest

from etude.models import Episode
from etude.trainers.replay.action_equality import Canonical, CanonicalCall
from etude.trainers.replay.ask_policy import Gate, Inquiry, Logistic, features, total_if_all
from etude.trainers.replay.prefixes import State
from etude.trainers.replay.settings import Consensus, GateSettings

ROW = {"one": 1.0, "error": 0.0}


def do(name: str) -> Canonical:
    return Canonical((CanonicalCall(name),))


def inquiry(wrong: float, *answers: str, tiers: bool = True, values: tuple[float, ...] = ()) -> int:
    """How many teachers are asked before it stops, when they answer so."""
    asking = Inquiry(do("s"), [0.8, 0.85, 0.9], wrong, Consensus(), GateSettings(tiers=tiers))
    while (index := asking.next()) is not None:
        asking.hear(index, do(answers[index]), values[index] if values else None)
    return asking.asked


def test_features_are_of_what_stands_in_the_trace(erred: Episode) -> None:
    found = features(State(erred, 1), entropy=2.0)
    assert (found["error"], found["retries"], found["unsolved"], found["entropy"]) == (1.0, 0.0, 0.0, 0.5)
    assert found["tool no_such_tool"] == 1.0
    after = features(State(erred, 2))
    assert (after["error"], after["retries"]) == (0.0, 0.25) and "entropy" not in after


@pytest.mark.parametrize(
    ("wrong", "answers", "asked"),
    [
        (0.05, "s", 1),  # a cheap one agrees with a student who is seldom wrong
        (0.97, "aa", 2),  # the error is known; two agree on what is right
        (0.97, "abb", 3),
        (0.5, "aaa", 2),
        (0.05, "aas", 3),  # against a student who is seldom wrong, two are not enough
    ],
)
def test_asking_stops_when_it_is_clear(wrong: float, answers: str, asked: int) -> None:
    assert inquiry(wrong, *answers.ljust(3, "z")) == asked
    assert inquiry(wrong, *answers.ljust(3, "z"), tiers=False) == 3


def test_no_answer_makes_nothing_clear() -> None:
    asking = Inquiry(do("s"), [0.8, 0.85, 0.9], 0.05, Consensus(), GateSettings())
    assert asking.next() == 0
    asking.hear(0, None)
    assert asking.next() == 1
    asking.hear(1, do("s"))
    assert asking.next() is None


def test_execution_ends_the_asking_or_takes_an_answer_out() -> None:
    assert inquiry(0.97, "a", "b", "c", values=(1.0, 0.0, 0.0)) == 1
    assert inquiry(0.97, "a", "a", "b", values=(-1.0, -1.0, 0.0)) == 3


def test_a_fix_of_one_word_does_not_count_for_a_student_who_erred() -> None:
    words = "def area(width, height): return width {} height # in square metres"
    bad, good = (Canonical(words=tuple(words.format(sign).split())) for sign in "+*")
    erred = Inquiry(bad, [0.8, 0.85, 0.9], 0.97, Consensus(), GateSettings(), -1.0)
    unknown = Inquiry(bad, [0.8, 0.85, 0.9], 0.97, Consensus(), GateSettings(), 0.0)
    for asking in (erred, unknown):
        asking.hear(0, good, 0.0)
        asking.hear(1, good, 0.0)
    assert erred._odds()[0] < 0.01 < 0.3 < unknown._odds()[0]
    assert erred._odds()[2] == 2 and unknown._odds()[2] == 0


def test_the_odds_are_bayes_rule() -> None:
    asking = Inquiry(do("s"), [0.8, 0.9], 0.3, Consensus(), GateSettings())
    asking.hear(0, do("a"))
    asking.hear(1, do("s"))
    right = 0.7 * (0.2 / 4) * 0.9
    wrong = 0.3 / 4 * (0.8 * (0.1 / 4) + 3 * (0.2 / 4) * (0.1 / 4))
    assert asking._odds()[0] == pytest.approx(right / (right + wrong))


def test_the_model_learns_where_the_student_errs() -> None:
    chance, model = random.Random(0), Logistic({})
    for _ in range(2000):
        edit = chance.random() < 0.5
        model.learn({"one": 1.0, "edit": float(edit)}, chance.random() < (0.7 if edit else 0.1))
    assert model.probability({"one": 1.0, "edit": 1.0}) == pytest.approx(0.7, abs=0.1)
    assert model.probability({"one": 1.0, "edit": 0.0}) == pytest.approx(0.1, abs=0.1)


def test_the_gate_asks_for_what_is_worth_its_price_and_explores() -> None:
    settings = GateSettings(worth=0.05, explore=0.1)
    assert Gate(settings).look(ROW, usd=0.0001).propensity == 1.0
    gate = Gate(settings)
    looks = [gate.look(ROW, usd=10.0) for _ in range(4000)]
    assert {look.propensity for look in looks} == {0.1}
    assert statistics.mean(look.ask for look in looks) == pytest.approx(0.1, abs=0.02)
    assert Gate(GateSettings(which="all")).look(ROW, usd=10.0).ask
    assert Gate(GateSettings(which="random", rate=0.4)).look(ROW, usd=0.0).propensity == 0.4


def test_the_estimate_of_asking_about_all_is_unbiased() -> None:
    chance, found = random.Random(0), []
    truth = [float(chance.random() < 0.3) for _ in range(400)]
    for _ in range(300):
        rows = []
        for number, brought in enumerate(truth):
            propensity = 1.0 if number % 4 == 0 else 0.1
            rows.append((str(number // 20), brought if chance.random() < propensity else 0.0, propensity))
        found.append(total_if_all(rows, draws=1).value)
    error = statistics.stdev(found) / len(found) ** 0.5
    assert statistics.mean(found) == pytest.approx(sum(truth), abs=3 * error)
    assert total_if_all([]).value == 0.0
