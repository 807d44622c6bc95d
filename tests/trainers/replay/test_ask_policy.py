"""Tests of the ask policy: the gate, the inquiry, and the estimate of asking about all turns."""

from __future__ import annotations

import random
import statistics

import pytest

from etude.models import Episode
from etude.trainers.replay.ask_policy import Gate, Inquiry, Logistic, features, total_if_all
from etude.trainers.replay.settings import Consensus, GateSettings
from etude.trainers.replay.turns.action_equality import Canonical, CanonicalCall
from etude.trainers.replay.turns.prefixes import State

ROW = {"one": 1.0, "error": 0.0}


def do(name: str) -> Canonical:
    return Canonical((CanonicalCall(name),))


def questions(wrong: float, *answers: str, tiers: bool = True, values: tuple[float, ...] = ()) -> int:
    """Return how many teachers are asked when they give these answers."""
    asking = Inquiry(do("s"), [0.8, 0.85, 0.9], wrong, Consensus(), GateSettings(tiers=tiers))
    while (index := asking.next()) is not None:
        asking.hear(index, do(answers[index]), values[index] if values else None)
    return asking.next_teacher


def test_features_come_from_the_stored_episode_alone(erred: Episode) -> None:
    row = features(State(erred, 1))
    assert (row["error"], row["retries"], row["unsolved"]) == (1.0, 0.0, 0.0)
    assert row["tool no_such_tool"] == 1.0
    after = features(State(erred, 2))
    assert (after["error"], after["retries"]) == (0.0, 0.25)


@pytest.mark.parametrize(
    ("wrong", "answers", "number"),
    [
        (0.05, "s", 1),  # the cheapest teacher agrees with a student who is seldom wrong
        (0.97, "aa", 2),  # the error was reported; two teachers agree on the right answer
        (0.97, "abb", 3),
        (0.5, "aaa", 2),
        (0.05, "aas", 3),  # two answers do not outweigh a student who is seldom wrong
    ],
)
def test_inquiry_stops_when_the_answer_is_clear(wrong: float, answers: str, number: int) -> None:
    assert questions(wrong, *answers.ljust(3, "z")) == number
    assert questions(wrong, *answers.ljust(3, "z"), tiers=False) == 3


def test_inquiry_continues_when_a_teacher_gives_no_answer() -> None:
    asking = Inquiry(do("s"), [0.8, 0.85, 0.9], 0.05, Consensus(), GateSettings())
    assert asking.next() == 0
    asking.hear(0, None)
    assert asking.next() == 1
    asking.hear(1, do("s"))
    assert asking.next() is None


def test_inquiry_stops_at_an_answer_that_execution_proves_and_discounts_one_that_failed() -> None:
    assert questions(0.97, "a", "b", "c", values=(1.0, 0.0, 0.0)) == 1
    assert questions(0.97, "a", "a", "b", values=(-1.0, -1.0, 0.0)) == 3


def test_inquiry_counts_a_one_word_fix_as_another_answer_when_the_student_erred() -> None:
    words = "def area(width, height): return width {} height # in square metres"
    bad, good = (Canonical(words=tuple(words.format(sign).split())) for sign in "+*")
    erred = Inquiry(bad, [0.8, 0.85, 0.9], 0.97, Consensus(), GateSettings(), -1.0)
    unknown = Inquiry(bad, [0.8, 0.85, 0.9], 0.97, Consensus(), GateSettings(), 0.0)
    for asking in (erred, unknown):
        asking.hear(0, good, 0.0)
        asking.hear(1, good, 0.0)
    assert erred._odds()[0] < 0.01 < 0.3 < unknown._odds()[0]
    assert erred._odds()[2] == 2 and unknown._odds()[2] == 0


def test_inquiry_odds_follow_bayes_rule() -> None:
    asking = Inquiry(do("s"), [0.8, 0.9], 0.3, Consensus(), GateSettings())
    asking.hear(0, do("a"))
    asking.hear(1, do("s"))
    right = 0.7 * (0.2 / 4) * 0.9
    wrong = 0.3 / 4 * (0.8 * (0.1 / 4) + 3 * (0.2 / 4) * (0.1 / 4))
    assert asking._odds()[0] == pytest.approx(right / (right + wrong))


def test_logistic_model_learns_where_the_student_errs() -> None:
    rng, model = random.Random(0), Logistic({})
    for _ in range(2000):
        edit = rng.random() < 0.5
        model.learn({"one": 1.0, "edit": float(edit)}, rng.random() < (0.7 if edit else 0.1))
    assert model.probability({"one": 1.0, "edit": 1.0}) == pytest.approx(0.7, abs=0.1)
    assert model.probability({"one": 1.0, "edit": 0.0}) == pytest.approx(0.1, abs=0.1)


def test_gate_asks_where_the_gain_exceeds_the_cost_and_explores_elsewhere() -> None:
    settings = GateSettings(worth=0.05, explore=0.1)
    assert Gate(settings).look(ROW, usd=0.0001).propensity == 1.0
    gate = Gate(settings)
    looks = [gate.look(ROW, usd=10.0) for _ in range(4000)]
    assert {look.propensity for look in looks} == {0.1}
    assert statistics.mean(look.ask for look in looks) == pytest.approx(0.1, abs=0.02)
    assert Gate(GateSettings(which="all")).look(ROW, usd=10.0).ask
    assert Gate(GateSettings(which="random", rate=0.4)).look(ROW, usd=0.0).propensity == 0.4


def test_total_if_all_is_unbiased() -> None:
    rng, estimates = random.Random(0), []
    truth = [float(rng.random() < 0.3) for _ in range(400)]
    for _ in range(300):
        rows = []
        for number, gain in enumerate(truth):
            propensity = 1.0 if number % 4 == 0 else 0.1
            rows.append((str(number // 20), gain if rng.random() < propensity else 0.0, propensity))
        estimates.append(total_if_all(rows, draws=1).value)
    error = statistics.stdev(estimates) / len(estimates) ** 0.5
    assert statistics.mean(estimates) == pytest.approx(sum(truth), abs=3 * error)
    assert total_if_all([]).value == 0.0
