"""Tests of the simulated teachers: the world has the rates it promises, and the product's decisions do well in it."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from etude.research.replay_simulator.simulator import (
    Context,
    SimulatedTeacher,
    World,
    majority,
    pair_value,
    run,
    turns,
)
from etude.trainers.replay.settings import Consensus, GateSettings

TEACHERS = (SimulatedTeacher("a", 0.9, 0.01), SimulatedTeacher("b", 0.85, 0.004), SimulatedTeacher("c", 0.8, 0.001))
WORLD = World(TEACHERS, (Context("easy", 0.7, 0.05), Context("difficult", 0.3, 0.6)))
ALL = GateSettings(which="all", tiers=False)


def test_world_has_the_accuracies_and_error_rates_it_was_given() -> None:
    assert majority((0.9, 0.85, 0.8)) == pytest.approx(0.941)
    played = list(turns(WORLD, 200, 50, 0))
    assert statistics.mean(sum(a == 0 for a in turn.answers) >= 2 for turn in played) == pytest.approx(0.941, abs=0.01)
    for k, teacher in enumerate(TEACHERS):
        assert statistics.mean(t.answers[k] == 0 for t in played) == pytest.approx(teacher.accuracy, abs=0.012)
    difficult = [turn for turn in played if turn.context == "difficult"]
    assert statistics.mean(turn.student != 0 for turn in difficult) == pytest.approx(0.6, abs=0.03)


@pytest.mark.parametrize(
    ("chosen", "rejected", "student", "value"),
    [(0, 1, 1, 1.0), (0, 1, 0, 0.0), (1, 2, 2, 0.0), (1, 0, 0, -1.0), (1, 0, 1, -1.0)],
)
def test_pair_value_follows_the_table(chosen: int, rejected: int, student: int, value: float) -> None:
    assert pair_value(chosen, rejected, student) == value


def test_run_is_the_same_for_the_same_seed() -> None:
    one, other = (run(WORLD, list(turns(WORLD, 4, 50, 3)), GateSettings(seed=1), Consensus()) for _ in range(2))
    assert one == other


def test_run_costs_every_answer_and_is_seldom_wrong_when_all_teachers_must_agree() -> None:
    played = list(turns(WORLD, 20, 50, 1))
    outcome = run(WORLD, played, ALL, Consensus())
    assert outcome.usd == pytest.approx(1000 * 0.015) and outcome.answers == 3000
    assert outcome.wrong < 0.02 * outcome.right
    loose = run(WORLD, played, ALL, Consensus(margin=0.0))
    assert loose.right > outcome.right, "two of three answers now suffice, and most of those pairs are right"


def test_run_corrects_every_error_when_teachers_are_never_wrong() -> None:
    perfect = replace(WORLD, teachers=tuple(replace(teacher, accuracy=1.0) for teacher in TEACHERS))
    played = list(turns(perfect, 10, 50, 2))
    assert run(perfect, played, ALL, Consensus()).value == sum(turn.student != 0 for turn in played)
