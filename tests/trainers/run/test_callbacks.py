"""What is said and written down while a run goes on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.made_up_rollouts import made_up
from helpers.model_factory import model
from helpers.scripted_policy import Scripted, base

from etude.errors import RecipeError, TrainingRunError
from etude.models import ErrorTurn
from etude.trainers.distillation.divergence import divergence
from etude.trainers.recipe.load import parse
from etude.trainers.run import train
from etude.trainers.run.builder import watched
from etude.trainers.run.callbacks import BOARD, METRICS, Metrics, Watch, good_turns_kl, open_board, read_metrics
from etude.trainers.run.checkpoints import Keeper, newest
from etude.trainers.run.metrics_summary import Steps, a_token, duration, groups_of, left_out, warnings_of
from etude.trainers.run.train import Result, run

Said = list[tuple[str, int, int]]


def recipe(**channels: float) -> dict[str, Any]:
    table = {"model": {"make": "drill"}, "environment": {"serve": "drill"}, "train": {"prompts": 2, "group": 4}}
    return parse({**table, "channels": channels or {"rlvr": 1.0}}).model_dump(mode="json")


# --- A line for each step ---------------------------------------------------------------------------------------


def test_a_line_says_how_the_run_does_and_how_long_it_will_take() -> None:
    row = {
        "step": 3,
        "loss": 0.25,
        "reward": 0.125,
        "episodes/solved": 0.5,
        "episodes/error_turn_rate": 0.4,
        "distillation/tokens": 20.0,
        "distillation/divergence": 5.0,
        "groups/flat": 0.0,
        "groups/unsolved": 0.5,
        "seconds/step": 4.0,
    }
    steps = Steps(prompts=2)
    said = "step 3 of 10: reward 0.125, loss 0.25, solved 50%, error turns 40%, divergence 0.25, 4 s a step, 28 s left"
    assert steps.line(row, 10) == said
    assert steps.line({"step": 4, "loss": float("nan"), "seconds/step": 8.0}, 10) == (
        "step 4 of 10: loss nan, 8 s a step, 36 s left"
    )


def test_a_line_warns_while_most_groups_are_unsolved() -> None:
    steps = Steps(prompts=2)
    assert "unsolved groups 2 of 2" in steps.line({"step": 1, "groups/flat": 1.0, "groups/unsolved": 1.0}, 9)
    assert "unsolved" not in steps.line({"step": 2, "groups/flat": 1.0, "groups/unsolved": 0.0}, 9)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0421, "0.042 s"), (4.25, "4.2 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


# --- Warnings ---------------------------------------------------------------------------------------------------


def test_groups_are_counted_where_some_were_played() -> None:
    rows = [{"groups/flat": 1.0, "groups/unsolved": 0.5}, {"loss": 1.0}, {"groups/flat": 0.5, "groups/unsolved": 0.0}]
    assert groups_of(rows, prompts=4) == (8, 6, 2)


@pytest.mark.parametrize(
    ("row", "channels", "said"),
    [
        ({"groups/flat": 1.0, "groups/unsolved": 1.0}, {}, ["pass@4 was 0 on 2 of 2 groups"]),
        ({"groups/flat": 1.0, "groups/unsolved": 0.5}, {}, ["2 of 2 groups had no variance"]),
        ({"groups/flat": 1.0, "groups/unsolved": 0.5}, {"rlvr": 0.0, "distillation": 1.0}, []),
        ({"groups/flat": 0.5, "groups/unsolved": 0.5}, {}, []),
        ({"episodes/valid": 0.5}, {}, ["50% of the episodes were not valid"]),
        ({"episodes/truncated": 0.6}, {}, ["most episodes were cut off"]),
        (
            {"distillation/chosen": 0.0, "distillation/left_out/no_hint": 2.0, "distillation/left_out/too_long": 1.0},
            {"distillation": 1.0},
            ["distillation had no site to learn at; most were left out: no hint"],
        ),
        (
            {"distillation/chosen": 40.0, "distillation/sites": 40.0, "distillation/sites_helped": 2.0},
            {"distillation": 1.0},
            ["hints helped at 5% of the sites"],
        ),
        (
            {"gradient/rlvr": 0.01, "gradient/distillation": 0.12, "gradient/replay": 0.04},
            {"distillation": 1.0},
            ["the gradient of distillation is 12 times RLVR's"],
        ),
        ({"gradient/rlvr": 0.0, "gradient/replay": 0.04}, {"distillation": 1.0}, []),
        ({"groups/flat": 0.5, "groups/given_up": 2.0}, {}, ["2 of 2 groups had no variance after all rounds"]),
    ],
)
def test_a_run_warns_of_what_teaches_nothing(
    row: dict[str, float], channels: dict[str, float], said: list[str]
) -> None:
    found = warnings_of([row], recipe(**channels))
    assert len(found) == len(said) and all(map(str.startswith, found, said)), found


def test_a_limit_that_was_never_measured_is_warned_of() -> None:
    told = {**recipe(), "safety": {"kl_to_base": 0.1}}
    assert "kl_to_base was never measured" in warnings_of([{"loss": 1.0}], told)[0]
    assert warnings_of([{"kl_good_turns": 0.0}], told) == []


def test_a_mixture_of_experts_is_warned_of() -> None:
    assert "mixture of experts" in warnings_of([], recipe(), moe=True)[0]


def test_sums_and_reasons_are_read_from_rows() -> None:
    assert a_token({"distillation/tokens": 0.0, "distillation/divergence": 0.0}, "distillation/divergence") is None
    rows = [{"distillation/left_out/too_long": 2.0}, {"distillation/left_out/too_long": 1.0, "loss": 1.0}]
    assert left_out(rows) == {"too long": 3}


# --- What a limit watches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["qwen3", "gemma2"])
def test_the_kl_to_the_base_is_exact_over_the_good_turns(name: str) -> None:
    student, base_ = model(name, 1), model(name, 2)
    played = [made_up(1.0, task, turns=(5, 3, 4)) for task in ("a", "b")]
    played[1].error_turns = [ErrorTurn(turn=1, kind="wasteful")]
    found = good_turns_kl(student, base_, [(rollout, []) for rollout in played])
    each = []
    with torch.no_grad():
        for rollout, turns in zip(played, ((0, 1, 2), (0, 2)), strict=True):
            mine, theirs = (m(torch.tensor([rollout.ids])).logits[0] for m in (student, base_))
            rows = [p - 1 for turn in turns for p in range(rollout.turns[turn].start, rollout.turns[turn].end)]
            each.append(divergence(mine[rows], theirs[rows], 1.0))
    assert found == pytest.approx(float(torch.cat(each).mean()), rel=1e-6)
    assert good_turns_kl(student, base_, []) is None


@pytest.mark.parametrize(
    ("measured", "noted"), [(0.25, [("kl_good_turns", 0.25)]), (math.nan, [("kl_good_turns", math.inf)]), (None, [])]
)
def test_a_divergence_that_is_no_number_reaches_the_limit(measured: float | None, noted: list[Any]) -> None:
    """TRL leaves NaN out of its averages."""
    found: list[Any] = []
    accelerator = SimpleNamespace(gather=lambda tensor: tensor, device="cpu")
    trainer = SimpleNamespace(accelerator=accelerator, _note=lambda *each: found.append(each))
    Watch(trainer, None, drift=False, kl=False)._note("kl_good_turns", measured)
    assert found == noted


# --- What is written --------------------------------------------------------------------------------------------


def state(step: int, first: bool = True) -> Any:
    return SimpleNamespace(global_step=step, max_steps=9, is_world_process_zero=first)


def test_a_resumed_run_drops_the_lines_of_steps_that_it_makes_again(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"step": step, "loss": 1.0}) + "\n" for step in range(1, 6)) + '{"step": 6, "lo'
    (tmp_path / METRICS).write_text(lines)
    metrics = Metrics(
        tmp_path, lambda phase, done, total: None, costs=lambda: {"cost/usd": 2.0}, clock=iter([1.0, 3.5]).__next__
    )
    metrics.on_train_begin(None, state(3), None)
    metrics.on_step_begin(None, state(3), None)
    metrics.on_log(None, state(4), None, logs={"loss": 2.0, "kl": None, "text": "x"})
    metrics.on_log(None, state(4), None, logs={"train_loss": 2.0})
    rows = read_metrics(tmp_path / METRICS)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert rows[-1] == {"step": 4, "loss": 2.0, "seconds/step": 2.5, "cost/usd": 2.0}


def test_a_report_that_cannot_be_written_costs_no_checkpoint(tmp_path: Path) -> None:
    callbacks: list[Any] = []
    trainer = SimpleNamespace(remove_callback=lambda kind: None, add_callback=callbacks.append)
    table = {"model": {"make": "drill"}, "environment": {"serve": "drill"}, "out": str(tmp_path)}
    watched(trainer, parse(table), Keeper(None, None), lambda phase, done, total: None)
    checkpoint = tmp_path / "checkpoints" / "checkpoint-2"
    checkpoint.mkdir(parents=True)
    with pytest.raises(TrainingRunError, match="no training run in"):  # its recipe is gone
        for each in callbacks:
            each.on_save(SimpleNamespace(output_dir=str(checkpoint.parent)), state(2), None)
    assert newest(tmp_path) == checkpoint


def test_a_step_tells_the_most_memory_that_its_gpu_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"peak": 9 * 2**30}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: held["peak"])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: held.update(peak=0))
    state = SimpleNamespace(is_world_process_zero=True, global_step=1, max_steps=2)
    metrics = Metrics(tmp_path, lambda *said: None)
    metrics.on_step_begin(None, state, None)
    held["peak"] = 3 * 2**29
    metrics.on_log(None, state, None, logs={"loss": 1.0})
    assert read_metrics(tmp_path / METRICS)[0]["memory/peak_gib"] == 1.5


def test_other_ranks_write_nothing(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, lambda phase, done, total: None, board=True)
    for event in (metrics.on_train_begin, metrics.on_step_begin, metrics.on_log, metrics.on_save, metrics.on_train_end):
        event(None, state(1, first=False), None, logs={"loss": 1.0})
    assert not list(tmp_path.iterdir())


def test_without_tensorboard_a_recipe_that_wants_it_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    find = train.importlib.util.find_spec
    monkeypatch.setattr(train.importlib.util, "find_spec", lambda name: None if name == "tensorboard" else find(name))
    table = {"model": {"make": "drill"}, "environment": {"serve": "drill"}, "out": str(tmp_path / "out")}
    with pytest.raises(RecipeError, match=r"tensorboard = true needs tensorboard: pip install 'etude\[train\]'"):
        run(parse({**table, "tensorboard": True}))
    assert not (tmp_path / "out").exists()


def scalars(out: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(out / BOARD), size_guidance={"scalars": 0}).Reload()
    return {name: [(each.step, each.value) for each in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_tensorboard_shows_a_step_that_was_made_twice_once(tmp_path: Path) -> None:
    for begin, end, value in ((1, 4, 1.0), (3, 6, 2.0)):
        board = open_board(tmp_path, begin)
        for step in range(begin, end):
            board.add_scalar("loss", value, step)
        board.close()
    assert scalars(tmp_path)["loss"] == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)]


class Breaking(Scripted):
    """Breaks in the middle of a step, once."""

    at = 0

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        if self.model.training and self.state.global_step + 1 == type(self).at:
            type(self).at = 0
            raise ConnectionError("the machine is gone")
        return super()._compute_loss(model, inputs)


def broken_and_resumed(tmp_path: Path, url: str, said: Said) -> Result:
    """Four steps, a checkpoint at the second, broken in the fourth, and run again."""
    table = {
        "out": str(tmp_path / "run"),
        "tensorboard": True,
        "model": {"name": str(base(tmp_path / "model")), "template": {"enable_thinking": False}},
        "environment": {"url": url, "tasks": 4},
        "train": {"steps": 4, "prompts": 1, "group": 4, "micro": 2, "save_every": 2, "evaluate_tasks": 2},
        "channels": {"rlvr": 1.0, "distillation": 1.0},
        "distillation": {"gate": False},
        "generation": {"max_ids": 6000, "max_turn_ids": 400},
    }
    Breaking.at = 4
    with pytest.raises(ConnectionError):
        run(parse(table), lambda *each: said.append(each), trainer=Breaking)
    assert "Under way: 2 of 4 steps" in (tmp_path / "run" / "report.html").read_text()
    assert [row["step"] for row in read_metrics(tmp_path / "run" / METRICS)] == [1, 2, 3]
    return run(parse(table), lambda *each: said.append(each), trainer=Breaking)


def test_a_run_that_broke_has_every_step_once_everywhere(tmp_path: Path, drill_url: str) -> None:
    said: Said = []
    result, out = broken_and_resumed(tmp_path, drill_url, said), tmp_path / "run"
    assert (result.resumed_from, result.steps) == (2, 4)
    rows = read_metrics(out / METRICS)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    found = scalars(out)
    for name in ("loss", "reward", "episodes/solved", "distillation/tokens", "seconds/playing"):
        assert found[name] == [(row["step"], pytest.approx(row[name])) for row in rows]
    assert all(0 < row["seconds/playing"] < row["seconds/step"] for row in rows)
    assert [phase.partition(":")[0] for phase, _, _ in said if phase.startswith("step")] == [
        f"step {step} of 4" for step in (1, 2, 3, 3, 4)
    ]
    page = (out / "report.html").read_text()
    assert "Done: 4 of 4 steps." in page and "Channel 2" in page and "Channel 3" not in page
