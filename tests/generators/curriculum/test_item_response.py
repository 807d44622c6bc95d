"""The fit of skills and difficulties: it recovers a known world, and predicts tasks that were never played."""

from __future__ import annotations

import random
from math import exp, log2

import pytest

from etude.generators.curriculum.item_response import Fit, Plays, fit

SKILLS = (-1.0, 0.0, 1.0)


def world(seed=3, tasks=200):
    """Return the features and the true difficulty of each task: twice as many lines add 0.8, hidden tests 1.5."""
    chance = random.Random(seed)
    features, truth = {}, {}
    for number in range(tasks):
        lines, hidden = log2(chance.choice((1, 4, 16, 64))), float(chance.random() < 0.5)
        features[f"t{number}"] = {"all tasks": 1.0, "lines, doublings": lines, "hidden tests": hidden}
        truth[f"t{number}"] = -3 + 0.8 * lines + 1.5 * hidden + chance.gauss(0, 0.5)
    return features, truth


def plays_of(truth, tasks, seed=4):
    chance = random.Random(seed)
    return [
        Plays(player, task, 6, sum(chance.random() < 1 / (1 + exp(truth[task] - skill)) for _ in range(6)))
        for player, skill in enumerate(SKILLS)
        for task in tasks
    ]


def test_tasks_that_were_never_played_are_ordered_and_predicted_by_their_features():
    features, truth = world()
    played, unplayed = sorted(features)[:120], sorted(features)[120:]
    fitted = fit(plays_of(truth, played), features)
    errors = [fitted.failure_rate(features[task]) - 1 / (1 + exp(SKILLS[-1] - truth[task])) for task in unplayed]
    mean_rate = sum(1 / (1 + exp(SKILLS[-1] - truth[task])) for task in unplayed) / len(unplayed)
    of_mean = [mean_rate - 1 / (1 + exp(SKILLS[-1] - truth[task])) for task in unplayed]
    assert sum(error**2 for error in errors) < 0.25 * sum(error**2 for error in of_mean)


def test_skills_come_out_in_the_order_of_the_players():
    features, truth = world()
    fitted = fit(plays_of(truth, sorted(features)), features)
    steps = [after - before for before, after in zip(fitted.skills, fitted.skills[1:], strict=False)]
    assert steps == pytest.approx([1.0, 1.0], abs=0.3)


def test_the_order_of_the_plays_does_not_matter():
    features, truth = world(tasks=40)
    plays = plays_of(truth, sorted(features))
    assert fit(plays, features) == fit(plays[::-1], features)


def test_the_fit_exists_when_every_play_succeeds():
    features, _ = world(tasks=10)
    fitted = fit([Plays(0, task, 4, 4) for task in features], features)
    assert 0 < fitted.skill < 6
    assert all(fitted.failure_rate(numbers, task) < 0.3 for task, numbers in features.items())


def test_a_task_that_fails_more_often_than_its_features_say_has_a_residual():
    features = {task: {"all tasks": 1.0} for task in ("plain", "odd")}
    fitted = fit([Plays(0, "plain", 8, 8), Plays(0, "odd", 8, 0)], features)
    assert fitted.failure_rate(features["odd"], "odd") > fitted.failure_rate(features["plain"], "plain") + 0.1


def test_without_plays_the_prior_predicts_that_larger_and_hidden_tasks_are_harder():
    small, large = {"all tasks": 1.0}, {"all tasks": 1.0, "lines, doublings": 6.0, "hidden tests": 1.0}
    assert Fit().failure_rate(small) < 0.3 < 0.7 < Fit().failure_rate(large)
    assert fit([], {}) == Fit()
