"""Adapters in `etude train`: what is saved, resumed to the bit, and started from; one line for what cannot be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.scripted_policy import Scripted, base
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from etude.errors import RecipeError
from etude.trainers.adapters import is_adapter
from etude.trainers.recipe.load import parse
from etude.trainers.report.run_files import read_metrics
from etude.trainers.run.train import run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


def recipe(model: Path, out: Path, /, **tables: Any) -> Any:
    table: dict[str, Any] = {
        "out": str(out),
        "model": {"name": str(model), "template": {"enable_thinking": False}},
        "environment": {"serve": "drill", "knobs": {"families": ["choose"], "level": 1}},
        "lora": {"rank": 4},
        "train": {"steps": 2, "prompts": 2, "group": 2, "micro": 2, "learning_rate": 1e-3, "save_every": 1},
        "channels": {"rlvr": 1.0, "distillation": 1.0},
        "distillation": {"gate": False},
        "generation": {"max_ids": 6000, "max_turn_ids": 400},
    }
    for name, keys in tables.items():
        table[name] = {**table.get(name, {}), **keys}
    table["train"]["evaluate_tasks"] = 2
    return parse(table)


def test_run_with_adapters_saves_them_alone_and_resumes_to_the_bit(model: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    run(recipe(model, whole), trainer=Scripted)
    saved = load_file(whole / "model" / "adapter_model.safetensors")
    assert is_adapter(str(whole / "model")) and not (whole / "model" / "model.safetensors").exists()
    assert any(float(value.abs().max()) > 0 for name, value in saved.items() if "lora_B" in name)
    assert (whole / "checkpoints" / "checkpoint-2" / "etude.pt").stat().st_size < 20_000  # no copy of the teacher
    resumed = tmp_path / "resumed"
    shutil.copytree(whole, resumed)
    shutil.rmtree(resumed / "checkpoints" / "checkpoint-2")
    (resumed / "result.json").unlink()
    result = run(recipe(model, resumed), trainer=Scripted)
    assert result.resumed_from == 1
    again = load_file(resumed / "model" / "adapter_model.safetensors")
    assert all(torch.equal(saved[name], again[name]) for name in saved)
    one, two = (read_metrics(out / "metrics.jsonl")[-1] for out in (whole, resumed))
    assert one["loss"] == two["loss"] and one["grad_norm"] == two["grad_norm"]


def test_run_may_start_from_a_trained_adapter(model: Path, tmp_path: Path) -> None:
    """The adapter becomes a part of the first weights, of which the frozen teacher is made."""
    run(recipe(model, tmp_path / "one"), trainer=Scripted)
    adapter = tmp_path / "one" / "model"
    for rank in (0, 2):
        out = tmp_path / f"two{rank}"
        run(recipe(adapter, out, lora={"rank": rank}, train={"steps": 1}), trainer=Scripted)
        assert is_adapter(str(out / "model")) == bool(rank)
    first = AutoModelForCausalLM.from_pretrained(model).state_dict()
    trained = load_file(tmp_path / "two0" / "model" / "model.safetensors")
    assert not torch.equal(
        first["model.layers.0.self_attn.q_proj.weight"], trained["model.layers.0.self_attn.q_proj.weight"]
    )


def test_adapters_with_frozen_weights_in_bfloat16_train(model: Path, tmp_path: Path) -> None:
    run(recipe(model, tmp_path / "out", model={"dtype": "bfloat16"}, train={"steps": 1}), trainer=Scripted)
    assert all(v.dtype == torch.float32 for v in load_file(tmp_path / "out/model/adapter_model.safetensors").values())
    (row,) = read_metrics(tmp_path / "out" / "metrics.jsonl")
    assert row["grad_norm"] > 0


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"optimizer": {"name": "muon"}}, 'optimizer.name = "muon" updates whole matrices, which are frozen'),
        ({"lora": {"rank": 0, "alpha": 8.0}}, r"\[lora\] is read with lora.rank only"),
        ({"lora": {"targets": ["lm_head"]}}, "lora.targets: an adapter on lm_head is not supported"),
        ({"distillation": {"teacher": "ema"}}, 'distillation.teacher = "ema" averages or copies whole weights'),
        (
            {"model": {"name": "", "make": "drill"}, "sharding": {"shards": 2}},
            "sharding.shards needs a model that exists",
        ),
        (
            {"lora": {"rank": 0}, "sharding": {"shards": 2}, "objective": {"kl": "k3", "kl_weight": 0.1}},
            'objective.kl = "k3" loads a whole reference on every process',
        ),
    ],
)
def test_recipes_that_cannot_work_get_one_line(tables: dict[str, Any], message: str, model: Path) -> None:
    with pytest.raises(RecipeError, match=message) as raised:
        recipe(model, Path("unused"), **tables)
    assert "\n" not in str(raised.value)


def test_target_that_no_module_has_gets_one_line(model: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"lora.targets: .*no_such_module"):
        run(recipe(model, tmp_path / "out", lora={"targets": ["no_such_module"]}), trainer=Scripted)


def test_sharding_needs_a_matching_number_of_processes(model: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"sharding.shards = 2 does not divide the 1 processes of this run; start"):
        run(recipe(model, tmp_path / "out", sharding={"shards": 2}), trainer=Scripted)
    assert not (tmp_path / "out").exists()


def test_changed_first_weights_are_noticed_at_resume(model: Path, tmp_path: Path) -> None:
    """A frozen teacher is not in a checkpoint; it is loaded again."""
    copied, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree(model, copied)
    run(recipe(copied, out, lora={"rank": 0}, train={"steps": 2}), trainer=Scripted)
    shutil.rmtree(out / "checkpoints" / "checkpoint-2")
    result = json.loads((out / "result.json").read_text())
    (out / "result.json").write_text(json.dumps({**result, "interrupted": True}))
    changed = AutoModelForCausalLM.from_pretrained(copied)
    with torch.no_grad():
        changed.model.layers[0].mlp.up_proj.weight[0, 0] += 1.0
    changed.save_pretrained(copied)
    with pytest.raises(RecipeError, match=r"^the weights of model.name changed since this run began; restore them, or"):
        run(recipe(copied, out, lora={"rank": 0}, train={"steps": 2}), trainer=Scripted)
