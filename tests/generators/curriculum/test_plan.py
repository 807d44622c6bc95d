"""The plan: harder settings as the solve rate rises, easier ones as it falls, and the same plan for the same runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from etude.environments.tasks.static_features import TaskFeatures
from etude.errors import GeneratorError
from etude.generators import GENERATORS
from etude.generators.curriculum.band import MEDIUM, Band
from etude.generators.curriculum.item_response import Plays
from etude.generators.curriculum.ladder import ladder
from etude.generators.curriculum.plan import make_plan
from etude.generators.curriculum.play_log import PlayLog
from etude.generators.curriculum.priors import vector
from etude.generators.knob_parsing import parse_knobs

GENERATOR_NAMES = ("bug_operator", "fd_function", "fd_feature")


@pytest.fixture(scope="module")
def ladders():
    return {name: ladder(name, GENERATORS.load(name).knobs, {}) for name in GENERATOR_NAMES}


def log_of(*rates, tries=4):
    """Return a log of one run for each rate, in which each of 12 tasks was solved with that rate."""
    features, plays = {}, []
    for player, rate in enumerate(rates):
        for number in range(12):
            knobs = {"tests": "hidden", "mode": "stub", "min_lines": 5}
            task = TaskFeatures(environment="coding", generator="fd_function", knobs=knobs, lines=10 + number)
            features[f"{player}-{number}"] = task
            plays.append(Plays(player, f"{player}-{number}", tries, round(rate * tries)))
    return PlayLog([f"run-{number}" for number in range(len(rates))], plays, features)


def mean_failure_before(plan):
    """Return how hard the requested settings are for a solver of skill 0, in logits, over all candidates."""
    total = sum(request.count for request in plan.requests)
    played = [task for task in plan.log.features.values() if task.generator == "fd_function"]
    hardness = 0.0
    for request in plan.requests:
        own = played if request.setting.generator == "fd_function" else []
        hardness += plan.fit.difficulty(vector(request.setting.typical_features(own))) * request.count
    return hardness / total


def test_harder_settings_are_requested_when_the_solve_rate_rises(ladders):
    hardness = [mean_failure_before(make_plan(ladders, log_of(0.5, rate), MEDIUM, 10, 0)) for rate in (0.25, 0.5, 1.0)]
    assert hardness == sorted(hardness) and hardness[-1] - hardness[0] > 1.0


def test_easier_settings_are_requested_when_the_solve_rate_falls(ladders):
    risen = make_plan(ladders, log_of(0.5, 1.0), MEDIUM, 10, 0)
    fallen = make_plan(ladders, log_of(0.5, 1.0, 0.25), MEDIUM, 10, 0)
    assert fallen.fit.skill < risen.fit.skill
    assert mean_failure_before(fallen) < mean_failure_before(risen)


def test_every_requested_setting_is_within_the_band_and_all_candidates_are_shared_out(ladders):
    plan = make_plan(ladders, log_of(0.5), MEDIUM, 10, 0)
    assert all(request.failure_rate in MEDIUM for request in plan.requests) and not plan.warning
    assert sum(request.count for request in plan.requests) == 10 * len(ladders)


def test_the_plan_depends_on_runs_and_seed_alone(ladders):
    first, again = (make_plan(ladders, log_of(0.5, 0.75), MEDIUM, 7, 3) for _ in range(2))
    assert first.report() == again.report() and first.digest == again.digest
    assert make_plan(ladders, log_of(0.5, 0.25), MEDIUM, 7, 3).digest != first.digest


def test_a_plan_outside_the_band_warns_and_names_the_remedy(ladders):
    easy = {"bug_operator": ladders["bug_operator"]}
    plan = make_plan(easy, log_of(1.0, 1.0, 1.0, 1.0, 1.0), MEDIUM, 10, 0)
    assert {request.setting.step for request in plan.requests} == {ladders["bug_operator"][-1].step}
    assert plan.warning.startswith("the hardest setting fails only in")
    assert plan.warning.endswith("add generators to -g that are harder")


def test_tasks_that_are_always_solved_are_outgrown_and_those_solved_sometimes_are_not(ladders):
    log = log_of(0.5)
    log.features["easy"] = TaskFeatures(environment="coding", generator="bug_operator", lines=1)
    log.plays.append(Plays(0, "easy", 40, 40))
    plan = make_plan(ladders, log, MEDIUM, 10, 0)
    assert plan.outgrown() == {"easy"}
    assert len(log.of_both()) == 12


def test_a_ladder_takes_the_knobs_that_a_generator_has_and_leaves_those_of_the_user():
    @dataclass(frozen=True)
    class Knobs:
        tests: Literal["hidden", "visible"] = "hidden"
        style: str = "issue"
        other: int = 1

    steps = [dict(setting.knobs) for setting in ladder("mine", Knobs, {"style": "terse"})]
    assert steps == [{"style": "terse", "tests": "visible"}, {"style": "terse", "tests": "hidden"}]


def test_every_setting_of_every_generator_is_one_that_the_generator_accepts():
    for name in GENERATORS.names():
        kind = GENERATORS.load(name).knobs
        for setting in ladder(name, kind, {}):
            parse_knobs(kind, setting.knobs)


@pytest.mark.parametrize("text", ["", "x", "0.3", "0.7:0.3", "-1:0.5", "0:2", "0.1:0.2:0.3", "nan:1"])
def test_a_difficulty_that_is_not_a_band_is_refused_with_the_remedy(text):
    with pytest.raises(GeneratorError, match=r"give easy, medium, hard or LOW:HIGH from 0 to 1, such as 0.3:0.7"):
        Band.read(text)


def test_named_difficulties_are_bands():
    assert Band.read("medium") == Band(0.3, 0.7) == Band.read("0.3:0.7")
