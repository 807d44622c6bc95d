"""Recipes of Qwen3 models: one step of each on a reduced model of the same architecture; bad changes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.scripted_policy import Scripted
from helpers.tokenizer_factory import tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

from etude.errors import RecipeError
from etude.trainers.plan.mesh import parse_mesh
from etude.trainers.plan.model_shapes import read_config
from etude.trainers.plan.page import MODELS, plan_of
from etude.trainers.recipe.load import load
from etude.trainers.report.run_files import read_metrics
from etude.trainers.run import preflight
from etude.trainers.run.memory_check import check_memory
from etude.trainers.run.train import run

RECIPES = Path(__file__).parents[3] / "recipes"
NAMES = {"qwen3-0.6b": (0.596, 1), "qwen3-8b": (8.191, 1), "qwen3-30b-a3b": (30.532, 8)}
"""Parameters in billions, as published, and GPUs of each recipe."""
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 8192,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
CHANGES = [
    'environment.url=""',
    'environment.serve="drill"',
    'environment.knobs={families=["choose"], level=1}',
    "model.template={enable_thinking=false}",
    'generation.vllm="off"',
    "generation.max_ids=6000",
    "generation.max_turn_ids=400",
    "train.steps=1",
    "train.prompts=2",
    "train.group=2",
    "train.micro=2",
    "train.save_every=1",
    "train.evaluate_tasks=2",
    "sharding.shards=0",
    "distillation.gate=false",
]
"""What one process on a CPU needs: no vLLM, no shards, the tasks of the drill, few and short episodes."""


def reduced(name: str, folder: Path) -> Path:
    """Save a random model of the recipe's architecture, with a vocabulary of the tests' tokenizer."""
    words: Any = tokenizer("qwen3-no-thinking")
    words.pad_token = "<|endoftext|>"
    table = read_config(MODELS / f"{name}.json").to_dict()
    table |= {**SMALL, **(EXPERTS if "num_experts" in table else {}), "vocab_size": len(words), "layer_types": None}
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model(**table), dtype=torch.float32).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_recipe_trains_one_step_at_reduced_size(name: str, tmp_path: Path) -> None:
    model, out = reduced(name, tmp_path / "model"), tmp_path / "run"
    changes = [f'model.name="{model}"', f'out="{out}"', *CHANGES]
    recipe = load(RECIPES / f"{name}.toml", changes)
    shipped = load(RECIPES / f"{name}.toml", [])
    assert (recipe.lora, recipe.model.dtype, recipe.channels) == (shipped.lora, "bfloat16", shipped.channels)
    result = run(recipe, trainer=Scripted)
    assert result.ok and result.steps == 1
    (row,) = read_metrics(out / "metrics.jsonl")
    assert row["distillation/loss"] > 0 and row["grad_norm"] > 0
    assert (out / "model" / "adapter_config.json").is_file() == (recipe.lora.rank > 0)


@pytest.mark.parametrize("name", NAMES)
def test_recipe_names_a_model_whose_plan_fits_and_has_its_published_size(name: str) -> None:
    billions, gpus = NAMES[name]
    shapes, mesh, _, plan = plan_of(RECIPES / f"{name}.toml", gpus, "h100", "")
    assert round(shapes.total / 1e9, 3) == billions
    assert mesh.shards == gpus
    memory = sum(plan.memory.values()) / 2**30
    assert memory < 80
    text = (RECIPES / f"{name}.toml").read_text("utf-8")
    assert "planned, not measured" in text and f"{memory:.0f} GiB" in text and f"{plan.seconds:.0f} s" in text


def broken(name: str, *changes: str) -> str:
    """Return the message with which a changed recipe is refused, by its rules or by the checks before weights load."""
    with pytest.raises(RecipeError) as caught:
        preflight.check_machine(load(RECIPES / f"{name}.toml", list(changes)))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_shards_that_do_not_divide_the_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "12")
    assert "sharding.shards = 8 does not divide the 12 processes of this run" in broken("qwen3-30b-a3b")
    with pytest.raises(RecipeError, match="sharding.shards = 8 does not divide --gpus 12; plan for a multiple of 8"):
        plan_of(RECIPES / "qwen3-30b-a3b.toml", 12, "h100", "")


def test_experts_that_do_not_divide_are_refused_by_the_plan() -> None:
    with pytest.raises(RecipeError, match="--mesh experts=3 does not divide 128 experts; choose a divisor"):
        parse_mesh("experts=3", 3, 128)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('optimizer.name="muon"', 'optimizer.name = "muon" updates whole matrices, which are frozen while lora.rank'),
        ('lora.targets=["q_proj","lm_head"]', "lora.targets: an adapter on lm_head is not supported"),
    ],
)
def test_adapters_that_cannot_be_trained_are_refused(change: str, message: str) -> None:
    assert message in broken("qwen3-8b", change)


def test_vllm_is_refused_without_its_package_and_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "generation.vllm needs vllm; pip install 'etude[vllm]'" in broken("qwen3-8b")
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert 'generation.vllm = "colocate" needs a GPU, and torch finds none; set' in broken("qwen3-8b")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    preflight.check_machine(load(RECIPES / "qwen3-8b.toml", []))


@pytest.mark.parametrize(("changes", "fits"), [([], True), (["lora={}"], False)])
def test_a_model_too_large_is_refused(changes: list[str], fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (79 * 2**30, 80 * 2**30))
    recipe, config = load(RECIPES / "qwen3-8b.toml", changes), read_config(MODELS / "qwen3-8b.json")
    if fits:
        check_memory(recipe, config)
        return
    with pytest.raises(RecipeError, match=r"^model.name: 8.19e9 parameters take 259 GiB .* set lora.rank or") as caught:
        check_memory(recipe, config)
    assert "\n" not in str(caught.value)
