"""Tests of the replay channel in the trainer itself: a file of pairs, TRL's loop, a served drill."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from datasets import Dataset
from helpers.tokenizer_factory import tokenizer
from transformers import AutoModelForCausalLM, Qwen3Config
from trl import GRPOConfig

from etude.models import Episode
from etude.trainers.chat.chat_policy import TemplateChat
from etude.trainers.grpo.objectives import objective
from etude.trainers.grpo.parts import ChannelWeights, Parts
from etude.trainers.grpo.trainer import EtudeTrainer
from etude.trainers.recipe.load import parse
from etude.trainers.replay.channel.loss import open_replay
from etude.trainers.replay.pairs import Pair
from etude.trainers.replay.turns.prefixes import State
from etude.trainers.rollouts.dataset_rows import reset_rows
from etude.trainers.rollouts.rollout import Sample
from etude.trainers.rollouts.session_pool import Limits
from etude.trainers.run.builder import open_replay_channel
from etude.trainers.run.model_loading import LoadableModel


class Submitting(EtudeTrainer):
    """Trainer that submits at once, so that an episode is short."""

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        text = '<tool_call>\n{"name": "submit", "arguments": {"answer": "x"}}\n</tool_call><|im_end|>'
        return [Sample(self.processing_class.encode(text, add_special_tokens=False)) for _ in prompts]


def write_pair(erred: Episode, path: Path) -> None:
    state = State(erred, 1)
    shown = {"messages": state.messages(decoded=True), "tools": erred.tools}
    both = {
        "chosen": erred.turns[2].action,
        "rejected": {"text": "", "tool_calls": erred.turns[1].action["tool_calls"]},
    }
    about = {"episode_id": "e", "task_id": "t", "turn": 1, "share": 1.0, "margin": 1.0, "teachers": {}, "weights": {}}
    path.write_text(Pair(kind="correct", **shown, **both, **about).model_dump_json() + "\n")


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_channel_learns_its_pairs_or_is_skipped_when_its_weight_is_zero(
    weight: float, url: str, erred: Episode, tmp_path: Path
) -> None:
    write_pair(erred, tmp_path / "pairs.jsonl")
    words = tokenizer("qwen3-no-thinking")
    thinking = {"enable_thinking": False}
    replay, skipped = open_replay(tmp_path / "pairs.jsonl", words, max_ids=6000, batch=1, beta=1.0, template=thinking)
    assert not skipped and len(replay.pairs) == 1
    torch.manual_seed(0)
    size: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8}
    model = AutoModelForCausalLM.from_config(
        Qwen3Config(vocab_size=len(words), **size, num_attention_heads=4, num_key_value_heads=2),
        dtype=torch.float32,
    )
    arguments = GRPOConfig(
        output_dir=str(tmp_path / "run"),
        use_cpu=True,
        bf16=False,
        report_to=[],
        max_steps=4,
        num_generations=2,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        max_completion_length=4096,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        **objective("dr_grpo").arguments,
    )
    parts = Parts(
        url=url,
        chat=lambda sampler: TemplateChat(words, sampler, arguments=thinking),
        limits=Limits(max_ids=6000, max_turn_ids=400),
        channels=ChannelWeights(replay=lambda share: weight),
        replay=replay,
    )
    rows = Dataset.from_list(reset_rows([{"task_id": erred.task_id}] * 2))
    trainer = Submitting(model, parts, args=arguments, train_dataset=rows, processing_class=words)
    try:
        trainer.train()
    finally:
        trainer.close()
    logged = [row["replay/loss"] for row in trainer.state.log_history if "replay/loss" in row]
    if not weight:
        assert logged == [] and replay.state_dict()["reference"] == []
        return
    margins = [row["replay/margin"] for row in trainer.state.log_history if "replay/margin" in row]
    assert len(logged) == 4 and logged[-1] < logged[0]
    assert margins[0] == pytest.approx(0.0, abs=1e-4) and margins[-1] > 0.01


def test_channel_has_the_losses_and_the_rate_of_wrong_pairs_of_the_recipe(erred: Episode, tmp_path: Path) -> None:
    write_pair(erred, tmp_path / "pairs.jsonl")
    options = {"pairs": str(tmp_path / "pairs.jsonl"), "losses": ["robust"], "weights": [2.0], "flipped": 0.1}
    about = {"model": {"name": "m"}, "environment": {"serve": "drill"}, "channels": {"replay": 1.0}}
    start = SimpleNamespace(recipe=parse({**about, "replay": options}), tokenizer=tokenizer("qwen3"), arguments={})
    replay, warnings = open_replay_channel(cast("LoadableModel", start))
    assert (replay.weights, replay.flipped, warnings) == ({"robust": 2.0}, 0.1, [])
