"""Trainer with real parts: a served drill, TRL's GRPOTrainer, a tiny model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from helpers.model_factory import on_cpu, qwen
from helpers.scripted_policy import Scripted
from helpers.tokenizer_factory import tokenizer
from trl import GRPOConfig

from etude.models import ErrorTurn, Hint
from etude.trainers.chat.chat_policy import TemplateChat
from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.distiller import Settings
from etude.trainers.distillation.teachers import Teacher
from etude.trainers.grpo.objectives import objective
from etude.trainers.grpo.parts import ChannelWeights, Parts
from etude.trainers.grpo.scored_batch import ScoredBatch, ScoredRow
from etude.trainers.grpo.trainer import EtudeTrainer
from etude.trainers.rollouts.dataset_rows import reset_rows
from etude.trainers.rollouts.rollout import Rollout
from etude.trainers.rollouts.session_pool import Limits


class Solving(Scripted):
    """Trainer whose episodes are all solved."""

    giving_up = 0.0


def build_trainer(drill_url: str, out: Path, parts: dict[str, Any], steps: int = 2, **config: Any) -> Scripted:
    words = tokenizer("qwen3-no-thinking")
    model = qwen(len(words))
    tasks = [{"task_id": f"drill-choose-{seed}-l1"} for seed in (1, 2)]
    arguments = {
        **on_cpu(out),
        "max_steps": steps,
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "max_completion_length": 4096,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "seed": 3,
        **objective("dr_grpo").arguments,
        **config,
    }
    options = {
        "url": drill_url,
        "chat": lambda sampler: TemplateChat(words, sampler, arguments={"enable_thinking": False}),
        "limits": Limits(max_ids=6000, max_turn_ids=400),
        "teacher": Teacher("frozen"),
        "distillation": Settings(gate=False),  # a model with random weights understands no hint
    }
    rows = Dataset.from_list(reset_rows(tasks))
    return Solving(
        model, Parts(**{**options, **parts}), args=GRPOConfig(**arguments), train_dataset=rows, processing_class=words
    )


def logs(trained: EtudeTrainer, name: str) -> list[float]:
    return [row[name] for row in trained.state.log_history if name in row]


def only(channel: str) -> ChannelWeights:
    return ChannelWeights(
        **{name: (lambda share, on=name == channel: float(on)) for name in ("rlvr", "distillation", "replay")}
    )


def test_step_of_rlvr_and_distillation_changes_the_weights(drill_url: str, tmp_path: Path) -> None:
    both = ChannelWeights(rlvr=lambda share: 1.0, distillation=lambda share: 1.0)
    trained = build_trainer(drill_url, tmp_path, {"channels": both})
    before = [parameter.detach().clone() for parameter in trained.model.parameters()]
    trained.train()
    trained.close()
    assert logs(trained, "episodes/valid") == [1.0, 1.0]
    assert logs(trained, "reward") == [1.0, 1.0]
    assert min(logs(trained, "distillation/sites")) > 0
    assert min(logs(trained, "distillation/divergence")) > 0
    assert any(not torch.equal(old, new) for old, new in zip(before, trained.model.parameters(), strict=True))


def test_distillation_gradient_reaches_sampled_tokens_of_error_turns_only(drill_url: str, tmp_path: Path) -> None:
    """The gradient is exactly 0 where the environment wrote, and in every turn that did not err."""
    trained = build_trainer(drill_url, tmp_path, {"channels": only("distillation")}, steps=1)
    rows: list[ScoredRow] = []
    original = trained._compute_loss

    def compute_loss(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        rows.extend(ScoredBatch.from_inputs(inputs).rows)
        return original(model, inputs)

    trained._compute_loss = compute_loss
    trained.train()
    trained.close()
    with_sites = [(row.rollout, row.sites) for row in rows if row.sites]
    assert with_sites
    for rollout, sites in with_sites:
        embedded = trained.model.get_input_embeddings()(torch.tensor([rollout.ids])).detach().requires_grad_()
        hidden = trained.model.base_model(inputs_embeds=embedded).last_hidden_state
        hidden.retain_grad()
        places = [place for site in sites for place in range(site.start - 1, site.end - 1)]
        hidden[0, places].square().sum().backward()
        touched = set(hidden.grad[0].abs().sum(-1).nonzero().flatten().tolist())
        assert touched == set(places)
        mask = [0] * rollout.prompt + rollout.mask
        assert all(mask[place + 1] == 1 for place in places)
        assert {site.turn for site in sites} == {error.turn for error in rollout.error_turns}


def test_channel_of_weight_0_is_not_computed(drill_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **more: Any) -> None:
        raise AssertionError("used")

    trained = build_trainer(drill_url, tmp_path, {"channels": only("rlvr"), "teacher": None}, steps=1)
    monkeypatch.setattr(trained._distiller, "loss", fail)
    monkeypatch.setattr(trained._chat, "insert_for", fail)
    trained.train()
    trained.close()
    assert logs(trained, "train_loss")


def test_policy_loss_is_not_computed_when_rlvr_is_off(
    drill_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl import GRPOTrainer

    def fail(*arguments: Any, **more: Any) -> None:
        raise AssertionError("used")

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", fail)
    trained = build_trainer(drill_url, tmp_path, {"channels": only("distillation")}, steps=1)
    trained.train()
    trained.close()
    assert logs(trained, "distillation/loss")


def test_distillation_loss_falls_when_the_same_turns_fail_again(drill_url: str, tmp_path: Path) -> None:
    trained = build_trainer(drill_url, tmp_path, {"channels": only("distillation")}, steps=8, learning_rate=1e-3)
    trained.erring = 1.0  # so that the same turns fail in every step
    trained.train()
    trained.close()
    losses = logs(trained, "distillation/loss")
    assert losses[-1] < 0.5 * losses[0]


def test_site_gets_the_hint_that_the_chooser_prefers(drill_url: str, tmp_path: Path) -> None:
    """Every error turn has two hints, of which the chooser takes the second."""
    other = Hint(text="Look at the list of tools again.", template="other")

    def chooser(error: ErrorTurn, errors: Sequence[ErrorTurn], /) -> list[Hint]:
        return sorted(error.hints, key=lambda hint: hint.template != "other")

    trained = build_trainer(drill_url, tmp_path, {"channels": only("distillation"), "chooser": chooser}, steps=1)
    original, sites = trained._choose_sites, []

    def choose_sites(rollouts: Sequence[Rollout]) -> list[list[Site]]:
        for rollout in rollouts:
            for error in rollout.error_turns:
                error.hints.append(other)
        chosen = original(rollouts)
        sites.extend(site for rollout_sites in chosen for site in rollout_sites)
        return chosen

    trained._choose_sites = choose_sites
    trained.train()
    trained.close()
    assert sites
    assert {(site.text, site.source) for site in sites} == {(other.text, other.source)}
