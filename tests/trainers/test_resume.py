"""Resumed runs: they have exactly the losses that an uninterrupted run has."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.scripted_policy import Scripted, base
from safetensors.torch import load_file, save_file

from etude.errors import ConnectionLost, RecipeError
from etude.trainers.recipe.load import parse
from etude.trainers.report.run_files import read_metrics
from etude.trainers.run.callbacks import PolicyMonitor
from etude.trainers.run.checkpoints import StateSaver, last_checkpoint
from etude.trainers.run.records import Result
from etude.trainers.run.train import run

STEPS = 4


class Interrupted(Scripted):
    """Trainer that gets Ctrl-C in the middle of step ``at``, once."""

    at = 0

    def _compute_loss(self, model: Any, inputs: Any) -> torch.Tensor:
        if self.model.training and self.state.global_step + 1 == type(self).at:
            type(self).at = 0
            os.kill(os.getpid(), signal.SIGINT)
        return super()._compute_loss(model, inputs)


class LosesServer(Scripted):
    """Trainer whose server is lost for good when step ``at`` would play, once."""

    at = 0

    def _play_batch(self) -> Any:
        if self.model.training and self.state.global_step + 1 == type(self).at:
            type(self).at = 0
            raise ConnectionLost("cannot connect")
        return super()._play_batch()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


def play(model: Path, out: Path, url: str, kind: type[Scripted] = Scripted, **tables: Any) -> Result:
    table: dict[str, Any] = {
        "out": str(out),
        "model": {"name": str(model), "template": {"enable_thinking": False}},
        "environment": {"url": url, "tasks": 5},
        "train": {
            "steps": STEPS,
            "prompts": 1,
            "group": 4,
            "micro": 2,
            "learning_rate": 2e-3,
            "warmup": 0.5,
            "save_every": 4,
            "evaluate_tasks": 1,
        },
        "channels": {"rlvr": 1.0, "distillation": {"start": 1.0, "end": 0.2}},
        "distillation": {"gate": False, "teacher": "ema", "rate": 0.2},
        "safety": {"teacher_drift": 10.0, "kl_to_base": 1e6},
        "generation": {"max_ids": 6000, "max_turn_ids": 400},
    }
    for name, value in tables.items():
        table[name] = {**table.get(name, {}), **value}
    return run(parse(table), trainer=kind)


def logged(out: Path) -> list[dict[str, Any]]:
    names = (
        "step",
        "loss",
        "grad_norm",
        "learning_rate",
        "reward",
        "distillation/loss",
        "teacher_drift",
        "kl_good_turns",
        "groups/replaced",
    )
    return [{name: row.get(name) for name in names} for row in read_metrics(out / "metrics.jsonl")]


@pytest.mark.parametrize(
    ("stop", "epochs", "objective", "optimizer"),
    [(2, 1, "dr_grpo", "adamw"), (1, 2, "dr_grpo", "adamw"), (2, 1, "dapo", "adamw"), (2, 1, "dr_grpo", "muon")],
)
def test_interrupted_and_resumed_run_is_bit_equal_to_an_uninterrupted_one(
    stop: int, epochs: int, objective: str, optimizer: str, model: Path, drill_url: str, tmp_path: Path
) -> None:
    tables = {
        "train": {"epochs_on_a_batch": epochs},
        "objective": {"name": objective},
        "optimizer": {"name": optimizer, **({"neuron_beta": 0.9} if optimizer == "muon" else {})},
    }
    whole = play(model, tmp_path / "whole", drill_url, **tables)
    Interrupted.at = stop
    first = play(model, tmp_path / "parts", drill_url, Interrupted, **tables)
    assert first.interrupted and not first.ok
    assert first.steps == 2
    second = play(model, tmp_path / "parts", drill_url, Interrupted, **tables)
    assert (second.ok, second.resumed_from, second.steps) == (True, first.steps, STEPS)
    assert logged(tmp_path / "parts") == logged(tmp_path / "whole")
    assert len({row["loss"] for row in logged(tmp_path / "whole")}) == STEPS
    replaced = [row["groups/replaced"] for row in logged(tmp_path / "parts")[2:]]
    assert any(replaced) if objective == "dapo" else replaced == [None] * 2
    assert second.before == whole.before
    expected, actual = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(actual[name], expected[name]) for name in expected)


@pytest.mark.parametrize(("lost", "every"), [(4, 4), (3, 2)])
def test_run_resumes_after_the_last_complete_step_when_its_server_was_lost(
    lost: int, every: int, model: Path, drill_url: str, tmp_path: Path
) -> None:
    saving = {"train": {"save_every": every}}
    whole = play(model, tmp_path / "whole", drill_url, **saving)
    LosesServer.at = lost
    with pytest.raises(
        ConnectionLost, match=f"^cannot connect; run the same command again to resume after step {lost - 1}$"
    ):
        play(model, tmp_path / "parts", drill_url, LosesServer, **saving)
    again = play(model, tmp_path / "parts", drill_url, LosesServer, **saving)
    assert (again.ok, again.resumed_from, again.after) == (True, lost - 1, whole.after)
    assert logged(tmp_path / "parts") == logged(tmp_path / "whole")


def test_run_writes_no_checkpoint_when_its_server_is_lost_before_the_first_step(
    model: Path, drill_url: str, tmp_path: Path
) -> None:
    LosesServer.at = 1
    with pytest.raises(ConnectionLost, match="^cannot connect$"):
        play(model, tmp_path, drill_url, LosesServer)
    assert not any((tmp_path / "checkpoints").glob("checkpoint-*"))


def test_run_is_only_saved_again_when_it_was_killed_after_its_last_checkpoint(
    model: Path, drill_url: str, tmp_path: Path
) -> None:
    whole = play(model, tmp_path, drill_url)
    weights = load_file(tmp_path / "model" / "model.safetensors")
    (tmp_path / "result.json").unlink()
    shutil.rmtree(tmp_path / "model")
    again = play(model, tmp_path, drill_url)
    assert (again.ok, again.steps, again.resumed_from, again.after) == (True, STEPS, STEPS, whole.after)
    assert [row["step"] for row in logged(tmp_path)] == [1, 2, 3, 4]
    resumed = load_file(tmp_path / "model" / "model.safetensors")
    assert all(torch.equal(resumed[name], weights[name]) for name in weights)


def write_checkpoint(out: Path, step: int) -> Path:
    """Write a checkpoint with the files that are checked, and return its folder."""
    folder = out / "checkpoints" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}")
    save_file({"a": torch.zeros(8)}, folder / "model.safetensors")
    for name in ("optimizer.pt", "etude.pt"):
        torch.save({"teacher": {}}, folder / name)
    return folder


def test_last_checkpoint_skips_an_incomplete_one(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    write_checkpoint(tmp_path, 9)
    (write_checkpoint(tmp_path, 12) / "etude.pt").unlink()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoints" / "checkpoint-9"


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "etude.pt", "trainer_state.json"])
def test_last_checkpoint_names_a_damaged_one(name: str, tmp_path: Path) -> None:
    file = write_checkpoint(tmp_path, 9) / name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(RecipeError, match="checkpoint-9 is damaged .*; remove it and run the same command again"):
        last_checkpoint(tmp_path)


def test_checkpoint_of_another_version_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="checkpoint-9 was written by another version of Etude"):
        StateSaver(None, None, PolicyMonitor).load(write_checkpoint(tmp_path, 9), torch.nn.Linear(1, 1).weight)  # type: ignore[arg-type]
