"""The folder of a run: nothing torn, one process at a time."""

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
from etude.trainers.run.checkpoints import writing
from etude.trainers.run.run_dir import check_folder, held, read_json, write_json


def test_json_is_whole_or_what_it_was(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"a": 1})
    with pytest.raises(TypeError):
        write_json(file, {"a": object()})
    assert read_json(file) == {"a": 1}
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": ')
    with pytest.raises(RecipeError, match=r"a\.json is damaged \(.*\): remove it, or choose another out"):
        read_json(file)


def begun(out: Path, **changes: Any) -> Recipe:
    """A recipe, and its run in ``out`` as one with other keys left it."""
    recipe = parse({"model": {"make": "drill"}, "environment": {"serve": "drill"}, "out": str(out)})
    kept = recipe.model_dump(mode="json")
    del kept["tensorboard"], kept["train"]["gradient_checkpointing"]
    for name, inner in changes.items():
        kept[name] |= inner
    out.mkdir()
    write_json(out / "recipe.json", kept)
    (out / "metrics.jsonl").write_text("")
    return recipe


def test_a_run_goes_on_whose_recipe_was_of_before_a_key_or_set_what_nobody_reads(tmp_path: Path) -> None:
    check_folder(begun(tmp_path / "old", distillation={"rate": 0.01}), tmp_path / "old")
    with pytest.raises(RecipeError, match=r"holds a run of another recipe \(train.steps, distillation.beta\): choose"):
        check_folder(begun(tmp_path / "x", distillation={"beta": 0.1}, train={"steps": 7}), tmp_path / "x")


def test_a_limit_that_was_broken_without_bound_can_only_be_lifted(tmp_path: Path) -> None:
    recipe = begun(tmp_path / "x")
    told = {"limit": "teacher_drift", "value": math.inf, "reason": "stopped"}
    write_json(tmp_path / "x" / "stopped.json", told)
    with pytest.raises(RecipeError, match="was stopped; set safety.teacher_drift to 0, or remove"):
        check_folder(recipe, tmp_path / "x")


def test_a_folder_is_one_process_s_alone_until_it_ends(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "x"
    with (
        held(out),
        pytest.raises(RecipeError, match="another process trains in .*: wait, or choose another out"),
        held(out),
    ):
        raise AssertionError("held twice")
    with held(out):
        write_json(out / "a.json", 1)
    assert json.loads((out / "a.json").read_text()) == 1


def test_a_folder_in_which_nothing_was_written_goes_again(tmp_path: Path) -> None:
    with held(tmp_path / "x"):
        pass
    assert not (tmp_path / "x").exists()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(RecipeError, match=r"cannot be made \(Not a directory\): choose another out"),
        held(tmp_path / "file" / "x"),
    ):
        raise AssertionError("made")


def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(RecipeError, match="cannot be written to: choose another out"), held(tmp_path / "x"):
        raise AssertionError("held")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("save", [save_file, torch.save])
def test_a_file_that_grows_no_more_is_one_line(save: Callable[..., None], tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(RecipeError, match=r"weights cannot be written \(.*\): make room for them"), writing():
            save({"a": torch.zeros(99_999)}, tmp_path / "weights")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heard)


def test_a_defect_is_not_said_to_be_the_disk_s() -> None:
    with pytest.raises(RuntimeError, match="must match"), writing():
        torch.zeros(2) + torch.zeros(3)
