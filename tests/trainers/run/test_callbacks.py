"""Progress lines, warnings, measurements and files of a run."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
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
from etude.trainers.report.metrics_summary import (
    StepLines,
    duration,
    group_counts,
    left_out_counts,
    per_token,
    run_warnings,
)
from etude.trainers.report.run_files import METRICS, read_metrics
from etude.trainers.run import callbacks, preflight
from etude.trainers.run.builder import add_callbacks
from etude.trainers.run.callbacks import TENSORBOARD, MetricsWriter, PolicyMonitor, good_turns_kl, open_board
from etude.trainers.run.checkpoints import StateSaver, newest_checkpoint
from etude.trainers.run.records import Result
from etude.trainers.run.train import run

Reports = list[tuple[str, int, int]]
"""Calls of the progress callback."""


def recipe(**channels: float) -> dict[str, Any]:
    table = {"model": {"make": "drill"}, "environment": {"serve": "drill"}, "train": {"prompts": 2, "group": 4}}
    return parse({**table, "channels": channels or {"rlvr": 1.0}}).model_dump(mode="json")


# --- A line for each step ---------------------------------------------------------------------------------------


def test_step_line_has_the_metrics_and_the_remaining_time() -> None:
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
    lines = StepLines(prompts=2)
    expected = (
        "step 3 of 10: reward 0.125, loss 0.25, solved 50%, error turns 40%, divergence 0.25, 4 s a step, 28 s left"
    )
    assert lines.line(row, 10) == expected
    assert lines.line({"step": 4, "loss": float("nan"), "seconds/step": 8.0}, 10) == (
        "step 4 of 10: loss nan, 8 s a step, 36 s left"
    )


def test_step_line_warns_when_most_groups_are_unsolved() -> None:
    lines = StepLines(prompts=2)
    assert "unsolved groups 2 of 2" in lines.line({"step": 1, "groups/flat": 1.0, "groups/unsolved": 1.0}, 9)
    assert "unsolved" not in lines.line({"step": 2, "groups/flat": 1.0, "groups/unsolved": 0.0}, 9)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0421, "0.042 s"), (4.25, "4.2 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_duration_is_readable(seconds: float, text: str) -> None:
    assert duration(seconds) == text


# --- Warnings ---------------------------------------------------------------------------------------------------


def test_group_counts_skip_steps_that_played_nothing() -> None:
    rows = [{"groups/flat": 1.0, "groups/unsolved": 0.5}, {"loss": 1.0}, {"groups/flat": 0.5, "groups/unsolved": 0.0}]
    assert group_counts(rows, prompts=4) == (8, 6, 2)


@pytest.mark.parametrize(
    ("row", "channels", "warnings"),
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
            ["distillation had no site; most errors were left out for the reason: no hint"],
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
def test_run_warns_of_what_teaches_nothing(
    row: dict[str, float], channels: dict[str, float], warnings: list[str]
) -> None:
    found = run_warnings([row], recipe(**channels))
    assert len(found) == len(warnings) and all(map(str.startswith, found, warnings)), found


def test_run_warns_of_a_limit_that_was_never_measured() -> None:
    limited = {**recipe(), "safety": {"kl_to_base": 0.1}}
    assert "kl_to_base was never measured" in run_warnings([{"loss": 1.0}], limited)[0]
    assert run_warnings([{"kl_good_turns": 0.0}], limited) == []


def test_run_warns_of_a_mixture_of_experts() -> None:
    assert "mixture of experts" in run_warnings([], recipe(), moe=True)[0]


def test_per_token_values_and_reasons_are_read_from_rows() -> None:
    assert per_token({"distillation/tokens": 0.0, "distillation/divergence": 0.0}, "distillation/divergence") is None
    rows = [{"distillation/left_out/too_long": 2.0}, {"distillation/left_out/too_long": 1.0, "loss": 1.0}]
    assert left_out_counts(rows) == {"too long": 3}


# --- Measurements for the limits --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["qwen3", "gemma2"])
def test_good_turns_kl_is_exact_over_the_vocabulary(name: str) -> None:
    student, first = model(name, 1), model(name, 2)
    rollouts = [made_up(1.0, task, turns=(5, 3, 4)) for task in ("a", "b")]
    rollouts[1].error_turns = [ErrorTurn(turn=1, kind="wasteful")]
    measured = good_turns_kl(student, first, [(rollout, []) for rollout in rollouts])
    parts = []
    with torch.no_grad():
        for rollout, turns in zip(rollouts, ((0, 1, 2), (0, 2)), strict=True):
            logits = [m(torch.tensor([rollout.ids])).logits[0] for m in (student, first)]
            rows = [p - 1 for turn in turns for p in range(rollout.turns[turn].start, rollout.turns[turn].end)]
            parts.append(divergence(logits[0][rows], logits[1][rows], 1.0))
    assert measured == pytest.approx(float(torch.cat(parts).mean()), rel=1e-6)
    assert good_turns_kl(student, first, []) is None


@pytest.mark.parametrize(
    ("measured", "recorded"), [(0.25, [("kl_good_turns", 0.25)]), (math.nan, [("kl_good_turns", math.inf)]), (None, [])]
)
def test_monitor_records_nan_as_infinity(
    measured: float | None, recorded: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRL leaves NaN out of its averages, so no limit would see it."""
    records: list[Any] = []
    accelerator = SimpleNamespace(
        gather=lambda tensor: tensor, device="cpu", unwrap_model=lambda model: model, autocast=nullcontext
    )
    trainer = SimpleNamespace(
        accelerator=accelerator,
        model=torch.nn.Linear(1, 1),
        last_rollouts=list,
        record_metric=lambda *values: records.append(values),
    )
    monkeypatch.setattr(callbacks, "good_turns_kl", lambda *arguments: measured)
    PolicyMonitor(trainer, None, drift=False, kl=True).on_step_end(None, state(1), None)
    assert records == recorded


# --- Files ------------------------------------------------------------------------------------------------------


def state(step: int, first: bool = True) -> Any:
    return SimpleNamespace(global_step=step, max_steps=9, is_world_process_zero=first)


def test_resumed_run_removes_the_metrics_of_steps_that_it_repeats(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"step": step, "loss": 1.0}) + "\n" for step in range(1, 6)) + '{"step": 6, "lo'
    (tmp_path / METRICS).write_text(lines)
    metrics = MetricsWriter(
        tmp_path, lambda phase, done, total: None, costs=lambda: {"cost/usd": 2.0}, clock=iter([1.0, 3.5]).__next__
    )
    metrics.on_train_begin(None, state(3), None)
    metrics.on_step_begin(None, state(3), None)
    metrics.on_log(None, state(4), None, logs={"loss": 2.0, "kl": None, "text": "x"})
    metrics.on_log(None, state(4), None, logs={"train_loss": 2.0})
    rows = read_metrics(tmp_path / METRICS)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert rows[-1] == {"step": 4, "loss": 2.0, "seconds/step": 2.5, "cost/usd": 2.0}


def test_checkpoint_is_complete_when_the_report_cannot_be_written(tmp_path: Path) -> None:
    added: list[Any] = []
    trainer = SimpleNamespace(remove_callback=lambda kind: None, add_callback=added.append)
    table = {"model": {"make": "drill"}, "environment": {"serve": "drill"}, "out": str(tmp_path)}
    add_callbacks(trainer, parse(table), StateSaver(None, None), lambda phase, done, total: None)
    checkpoint = tmp_path / "checkpoints" / "checkpoint-2"
    checkpoint.mkdir(parents=True)
    with pytest.raises(TrainingRunError, match="holds no training run"):  # without recipe.json
        for callback in added:
            callback.on_save(SimpleNamespace(output_dir=str(checkpoint.parent)), state(2), None)
    assert newest_checkpoint(tmp_path) == checkpoint


def test_metrics_have_the_peak_memory_of_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = {"peak": 9 * 2**30}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: memory["peak"])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: memory.update(peak=0))
    metrics = MetricsWriter(tmp_path, lambda *report: None)
    metrics.on_step_begin(None, state(1), None)
    memory["peak"] = 3 * 2**29
    metrics.on_log(None, state(1), None, logs={"loss": 1.0})
    assert read_metrics(tmp_path / METRICS)[0]["memory/peak_gib"] == 1.5


def test_only_the_first_rank_writes(tmp_path: Path) -> None:
    metrics = MetricsWriter(tmp_path, lambda phase, done, total: None, tensorboard=True)
    for event in (metrics.on_train_begin, metrics.on_step_begin, metrics.on_log, metrics.on_save, metrics.on_train_end):
        event(None, state(1, first=False), None, logs={"loss": 1.0})
    assert not list(tmp_path.iterdir())


def test_run_is_refused_when_its_recipe_needs_tensorboard_and_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find = preflight.importlib.util.find_spec
    monkeypatch.setattr(
        preflight.importlib.util, "find_spec", lambda name: None if name == "tensorboard" else find(name)
    )
    table = {"model": {"make": "drill"}, "environment": {"serve": "drill"}, "out": str(tmp_path / "out")}
    with pytest.raises(RecipeError, match=r"tensorboard = true needs tensorboard; pip install 'etude\[train\]'"):
        run(parse({**table, "tensorboard": True}))
    assert not (tmp_path / "out").exists()


def scalars(out: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(out / TENSORBOARD), size_guidance={"scalars": 0}).Reload()
    return {name: [(scalar.step, scalar.value) for scalar in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_tensorboard_shows_a_repeated_step_once(tmp_path: Path) -> None:
    for begin, end, value in ((1, 4, 1.0), (3, 6, 2.0)):
        board = open_board(tmp_path, begin)
        for step in range(begin, end):
            board.add_scalar("loss", value, step)
        board.close()
    assert scalars(tmp_path)["loss"] == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)]


class FailsOnce(Scripted):
    """Trainer that fails in the middle of step ``at``, once."""

    at = 0

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        if self.model.training and self.state.global_step + 1 == type(self).at:
            type(self).at = 0
            raise ConnectionError("the machine failed")
        return super()._compute_loss(model, inputs)


def fail_and_resume(tmp_path: Path, url: str, reports: Reports) -> Result:
    """Run four steps with a checkpoint after the second and a failure in the fourth, and resume."""
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
    FailsOnce.at = 4
    with pytest.raises(ConnectionError):
        run(parse(table), lambda *report: reports.append(report), trainer=FailsOnce)
    assert "Running: 2 of 4 steps" in (tmp_path / "run" / "report.html").read_text()
    assert [row["step"] for row in read_metrics(tmp_path / "run" / METRICS)] == [1, 2, 3]
    return run(parse(table), lambda *report: reports.append(report), trainer=FailsOnce)


def test_resumed_run_has_every_step_once_in_all_files(tmp_path: Path, drill_url: str) -> None:
    reports: Reports = []
    result, out = fail_and_resume(tmp_path, drill_url, reports), tmp_path / "run"
    assert (result.resumed_from, result.steps) == (2, 4)
    rows = read_metrics(out / METRICS)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    board = scalars(out)
    for name in ("loss", "reward", "episodes/solved", "distillation/tokens", "seconds/playing"):
        assert board[name] == [(row["step"], pytest.approx(row[name])) for row in rows]
    assert all(0 < row["seconds/playing"] < row["seconds/step"] for row in rows)
    assert [phase.partition(":")[0] for phase, _, _ in reports if phase.startswith("step")] == [
        f"step {step} of 4" for step in (1, 2, 3, 3, 4)
    ]
    page = (out / "report.html").read_text()
    assert "Done: 4 of 4 steps." in page and "Channel 2" in page and "Channel 3" not in page
