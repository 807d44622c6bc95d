"""Pushed episodes and preference pairs, loaded by TRL's own trainers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import load_dataset
from helpers.task_folders import run_folder
from helpers.tokenizer_factory import tokenizer
from transformers import AutoModelForCausalLM, Qwen3Config
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

from etude.cli import app as cli
from etude.trainers.replay.pairs import Pair
from etude.trainers.replay.preference_rows import preference_rows

ON_CPU: dict[str, Any] = {"report_to": [], "use_cpu": True, "bf16": False, "max_steps": 1}
ON_CPU |= {"per_device_train_batch_size": 2, "save_strategy": "no"}


def act(name: str, arguments: Any) -> dict[str, Any]:
    return {"text": "Now.", "tool_calls": [{"id": "c9", "name": name, "arguments": arguments}], "raw": "Now. <call>"}


def pair(number: int, chosen: dict[str, Any], rejected: dict[str, Any]) -> Pair:
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"place": number}}}]
    messages = [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "content": "I look.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "ok\nnothing"},
    ]
    look = {"type": "object", "properties": {"place": {"type": "integer"}}}
    tools = [{"type": "function", "function": {"name": "look", "description": "Look.", "parameters": look}}]
    about = {"kind": "correct", "task_id": "t", "turn": 1, "share": 1.0, "margin": 1.0, "teachers": {}, "weights": {}}
    actions = {"messages": messages, "tools": tools, "chosen": chosen, "rejected": rejected}
    return Pair(episode_id=f"e{number}", **actions, **about)


PAIRS = [
    pair(0, act("look", {"place": 1}), act("lok", {"place": 1})),
    pair(1, act("look", {"place": 2, "far": True}), {"text": "There is nothing."}),
    pair(2, act("look", {"place": 3}), act("look", '{"place": ')),
]


@pytest.fixture
def pushed(tmp_path: Path) -> Path:
    """Return what a push would send: a run's episodes and its pairs, one of which no chat template can write."""
    run, out = run_folder(tmp_path / "run"), tmp_path / "pushed"
    (run / "pairs.jsonl").write_text("".join(item.model_dump_json() + "\n" for item in PAIRS))
    assert cli.main(["push", str(run), "ada/run", "--dry-run", str(out)]) == 0
    return out


@pytest.fixture
def words() -> Any:
    made = tokenizer("qwen3-2507")
    made.pad_token = "<|endoftext|>"
    return made


@pytest.fixture
def model(words: Any, tmp_path: Path) -> Any:
    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = Qwen3Config(vocab_size=len(words), **size, num_key_value_heads=2, head_dim=8)
    config.eos_token_id, config.pad_token_id = words.eos_token_id, words.pad_token_id
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(tmp_path / "model")
    return AutoModelForCausalLM.from_pretrained(tmp_path / "model")  # TRL loads the reference from there


def load(folder: Path, name: str, tmp_path: Path) -> Any:
    return load_dataset(str(folder), name, split="train", cache_dir=str(tmp_path / "datasets"))


def test_sft_trainer_learns_from_the_default_configuration(
    pushed: Path, words: Any, model: Any, tmp_path: Path
) -> None:
    rows = load(pushed, "default", tmp_path)
    arguments = SFTConfig(str(tmp_path / "sft"), **ON_CPU, max_length=None)
    trainer = SFTTrainer(model, args=arguments, train_dataset=rows, processing_class=words)
    text = words.decode(trainer.train_dataset[0]["input_ids"])
    assert '{"name": "read_file", "arguments": {"path": "a.py", "start_line": 2}}' in text
    assert '"name": "read_file", "description": "Read."' in text, "the tools are part of the prompt"
    assert trainer.train().training_loss > 0


def test_dpo_trainer_learns_from_the_configuration_preference(
    pushed: Path, words: Any, model: Any, tmp_path: Path
) -> None:
    rows = load(pushed, "preference", tmp_path)
    arguments = DPOConfig(str(tmp_path / "dpo"), **ON_CPU, max_length=None)
    trainer = DPOTrainer(model, args=arguments, train_dataset=rows, processing_class=words)
    encoded = trainer.train_dataset[0]
    prompt, chosen, rejected = (words.decode(encoded[f"{part}_ids"]) for part in ("prompt", "chosen", "rejected"))
    assert "Find it." in prompt and '"place": 0' in prompt and '"description": "Look."' in prompt
    assert '{"name": "look", "arguments": {"place": 1}}' in chosen and '"name": "lok"' in rejected
    assert "place" not in chosen.partition('"place": 1')[2], "no key of another row was filled in"
    assert trainer.train().training_loss > 0


def test_a_pair_with_a_malformed_call_is_left_out(pushed: Path, tmp_path: Path) -> None:
    assert [row["episode_id"] for row in load(pushed, "preference", tmp_path)] == ["e0", "e1"]
    rows = preference_rows(PAIRS)
    assert [row["rejected"][0]["content"] for row in rows] == ["Now.", "There is nothing."]
    assert not any("raw" in message for row in rows for message in [*row["prompt"], *row["chosen"]])
    assert json.loads(rows[0]["tools"]) == PAIRS[0].tools


def test_pairs_of_another_file_are_pushed_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, file = run_folder(tmp_path / "run"), tmp_path / "other.jsonl"
    file.write_text(PAIRS[0].model_dump_json() + "\n")
    out = tmp_path / "out"
    command = ["push", str(run), "ada/run", "--pairs", str(file), "--dry-run", str(out), "--json"]
    assert cli.main(command) == 0
    assert json.loads(capsys.readouterr().out)["pairs"] == 1
