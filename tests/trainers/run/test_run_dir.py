"""Run directory: atomic files, one process at a time, and which runs may resume."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from etude.errors import RecipeError
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.run.checkpoints import reporting_full_disk
from etude.trainers.run.run_dir import check_run_dir, lock_run_dir, read_json, write_json


def test_write_json_keeps_the_old_file_when_it_fails(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"a": 1})
    with pytest.raises(TypeError):
        write_json(file, {"a": object()})
    assert read_json(file) == {"a": 1}
    assert os.listdir(tmp_path) == ["a.json"]


def test_read_json_names_a_damaged_file(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": ')
    with pytest.raises(RecipeError, match=r"a\.json is damaged \(.*\); remove it, or choose another out"):
        read_json(file)


def start_run(out: Path, **changes: Any) -> Recipe:
    """Return a recipe, and write the folder of its run as an older version with other keys left it."""
    recipe = parse({"model": {"make": "drill"}, "environment": {"serve": "drill"}, "out": str(out)})
    stored = recipe.model_dump(mode="json")
    del stored["tensorboard"], stored["train"]["gradient_checkpointing"]
    for name, inner in changes.items():
        stored[name] |= inner
    out.mkdir()
    write_json(out / "recipe.json", stored)
    (out / "metrics.jsonl").write_text("")
    return recipe


def test_run_resumes_when_its_recipe_lacks_newer_keys_or_differs_in_unread_ones(tmp_path: Path) -> None:
    check_run_dir(start_run(tmp_path / "old", distillation={"rate": 0.01}), tmp_path / "old")
    with pytest.raises(RecipeError, match=r"holds a run of another recipe \(train.steps, distillation.beta\); choose"):
        check_run_dir(start_run(tmp_path / "x", distillation={"beta": 0.1}, train={"steps": 7}), tmp_path / "x")


def test_limit_that_an_infinite_value_broke_can_only_be_turned_off(tmp_path: Path) -> None:
    recipe = start_run(tmp_path / "x")
    stop = {"limit": "teacher_drift", "value": math.inf, "reason": "stopped"}
    write_json(tmp_path / "x" / "stopped.json", stop)
    with pytest.raises(RecipeError, match="was stopped; set safety.teacher_drift to 0, or remove"):
        check_run_dir(recipe, tmp_path / "x")


def test_lock_keeps_other_processes_out_until_it_is_released(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "x"
    with (
        lock_run_dir(out),
        pytest.raises(RecipeError, match="another process trains in .*; wait, or choose another out"),
        lock_run_dir(out),
    ):
        raise AssertionError("locked twice")
    with lock_run_dir(out):
        write_json(out / "a.json", 1)
    assert json.loads((out / "a.json").read_text()) == 1


def test_lock_removes_the_folder_when_nothing_was_written(tmp_path: Path) -> None:
    with lock_run_dir(tmp_path / "x"):
        pass
    assert not (tmp_path / "x").exists()


def test_lock_reports_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(RecipeError, match=r"cannot be made \(Not a directory\); choose another out"),
        lock_run_dir(tmp_path / "file" / "x"),
    ):
        raise AssertionError("made")


def test_lock_reports_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(RecipeError, match="cannot be written to; choose another out"), lock_run_dir(tmp_path / "x"):
        raise AssertionError("locked")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("save", [save_file, torch.save])
def test_full_disk_is_reported_in_one_line(save: Callable[..., None], tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with (
            pytest.raises(RecipeError, match=r"cannot write weights \(.*\); free some disk space"),
            reporting_full_disk(),
        ):
            save({"a": torch.zeros(99_999)}, tmp_path / "weights")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_other_errors_are_not_reported_as_a_full_disk() -> None:
    with pytest.raises(RuntimeError, match="must match"), reporting_full_disk():
        torch.zeros(2) + torch.zeros(3)
