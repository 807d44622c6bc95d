"""A solver with a known skill: the curriculum holds its solve rate while the skill grows; the same tasks do not."""

from __future__ import annotations

import pytest

from etude.benchmarks.curriculum.simulated_solver import World, growing_skill, play_rounds
from etude.generators.curriculum.band import MEDIUM

WORLDS = (0, 1, 2)


def rates(skills, *, adapt):
    return [[item.solve_rate for item in play_rounds(World(seed), skills, adapt=adapt)][1:] for seed in WORLDS]


def share_within(rates_of_worlds):
    every = [rate for world in rates_of_worlds for rate in world]
    return sum(rate in MEDIUM for rate in every) / len(every)


@pytest.fixture(scope="module")
def skills():
    return growing_skill(20)


def test_the_solve_rate_is_held_while_the_skill_grows(skills):
    held = rates(skills, adapt=True)
    assert share_within(held) >= 0.95
    assert all(world[-1] in MEDIUM for world in held)


def test_the_solve_rate_is_not_held_without_the_curriculum(skills):
    free = rates(skills, adapt=False)
    assert share_within(free) < 0.5
    assert all(world[-1] > 0.9 for world in free)


def test_the_solve_rate_is_held_while_the_skill_falls(skills):
    held = rates(skills[::-1], adapt=True)
    assert share_within(held) >= 0.9


def test_the_curriculum_moves_to_combined_tasks(skills):
    for seed in WORLDS:
        rounds = play_rounds(World(seed), skills, adapt=True)
        assert rounds[-1].large > rounds[1].large + 0.3
