"""The strength of hidden tests, measured with mutants in a real sandbox, and the knobs of the checks."""

from __future__ import annotations

import asyncio

import pytest
from helpers.paths import DATA

from etude.environments.tasks.task_set import TaskSet
from etude.environments.tasks.task_trees import materials
from etude.errors import GeneratorError
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.validation.checks.exercise import Exercise
from etude.generators.validation.checks.final_checks import CheckKnobs
from etude.generators.validation.checks.wrong_solutions.strength import sample, strength
from etude.models import Task

SAMPLE = DATA / "scales"


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Task:
    out = tmp_path_factory.mktemp("set")
    knobs = {"min_lines": 3, "mutants": 0}
    generate([str(SAMPLE)], generators=["fd_function"], count=1, seed=7, out=out, knobs=knobs)
    return next(iter(TaskSet.load(out)))


def measured(task: Task):
    trees = materials(task)
    return asyncio.run(strength(task, trees, Exercise.of(task, trees)))


def test_a_task_has_no_strength_when_no_mutants_are_run(task: Task):
    assert task.verifier_strength is None and task.features["mutants"] == 0


def test_good_tests_notice_most_mistakes_and_the_strength_is_reproducible(task: Task):
    first = measured(task)
    assert first.value is not None and first.value > 0.5 and 0 < first.tried <= 8
    assert measured(task) == first


def test_a_test_notices_no_mistake_when_it_does_not_run_the_code(task: Task):
    blind = task.model_copy(update={"FAIL_TO_PASS": task.PASS_TO_PASS[:1]})
    result = measured(blind)
    assert result.value == 0.0 and len(result.survivors) == result.tried


def test_the_sample_has_every_kind_of_mistake_before_a_second_of_one(task: Task):
    exercise = Exercise.of(task, materials(task))
    everything = sample(task, exercise, 1000)
    kinds = {mutant.operator for _, mutant in everything}
    few = sample(task, exercise, len(kinds))
    assert {mutant.operator for _, mutant in few} == kinds
    assert all(few[number] == everything[number] for number in range(len(few)))


@pytest.mark.parametrize(
    "knobs", [{"mutants": "many"}, {"mutants": -1}, {"min_strength": 2}, {"mutants": 0, "min_strength": 0.5}]
)
def test_a_knob_of_the_checks_is_refused_when_it_is_wrong(knobs: dict[str, object]):
    with pytest.raises(GeneratorError, match="mutants|min_strength"):
        parse_knobs(CheckKnobs, knobs)
