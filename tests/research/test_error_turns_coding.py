"""Experiment (C)'s runner: the world of repairs, served, sandboxed and graded, behind the arms of (B)."""

from __future__ import annotations

import argparse
import json
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import repair_policy
from helpers.repair_policy import KNOWS

from etude.environments.tasks.task_set import TaskSet
from etude.models import ErrorTurn, Hint, Reward
from etude.research.error_turns import coding, driver
from etude.research.error_turns.real_stack import arm_trainer, base_models, command, runs, teacher_pairs
from etude.research.error_turns.worlds import repair_world, repairs
from etude.research.error_turns.worlds.drill_world import DRILLS
from etude.research.error_turns.worlds.repair_world import REPAIRS, of_id
from etude.research.error_turns.worlds.world import World
from etude.trainers.replay.pairs import read_pairs
from etude.trainers.rollouts.rollout import Rollout

torch.set_num_threads(1)  # as the command does; two threads on busy cores wait for each other
SMALL = replace(REPAIRS, held=2, prompts=1, group=2, max_ids=2000, max_turn_ids=200)
"""The tokenizer of a tiny base writes long."""
PLAYED = REPAIRS.played(3)
TASKS = [*SMALL.tested(), *SMALL.learned(0, 1), *SMALL.learned(7, 2), *PLAYED]


@pytest.fixture(scope="module")
def base(tiny_base: Callable[[World], Path]) -> Path:
    return tiny_base(REPAIRS)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with REPAIRS.served(tmp_path_factory.mktemp("served"), TASKS) as found:
        yield found


def trainer(arm: str, base: Path, url: str, out: Path) -> Any:
    return runs.build_run(SMALL, arm_trainer.ARMS[arm], 1e-3, 7, base, url, out, 2).trainer


def rollout(*calls: str) -> Rollout:
    """Return a rollout whose first turn makes these calls."""
    turn = {"role": "assistant", "tool_calls": [{"name": name, "arguments": {}} for name in calls]}
    return Rollout("a", "e", [], 0, [], [], Reward(value=0), "submit", messages=[{"role": "user", "content": ""}, turn])


# --- the world ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [DRILLS, REPAIRS])
def test_training_tasks_are_neither_held_out_nor_pretrained_on(world: World) -> None:
    def seeds(names: list[str]) -> list[int]:
        return [int(name.removesuffix("-l1").rpartition("-")[2]) for name in names]

    learned, held, played = seeds(world.learned(1, 200)), seeds(world.tested()), seeds(world.played(200))
    assert all(10**6 <= seed < 10**9 and seed % 10 != 9 for seed in learned)
    assert len(set(held)) == 2 * world.held and len(set(played)) == 200 and not set(held) & set(played)
    assert max(held) < 10**5 <= min(played) and max(played) < 10**6
    assert [seed % 10 == 9 for seed in held] == [False] * world.held + [True] * world.held
    assert world.learned(1, 5) == world.learned(1, 9)[:5] != world.learned(2, 5)


@pytest.mark.parametrize("world", [DRILLS, REPAIRS])
def test_world_can_be_pickled(world: World) -> None:
    there = pickle.loads(pickle.dumps(world))
    assert there == world and hash(there) == hash(world)


def test_server_has_every_task_that_a_run_needs(tmp_path: Path) -> None:
    options = argparse.Namespace(arms=["distill", "replay"], seeds=2, tuning=1, updates=3, rates=(1e-4, 1e-3))
    folder = repair_world.written(tmp_path, command.tasks_of(SMALL, options))
    tasks = TaskSet.load(folder)
    for seed in (1, 2, 1000):
        assert all(tasks.by_id(name) for name in SMALL.learned(seed, 3))
    assert {tasks.by_id(name).split for name in SMALL.held_out("eval", 2)} == {"eval"}
    assert len(tasks) == 4 + 1 + 3 * 3 + teacher_pairs.EPISODES


def test_missing_tasks_are_added_to_those_already_written(tmp_path: Path) -> None:
    file = repair_world.written(tmp_path, PLAYED[:1]) / "tasks.jsonl"
    before = file.stat().st_mtime_ns
    repair_world.written(tmp_path, PLAYED[:1])
    assert file.stat().st_mtime_ns == before
    repair_world.written(tmp_path, PLAYED[1:2])
    assert {task.task_id for task in TaskSet.load(tmp_path)} == set(PLAYED[:2])
    file.write_text(file.read_text().replace("should return", "must return"))
    with pytest.raises(driver.Refused, match="other repairs under the same names"):
        repair_world.written(tmp_path, PLAYED[:1])


def test_submitting_at_once_is_no_error_but_counts_as_missed() -> None:
    played = [rollout("submit"), rollout("edit_file"), rollout()]
    spoiled = replace(rollout(), reward=Reward(valid=False))
    for some in (played, [*played, spoiled]):
        found = runs.held(some, REPAIRS.tries)
        assert (found.first, found.missed) == (0.0, round(2 / 3, 5)), "what the machine spoiled does not count"
    with pytest.raises(driver.Refused, match="spoiled every episode"):
        runs.held([spoiled], REPAIRS.tries)


def test_an_edit_of_a_listed_file_works() -> None:
    def works(*paths: Any, name: str = "edit_file") -> bool:
        return REPAIRS.works("repair-5", [{"name": name, "arguments": {"path": path}} for path in paths])

    right, other, *_ = of_id("repair-5").listed
    assert works(right) and works(other) and works(right, other)
    assert not any([works(), works("lost/" + right), works(right, "x.py"), works(None), works(right, name="submit")])
    assert not REPAIRS.works("repair-5", [{"name": "edit_file", "arguments": "torn"}])


def test_a_teacher_edits_and_then_submits() -> None:
    name, arguments = KNOWS.right("repair-5", [])
    assert (name, arguments) == ("edit_file", of_id("repair-5").edit())
    called = {"function": {"name": name, "arguments": json.dumps(arguments)}}
    assert KNOWS.right("repair-5", [{"role": "assistant", "tool_calls": [called]}])[0] == "submit"
    wrong = {KNOWS.wrong("repair-5", [], random.Random(seed))[1]["path"] for seed in range(40)}
    assert len(wrong) == len(repairs.FOLDERS) - 1 and arguments["path"] not in wrong


def test_hints_that_fit_every_task_are_not_wrong_for_another() -> None:
    errors = [
        ErrorTurn(turn=0, kind=kind, message="", hints=[Hint(text=kind)]) for kind in ("budget", "file_not_found")
    ]
    played = replace(rollout(), error_turns=errors)
    for world, texts in ((REPAIRS, ["file_not_found"]), (DRILLS, ["budget", "file_not_found"])):
        arm = arm_trainer.ArmTrainer.__new__(arm_trainer.ArmTrainer)
        arm.world = world
        assert [text for _, text in arm._task_hints(played)] == texts


# --- served, sandboxed, graded -----------------------------------------------------------------------------------


def test_edit_in_a_wrong_folder_is_a_site_with_the_right_path_as_hint(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        arm_trainer.ArmTrainer, "_generate_turns", repair_policy.says(TASKS, "wrong", "right", "submit")
    )
    made = trainer("distill", base, url, tmp_path)
    (played,) = rollouts = made.play([{"task_id": PLAYED[0]}])
    ((site,),) = made._choose_sites(rollouts)
    made.close()
    assert (played.reward.value, played.end, len(played.turns)) == (1.0, "submit", 3)
    assert (site.turn, site.kind) == (0, "file_not_found")
    assert site.text.endswith(f"the nearest path is {of_id(PLAYED[0]).path}.")


def test_site_of_a_wrong_third_turn_is_that_of_the_budget(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_trainer.ArmTrainer, "_generate_turns", repair_policy.says(TASKS, "wrong", "wrong", "wrong"))
    made = trainer("distill", base, url, tmp_path)
    (played,) = rollouts = made.play([{"task_id": PLAYED[0]}])
    (sites,) = made._choose_sites(rollouts)
    made.close()
    assert (played.reward.value, played.end) == (0.0, "budget")
    assert [(site.turn, site.kind) for site in sites] == [(0, "file_not_found"), (1, "file_not_found"), (2, "budget")]


def test_row_of_a_run_has_the_results_of_the_tests(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        arm_trainer.ArmTrainer, "_generate_turns", repair_policy.says(TASKS, "wrong", "right", "submit")
    )
    run = driver.Run("sparse_distill", 1e-3, 7)
    row = runs.train(SMALL, run, base, url, tmp_path, updates=1)
    assert (row["episodes"], row["errors"], row["broken"]) == ([0, 2], [1.0, 1.0], False)
    assert row["held"]["eval"][-1] == {"first": 1.0, "missed": 1.0, "turns": round(1 / 3, 5), "solved": 1.0}
    assert {name: measure(row) for name, measure in coding.MEASURES.items()}["new_words_solved"] == 1.0


def test_ceiling_reads_the_right_path_before_its_first_turn(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_trainer.ArmTrainer, "_generate_turns", repair_policy.says(TASKS, "right", "submit"))
    made = trainer("distill", base, url, tmp_path)
    made._chat = base_models.Hinted(made._chat, REPAIRS.right_hints(PLAYED[:1]))
    (played,) = made.play([{"task_id": PLAYED[0]}])
    made.close()
    head = made.processing_class.decode(played.ids[: played.prompt])
    assert f"the nearest path is {of_id(PLAYED[0]).path}." in head


def test_the_right_edit_becomes_the_chosen_side_of_a_pair(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_trainer.ArmTrainer, "_generate_turns", repair_policy.says(TASKS, "wrong", "submit"))
    found = read_pairs(teacher_pairs.pairs(SMALL, base, url, tmp_path, tasks=PLAYED))
    assert {pair.turn for pair in found} >= {0}
    for pair in found:
        (chosen,) = pair.chosen["tool_calls"]
        assert (chosen["name"], chosen["arguments"]) == KNOWS.right(pair.task_id, [])


# --- the command -------------------------------------------------------------------------------------------------


def test_bases_can_be_made_alone(
    tiny: Callable[[World], World], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = replace(coding.STACK, world=tiny(SMALL))
    command.go(stack, argparse.Namespace(out=tmp_path, make_bases=True, rates=command.RATES))
    assert capsys.readouterr().out.split() == [str(tmp_path / "bases" / name) for name in ("strong", "weak")]
    assert not (tmp_path / "tasks").exists()


def test_a_command_serves_counts_and_reports_a_single_rate_without_tuning(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(base_models, "check", lambda *asked: None)
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "64")
    options = argparse.Namespace(
        out=tmp_path, report=False, arms=["null_hint"], tuning=1, seeds=1, updates=1, jobs=1, bases=base.parent,
        rates=(1e-3,), make_bases=False,
    )  # fmt: skip
    command.go(replace(coding.STACK, world=replace(SMALL, max_ids=700, max_turn_ids=8)), options)
    found = json.loads((tmp_path / "report.json").read_text())
    assert set(found["arms"]) == {"base", "ceiling", "null_hint"} and found["runs"] == {"counted": 3}
    assert "new_words_solved" in capsys.readouterr().out


def test_default_arms_exist() -> None:
    assert set(coding.RUN) <= set(coding.STACK.experiment.arms) and len(coding.RUN) == 14


def test_the_counted_runs_are_of_one_rate_base_and_length(root: Path) -> None:
    rows = driver.load(root / "research/error_turns/results/coding.jsonl")
    trained = [row for row in rows if row["arm"] in arm_trainer.ARMS]
    assert trained and {row["rate"] for row in trained} == set(coding.RATES)
    assert {(row["base"], row["updates"]) for row in rows} == {(rows[0]["base"], REPAIRS.updates)}
    assert all(row["episodes"] == [0, 128, 256, 384] for row in trained)
    arms = [row["arm"] for row in trained]
    complete = [name for name in coding.RUN if arms.count(name) == 5]
    assert complete == coding.RUN[: len(complete)], "in the registered order"
