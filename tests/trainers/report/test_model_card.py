"""The card of a trained model, from the files of its run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etude.errors import TrainingRunError
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.report.model_card import model_card

BEFORE = {"episodes": 8, "valid": 8, "solved": 0.25, "error_turn_rate": 0.5, "reward": 0.25, "turns": 30}
AFTER = {**BEFORE, "solved": 0.75, "error_turn_rate": 0.125, "reward": 0.75}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    table: dict[str, Any] = {"model": {"name": "Qwen/Qwen3-0.6B"}, "environment": {"serve": "/home/ada/secret/tasks"}}
    recipe = Recipe.model_validate({**table, "train": {"steps": 2}, "out": str(tmp_path)})
    (tmp_path / "recipe.json").write_text(json.dumps(recipe.model_dump(mode="json")))
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0}\n{"step": 2, "loss": 0.5}\n')
    (tmp_path / "before.json").write_text(json.dumps(BEFORE))
    result = {"steps": 2, "stopped": "", "interrupted": False, "warnings": ["few sites"], "before": BEFORE}
    (tmp_path / "result.json").write_text(json.dumps({**result, "after": AFTER}))
    (tmp_path / "model").mkdir()
    return tmp_path


def test_the_card_has_base_scores_recipe_and_warnings(run: Path) -> None:
    lines = model_card(run / "model", "ada/small").splitlines()
    for line in (
        'base_model: "Qwen/Qwen3-0.6B"',
        "# small",
        "| share solved | 0.25 | 0.75 |",
        "| mean reward | 0.25 | 0.75 |",
        "| share of turns that erred | 0.5 | 0.125 |",
        "- few sites",
    ):
        assert line in lines
    assert any(line.startswith("Trained with Etude from Qwen/Qwen3-0.6B: 2 of 2 steps, ") for line in lines)
    recipe = "\n".join(lines).partition("```json\n")[2].partition("\n```")[0]
    assert json.loads(recipe)["environment"]["serve"] == "tasks"


def test_the_card_of_an_adapter_loads_it_with_its_base(run: Path) -> None:
    (run / "model" / "adapter_config.json").write_text("{}")
    card = model_card(run / "model", "me/adapter")
    assert "library_name: peft" in card
    assert 'model = peft.AutoPeftModelForCausalLM.from_pretrained("me/adapter")' in card


def test_the_card_names_no_folder_of_the_machine(run: Path) -> None:
    text = model_card(run / "model", "ada/small")
    assert "/home/ada" not in text and str(run) not in text


def test_the_card_says_when_a_run_was_not_evaluated_or_stopped(run: Path) -> None:
    (run / "before.json").write_text("null")
    result = {"steps": 2, "stopped": "the loss is infinite", "interrupted": False, "warnings": [], "after": None}
    (run / "result.json").write_text(json.dumps(result))
    text = model_card(run / "model", "ada/small")
    assert "The run had no held-out tasks, so the model was not evaluated." in text
    assert "- A limit stopped the run: the loss is infinite." in text


def test_a_damaged_run_is_refused(run: Path) -> None:
    (run / "result.json").write_text("{")
    with pytest.raises(TrainingRunError, match="is damaged"):
        model_card(run / "model", "ada/small")
