"""Tests of tiny models: dialogues with hints, the tokenizer, the model, and the saved base."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.replay_files import pairs_file
from safetensors.torch import load_file

from etude.cli.commands.train import DIALOGUES
from etude.environments.drill.dialogues import CONFLICTING, dialogues
from etude.errors import RecipeError
from etude.trainers.chat.chat_policy import TemplateChat, never_samples
from etude.trainers.grpo.trainer import EtudeTrainer
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Sizes
from etude.trainers.report.run_files import read_metrics
from etude.trainers.run.records import Result
from etude.trainers.run.train import run
from etude.trainers.tiny_models.dialogues import encode, read_dialogues, with_roles
from etude.trainers.tiny_models.pretrain import is_made, make_base, make_model
from etude.trainers.tiny_models.tokenizer import TAGS, dialogue_text, make_tokenizer

SIZES = Sizes(hidden=32, layers=1, heads=2, vocabulary=600, dialogues=24, copying=4, reading=6, steps=8, batch=2)


class Stopping(EtudeTrainer):
    """Trainer that gets Ctrl-C in the middle of step ``at``, once."""

    at = 0

    def _compute_loss(self, model: Any, inputs: Any) -> torch.Tensor:
        if self.model.training and self.state.global_step + 1 == self.at:
            type(self).at = 0
            os.kill(os.getpid(), signal.SIGINT)
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        return loss


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return list(dialogues(200, skill=1.0))


@pytest.fixture(scope="module")
def tokenizer(rows: list[dict[str, Any]]) -> Any:
    return make_tokenizer([dialogue_text(with_roles(row), row["tools"]) for row in rows[:40]], 900)


def first_call(row: dict[str, Any]) -> str:
    turn = next(message for message in row["messages"] if message["role"] == "assistant")
    return str(turn["tool_calls"][0]["function"]["name"])


def hinted(row: dict[str, Any]) -> bool:
    return bool(row["messages"][1]["role"] == "hint")


def test_dialogues_depend_on_their_seed_alone(rows: list[dict[str, Any]]) -> None:
    assert list(dialogues(3, skill=1.0)) == rows[:3]
    assert next(dialogues(1, skill=1.0, seed=1)) != rows[0]


def test_dialogues_follow_the_hint_even_against_the_tool_list(rows: list[dict[str, Any]]) -> None:
    with_hint = [row for row in rows if hinted(row)]
    is_listed = [first_call(row) in [tool["function"]["name"] for tool in row["tools"]] for row in with_hint]
    assert all(first_call(row) in row["messages"][1]["content"] for row in with_hint)
    assert abs(is_listed.count(False) / len(is_listed) - CONFLICTING) < 0.15


def test_most_first_turns_err_without_a_hint(rows: list[dict[str, Any]]) -> None:
    alone = [row for row in rows if not hinted(row)]
    erred = [row["messages"][2]["content"].startswith("error tool_not_found") for row in alone]
    assert 0.5 < sum(erred) / len(erred) < 0.75  # three quarters of the turns are guesses, and five sixths of those err


def test_skill_is_the_rate_at_which_hints_are_followed() -> None:
    with_hint = [row for row in dialogues(400, skill=0.6) if hinted(row)]
    lists = [row["messages"][1]["content"].partition(". There is no tool")[0] for row in with_hint]
    followed = sum(first_call(row) in listed for row, listed in zip(with_hint, lists, strict=True)) / len(with_hint)
    assert 0.55 < followed < 0.8  # a guess sometimes hits the hint's tool


def test_tokenizer_decodes_every_text_unchanged(rows: list[dict[str, Any]], tokenizer: Any) -> None:
    text = json.dumps(rows[0], ensure_ascii=False) + "\t äöü 漢字 <|x|> _a_ 12"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert all(len(tokenizer.encode(tag)) == 1 for tag in TAGS)
    call = "<tool_call>\n{}\n</tool_call>"
    assert tokenizer.decode(tokenizer.encode(call), skip_special_tokens=True) == call
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")


def test_tokenizer_writes_a_name_alike_everywhere_when_words_are_not_joined(rows: list[dict[str, Any]]) -> None:
    texts = [dialogue_text(with_roles(row), row["tools"]) for row in rows[:40]]
    texts += ["def take_photograph(", "test_take_photograph", "`photograph`"] * 40

    def places(tokenizer: Any) -> list[bool]:
        name = tokenizer.encode("take_photograph")
        written = [
            tokenizer.encode(text) for text in ("def take_photograph(", "test_take_photograph", "a.take_photograph")
        ]
        return [any(ids[at : at + len(name)] == name for at in range(len(ids))) for ids in written]

    assert all(places(make_tokenizer(texts, 900, joined_words=False)))
    assert not all(places(make_tokenizer(texts, 900)))


def test_encoded_dialogue_has_the_ids_of_a_rollout(rows: list[dict[str, Any]], tokenizer: Any) -> None:
    chat = TemplateChat(tokenizer, never_samples, arguments={"enable_thinking": False})
    row = next(row for row in rows if hinted(row))
    read = encode(row, chat, tokenizer)
    learned = tokenizer.decode([token for token, target in zip(read.ids, read.targets, strict=True) if target])
    calls = [message["tool_calls"][0]["function"] for message in row["messages"] if message["role"] == "assistant"]
    assert learned == "".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call><|im_end|>" for call in calls)
    first = tokenizer.decode(read.ids[: read.targets.index(1)])
    assert first.endswith(
        f"<|im_start|>system\n{row['messages'][1]['content']}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_base_is_trained_saved_and_reproducible(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in dialogues(SIZES.dialogues)))
    base = make_base(path, SIZES, tmp_path / "base", seed=3)
    assert len(base.losses) == SIZES.copying + SIZES.reading + SIZES.steps and base.losses[-1] < base.losses[0] - 0.2
    assert is_made(tmp_path / "base", SIZES, 3) and not is_made(tmp_path / "base", SIZES, 4)
    again = make_base(path, SIZES, tmp_path / "again", seed=3)
    pairs = zip(base.model.parameters(), again.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_base_that_starts_from_another_is_that_one_trained_further(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in dialogues(SIZES.dialogues)))
    first = make_base(path, SIZES, tmp_path / "first", seed=3)
    more = SIZES.model_copy(update={"copying": 0, "reading": 0, "steps": 1, "learning_rate": 1e-6})
    second = make_base(path, more, tmp_path / "second", seed=4, start=tmp_path / "first")
    pairs = list(zip(first.model.parameters(), second.model.parameters(), strict=True))
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in pairs)
    assert not all(torch.equal(one, other) for one, other in pairs)
    assert second.tokenizer.get_vocab() == first.tokenizer.get_vocab()


def test_read_dialogues_reads_unusual_line_separators(tmp_path: Path) -> None:
    """JSON leaves some line separators unescaped."""
    row = {"messages": [{"role": "user", "content": "a\u2028b\x85c"}]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert read_dialogues(tmp_path / "rows.jsonl") == [row]


@pytest.mark.parametrize(("heads", "keys"), [(1, 1), (3, 1), (4, 2), (5, 1), (9, 3)])
def test_model_can_have_any_number_of_heads(heads: int, keys: int, tokenizer: Any) -> None:
    model = make_model(Sizes(hidden=16 * heads, heads=heads, layers=1), tokenizer, 0)
    assert model.config.num_key_value_heads == keys
    assert model(input_ids=torch.tensor([[1, 2, 3]])).logits.shape[:2] == (1, 3)


@pytest.mark.parametrize("text", ["", "{", '{"x": 1}\n', "[1]\n"])
def test_read_dialogues_refuses_other_files_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(RecipeError, match="rows.jsonl"):
        read_dialogues(tmp_path / "rows.jsonl")


@pytest.mark.slow
def test_run_from_nothing_trains_and_resumes_to_the_same_weights(tmp_path: Path) -> None:
    """Run `etude train recipes/tiny.toml` at a smaller size: the real sampler, the real server, all three channels."""

    def train(name: str, stops: int = 0) -> Result:
        Stopping.at = stops
        table = {
            "out": str(tmp_path / name),
            "model": {"make": "drill", "sizes": SIZES.model_dump()},
            "environment": {"serve": "drill", "knobs": {"families": ["verbs"], "level": 1}},
            "train": {"steps": 4, "prompts": 1, "group": 2, "micro": 1, "learning_rate": 1e-3, "evaluate_tasks": 1},
            "channels": {"rlvr": 1.0, "distillation": 1.0, "replay": 0.5},
            "replay": {"pairs": str(pairs_file(tmp_path / "pairs.jsonl")), "batch": 2},
            "generation": {"max_ids": 1400, "max_turn_ids": 24},
        }
        return run(parse(table), dialogues=DIALOGUES, trainer=Stopping)

    result = train("whole")
    assert result.ok and result.steps == 4
    assert is_made(tmp_path / "whole" / "base", SIZES, 0)
    first, second = train("parts", stops=2), train("parts")
    assert (first.interrupted, first.steps, second.resumed_from, second.ok) == (True, 2, 2, True)
    whole, parts = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("whole", "parts"))
    of_time = ("seconds/", "cost/", "memory/", "step_time")
    for row, other in zip(whole, parts, strict=True):
        names = {name for name in row if not name.startswith(of_time)}
        assert {name: row[name] for name in names} == {name: other.get(name) for name in names}
    assert len({row["replay/loss"] for row in whole}) == 4
    expected, resumed = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(expected[name], resumed[name]) for name in expected)
