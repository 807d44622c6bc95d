"""Experiment (B): its arms, its held-out drills, its runs through the real stack."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from etude.models import ErrorTurn, Hint, Reward
from etude.research.error_turns import driver, stack, summary
from etude.research.error_turns.real_stack import arm_trainer, base_models, command, measures, runs
from etude.research.error_turns.worlds import drill_world
from etude.research.error_turns.worlds.drill_world import DRILLS
from etude.research.error_turns.worlds.world import World
from etude.trainers.grpo.dynamic_sampling import SampledBatch
from etude.trainers.grpo.scored_batch import attach, scored_rows
from etude.trainers.rollouts.rollout import Rollout, Span

SMALL = replace(DRILLS, held=2, prompts=2, group=2, max_ids=700, max_turn_ids=8)


def rollout(*errors: int, turns: int = 3, task: str = "a", solved: float = 0.0) -> Rollout:
    """Turns of three ids behind a prompt of five, two ids of the environment's between them."""
    spans = [Span(start - 1, start, start + 3) for start in range(6, 6 + 5 * turns, 5)]
    marked = [
        ErrorTurn(turn=turn, kind="tool_not_found", message=f"no tool {turn}", hints=[Hint(text=f"hint {task} {turn}")])
        for turn in errors
    ]
    return Rollout(task, "e", list(range(spans[-1].end)), 5, spans, [], Reward(value=solved), "submit", False, marked)


def trainer(arm: str, base: Path, url: str, out: Path) -> Any:
    return runs.build_run(SMALL, arm_trainer.ARMS[arm], 1e-3, 7, base, url, out, 2).trainer


# --- what an arm changes -----------------------------------------------------------------------------------------


def test_the_dense_reward_is_the_verified_one_less_the_share_of_turns_that_erred() -> None:
    assert arm_trainer.with_dense_reward(rollout(0, 2, solved=1.0)).reward.value == pytest.approx(1 / 3)
    assert arm_trainer.with_dense_reward(rollout(solved=1.0)).reward.value == 1.0


def test_the_penalty_is_centred_over_the_episodes_that_have_the_turn() -> None:
    played = [rollout(0), rollout(turns=1), rollout(0, 2), rollout(turns=2)]
    found = arm_trainer.penalties(played, 4, 13)
    first = torch.tensor([-0.5, 0.5, -0.5, 0.5])
    torch.testing.assert_close(found[:, 1:4], first[:, None].expand(-1, 3))
    torch.testing.assert_close(found[:, 11:], torch.tensor([0.5, 0.0, -0.5, 0.0])[:, None].expand(-1, 2))
    assert not found[:, [0, 4, 5, 9, 10]].any(), "the environment's ids have none"


def test_groups_are_centred_each_by_itself() -> None:
    found = arm_trainer.penalties([rollout(0), rollout(0), rollout(), rollout(0)], 2, 13)
    assert found[:, 1].tolist() == [0.0, 0.0, 0.5, -0.5]


def test_error_turns_move_to_good_turns_while_there_are_some() -> None:
    moved = arm_trainer.at_good_turns(rollout(1, turns=4), random.Random(0))
    assert [error.hints[0].text for error in moved] == ["hint a 1"]
    assert moved[0].turn in {0, 2, 3}
    assert len(arm_trainer.at_good_turns(rollout(0, 1), random.Random(0))) == 1
    assert arm_trainer.at_good_turns(rollout(), random.Random(0)) == []


def test_hints_move_to_turns_of_the_same_task_where_their_call_is_due() -> None:
    """Expect the call `read` until a turn has read: in the turns before the first good one, and in that one."""
    played = [rollout(0), rollout(), rollout(0, 1), rollout(task="b"), rollout(0, task="b"), rollout(task="c")]

    def due(of: Rollout, turn: int) -> str:
        return "read" if set(range(turn)) <= of.erring_turns else "submit"

    moved = arm_trainer.at_due_turns(played, due, random.Random(0))
    hints = [[(error.turn, error.hints[0].text) for error in each.error_turns] for each in moved]
    assert [[turn for turn, _ in some] for some in hints[:3]] == [[1], [0], [2]]
    assert [turn for some in hints[3:] for turn, _ in some] in ([0], [1])
    texts = [text for some in hints for _, text in some]
    assert sorted(texts) == ["hint a 0", "hint a 0", "hint a 1", "hint b 0"]


class Told(arm_trainer.ArmTrainer):
    """The arm's choice of hints alone."""

    def __init__(self, arm: str, played: list[Rollout]) -> None:
        self.world, self.arm = DRILLS, arm_trainer.ARMS[arm]
        self.args, self.state = SimpleNamespace(seed=0), SimpleNamespace(global_step=0)
        self._texts = [told for each in played for told in self._task_hints(each)]


def test_raw_and_wrong_hints() -> None:
    played = [rollout(0), rollout(1, task="b")]
    raw, wrong = (Told(arm, played)._error_turns(played[0], 0, played) for arm in ("raw_error", "wrong_hint"))
    assert [each.hints[0].text for each in raw] == ["no tool 0"]
    assert [(each.turn, each.hints[0].text) for each in wrong] == [(0, "hint b 1")]
    assert Told("wrong_hint", played[:1])._error_turns(played[0], 0, played[:1]) == [], "of the same task none is wrong"


def test_gradients_of_rounding_size_make_no_update() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    kept = model.weight.detach().clone()
    for size, moves in ((1e-9, False), (1e-3, True)):
        for value in model.parameters():
            value.grad = torch.full_like(value, size)
        arm_trainer.NoRounding().on_pre_optimizer_step(None, None, None, model=model)
        optimizer.step()
        assert torch.equal(model.weight, kept) != moves


def test_submitting_at_once_is_no_error_but_counts_as_missed() -> None:
    def said(name: str, *errors: int) -> Rollout:
        turn = {"role": "assistant", "tool_calls": [{"name": name, "arguments": {}}]}
        return replace(rollout(*errors), messages=[{"role": "user", "content": "?"}, turn])

    played = [said("submit"), said("car_owner_get"), said("car_owner_get", 0), rollout()]
    found = runs.held(played, DRILLS.tries)
    assert (found.first, found.missed) == (0.25, 0.75)


# --- through the stack -------------------------------------------------------------------------------------------


def test_null_hint_is_inserted_nowhere_and_has_the_sites_of_the_right_hint(
    base: Path, url: str, tmp_path: Path
) -> None:
    found = {}
    for arm in ("distill", "null_hint"):
        made = trainer(arm, base, url, tmp_path / arm)
        torch.manual_seed(0)
        played = made.play([{"task_id": name} for name in SMALL.learned(7, 2)])
        found[arm] = [[replace(site, hint=[]) for site in sites] for sites in made._choose_sites(played)]
        made.close()
    assert found["distill"] == found["null_hint"]
    assert any(found["distill"])


@pytest.mark.parametrize("arm", ["grpo_penalty", "sft_resample", "dense_distill", "ema_05", "raw_error"])
def test_run_is_reproducible(arm: str, base: Path, url: str, tmp_path: Path) -> None:
    run = driver.Run(arm, 1e-3, 7)
    one, two = (runs.train(SMALL, run, base, url, tmp_path, updates=2) for _ in range(2))
    assert {**one, "cpu_seconds": 0} == {**two, "cpu_seconds": 0}
    assert (one["episodes"], one["broken"]) == ([0, 4, 8], False)
    assert 0 < one["tokens"][1] < one["tokens"][2]


def test_run_with_nan_weights_errs_from_then_on(base: Path, url: str, tmp_path: Path) -> None:
    row = runs.train(SMALL, driver.Run("distill", 1e38, 7), base, url, tmp_path, updates=4)
    assert (row["broken"], row["episodes"], row["errors"][-1]) == (True, [0, 4, 8, 12, 16], 1.0)
    assert row["held"]["eval"][-1]["solved"] == 0


def test_samples_that_work_are_learned_and_others_are_not(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer("sft_resample", base, url, tmp_path / "run")
    sampled = SampledBatch(made.play([{"task_id": name} for name in SMALL.learned(7, 2)]), [[], []])
    inputs: dict[str, Any] = {}
    attach(inputs, scored_rows(sampled, made._choose_sites(sampled.rollouts)), torch.tensor(10))
    monkeypatch.setattr(arm_trainer.ArmTrainer, "_works", lambda self, task, sample: False)
    assert float(made._learned_from_samples(made.model, inputs)) == 0
    monkeypatch.setattr(arm_trainer.ArmTrainer, "_works", lambda self, task, sample: True)
    loss = made._learned_from_samples(made.model, inputs)
    assert float(loss.detach()) > 0 and loss.requires_grad
    made.close()


def test_only_calls_of_existing_reading_tools_work(base: Path, url: str, tmp_path: Path) -> None:
    made = trainer("sft_resample", base, url, tmp_path / "run")
    task = SMALL.held_out("train", 1)[0]
    known = [tool.name for tool in drill_world.DrillTasks(["verbs"], level=1).drill(task).tools]
    reads = next(name for name in known if name.endswith(drill_world.READING))

    def works(*names: str) -> bool:
        calls = "".join(f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call>' for name in names)
        ids = made._tokenizer.encode(calls, add_special_tokens=False)
        return bool(made._works(task, arm_trainer.Sample(ids)))

    assert works(reads)
    assert not any([works(), works("submit"), works(f"{reads}_get"), works(reads, "submit")])
    made.close()


def test_ceiling_reads_the_right_hint_before_its_first_turn(base: Path, url: str, tmp_path: Path) -> None:
    made = trainer("distill", base, url, tmp_path / "run")
    task = SMALL.held_out("train", 1)[0]
    hints = SMALL.right_hints([task])
    plain = made.play([{"task_id": task}])[0]
    made._chat = base_models.Hinted(made._chat, hints)
    told = made.play([{"task_id": task}])[0]
    (text,) = hints.values()
    (right, _), *_ = drill_world.DrillTasks(["verbs"], level=1).drill(task).solution()
    assert f"use {right}" in text
    written = made._tokenizer.decode(told.ids[: told.prompt])
    assert text in written
    inserted = told.prompt - plain.prompt
    begin = plain.turns[0].begin
    assert told.ids[:begin] + told.ids[begin + inserted : told.prompt] == plain.ids[: plain.prompt]
    made.close()


def test_longer_run_is_evaluated_less_often_after_the_usual_length() -> None:
    assert [n for n in range(1, 121) if runs.due(n, 10, 40)] == [10, 20, 30, 40, 80, 120]


# --- the command -------------------------------------------------------------------------------------------------


def test_command_tunes_counts_reports_and_resumes(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(base_models, "check", lambda *asked: None)
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "64")
    small = replace(stack.STACK, world=SMALL)
    options = argparse.Namespace(
        out=tmp_path, report=False, arms=["distill"], tuning=1, seeds=1, updates=1, jobs=1, bases=base.parent,
        rates=(1e-4, 1e-3), make_bases=False,
    )  # fmt: skip
    command.go(small, options)
    rows = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [(row["arm"], row["seed"]) for row in rows] == [
        ("base", 0), ("ceiling", 0), ("distill", 1000), ("distill", 1000), ("distill", 1),
    ]  # fmt: skip
    assert set(json.loads((tmp_path / "report.json").read_text())["arms"]) == {"base", "ceiling", "distill"}
    monkeypatch.setattr(command, "run_one", lambda *run, **more: pytest.fail("it was done"))
    command.go(small, options)
    command.go(small, argparse.Namespace(**{**vars(options), "report": True}))
    assert "new_nouns_solved" in capsys.readouterr().out


def test_bases_are_made_once(tiny: Callable[[World], World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = argparse.Namespace(arms=["weak_live"], bases=None, out=tmp_path, ready_bases={})
    world = tiny(DRILLS)
    assert command.places_of(world, options) == {"weak": tmp_path / "bases" / "weak"}
    first = base_models.digest(tmp_path / "bases" / "weak")
    monkeypatch.setattr(base_models, "make_base", None)
    command.places_of(world, options)
    assert base_models.digest(tmp_path / "bases" / "weak") == first


def test_a_folder_without_the_bases_is_refused(tmp_path: Path) -> None:
    options = argparse.Namespace(arms=["weak_live", "distill"], bases=tmp_path, out=tmp_path)
    with pytest.raises(driver.Refused, match="holds no strong and no weak"):
        command.places_of(DRILLS, options)


def test_base_that_errs_too_rarely_or_ignores_hints_is_refused() -> None:
    for plain, with_hint, said in ((0.2, 0.0, "without a hint"), (0.9, 0.5, "with the right hint")):
        with pytest.raises(base_models.UnfitBase, match=said):
            base_models.check(DRILLS, "strong", plain, with_hint)


def test_contrasts_name_existing_arms_and_measures() -> None:
    known = {*arm_trainer.ARMS, *driver.EVALUATED}
    assert {"P1", "P2", "P3", "P4", "P5"} <= {each.name for each in measures.CONTRASTS}
    for contrast in measures.CONTRASTS:
        assert {side for side in (contrast.left, contrast.right) if isinstance(side, str)} <= known
        assert contrast.measure in measures.MEASURES


def test_control_that_moves_fails_its_check() -> None:
    def row(*errors: float, kl: float = 0.0) -> dict[str, Any]:
        return {"errors": errors, "good_turn_kl": kl, "drifts": []}

    found = measures.checks(
        {
            "wrong_hint": [row(0.7, 0.65), row(0.7, 0.9), row(0.7, 0.4)],
            "null_hint": [row(0.7, 0.7), row(0.7, 0.7, kl=1.0)],
        }
    )
    assert found["wrong_hint ends at most .10 below the base"] == "2 of 3"
    assert found["null_hint ends within .10 of the base, KL <= .01"] == "1 of 2"


def test_the_counted_runs_have_the_rate_that_their_tuning_chose(root: Path) -> None:
    rows = driver.load(root / "research/error_turns/results/stack.jsonl")
    trained = [row for row in rows if row["arm"] in arm_trainer.ARMS and row["seed"] < summary.TUNING]
    assert trained
    for row in trained:
        experiment = replace(stack.STACK.experiment, rates=command.RATES)
        registered = 3e-4 if row["arm"] not in stack.STACK.arms else driver.chosen(experiment, row["arm"], rows, 1)
        assert row["rate"] == registered
        assert (row["updates"], len(row["episodes"])) == (40, 6)


def test_s19_was_counted_on_one_base_at_the_rates_that_the_tuning_chose(root: Path) -> None:
    """Both of its arms, on the base that was made again."""
    results = root / "research/error_turns/results"
    tuned = driver.load(results / "stack.jsonl")
    experiment = replace(stack.STACK.experiment, rates=command.RATES)
    rows = driver.load(results / "stack_10x.jsonl")
    assert len({row["base"] for row in rows} - {row["base"] for row in tuned}) == 1
    every = driver.counted(experiment, rows)
    for arm, last in {"distill": 1280, "grpo_dense_10x": 12_800}.items():
        assert [row["seed"] for row in every[arm]] == [1, 2, 3, 4, 5]
        assert {row["rate"] for row in every[arm]} == {driver.chosen(experiment, arm, tuned, 1)}
        assert {row["episodes"][-1] for row in every[arm]} == {last}
    assert "S19" in {one["contrast"] for one in driver.report(experiment, rows, 5)["contrasts"]}
