"""The trainer through the real stack: a served drill, TRL's GRPOTrainer, a tiny model."""

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
from etude.trainers.grpo.trainer import Channels, EtudeTrainer, Parts, reset_rows
from etude.trainers.rollouts.rollout import Rollout
from etude.trainers.rollouts.session_pool import Limits


class Solving(Scripted):
    """Every episode ends well."""

    giving = 0.0


def trainer(drill_url: str, out: Path, parts: dict[str, Any], steps: int = 2, **config: Any) -> Scripted:
    made = tokenizer("qwen3-no-thinking")
    model = qwen(len(made))
    wanted = tuple(f"drill-choose-{seed}-l1" for seed in (1, 2))
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
    given = {
        "url": drill_url,
        "chat": lambda sampler: TemplateChat(made, sampler, arguments={"enable_thinking": False}),
        "limits": Limits(max_ids=6000, max_turn_ids=400),
        "teacher": Teacher("frozen"),
        "distillation": Settings(gate=False),  # weights of chance understand no hint
    }
    rows = Dataset.from_list(reset_rows([{"task_id": name} for name in wanted]))
    return Solving(
        model, Parts(**{**given, **parts}), args=GRPOConfig(**arguments), train_dataset=rows, processing_class=made
    )


def logs(found: EtudeTrainer, name: str) -> list[float]:
    return [row[name] for row in found.state.log_history if name in row]


def only(channel: str) -> Channels:
    return Channels(
        **{name: (lambda done, on=name == channel: float(on)) for name in ("rlvr", "distillation", "replay")}
    )


def test_a_step_of_rlvr_and_distillation(drill_url: str, tmp_path: Path) -> None:
    both = Channels(rlvr=lambda done: 1.0, distillation=lambda done: 1.0)
    found = trainer(drill_url, tmp_path, {"channels": both})
    before = [parameter.detach().clone() for parameter in found.model.parameters()]
    found.train()
    found.close()
    assert logs(found, "episodes/valid") == [1.0, 1.0]
    assert logs(found, "reward") == [1.0, 1.0]
    assert min(logs(found, "distillation/sites")) > 0
    assert min(logs(found, "distillation/divergence")) > 0
    assert any(not torch.equal(old, new) for old, new in zip(before, found.model.parameters(), strict=True))


def test_gradients_reach_sampled_tokens_of_error_turns_alone(drill_url: str, tmp_path: Path) -> None:
    """The logits' gradient: exactly 0 wherever the environment wrote, and in every turn that did not err."""
    found = trainer(drill_url, tmp_path, {"channels": only("distillation")}, steps=1)
    batches: list[dict[str, Any]] = []
    real = found._compute_loss
    found._compute_loss = lambda model, inputs: batches.append(inputs) or real(model, inputs)
    found.train()
    found.close()
    seen = [(r, s) for batch in batches for r, s in zip(batch["rollouts"], batch["sites"], strict=True) if s]
    assert seen
    for rollout, sites in seen:
        embedded = found.model.get_input_embeddings()(torch.tensor([rollout.ids])).detach().requires_grad_()
        hidden = found.model.base_model(inputs_embeds=embedded).last_hidden_state
        hidden.retain_grad()
        rows = [row for site in sites for row in range(site.start - 1, site.end - 1)]
        hidden[0, rows].square().sum().backward()
        touched = set(hidden.grad[0].abs().sum(-1).nonzero().flatten().tolist())
        assert touched == set(rows)
        mask = [0] * rollout.prompt + rollout.mask
        assert all(mask[row + 1] == 1 for row in rows)
        assert {site.turn for site in sites} == {error.turn for error in rollout.error_turns}


def test_a_channel_of_weight_zero_costs_nothing(
    drill_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: Any, **more: Any) -> None:
        raise AssertionError("used")

    found = trainer(drill_url, tmp_path, {"channels": only("rlvr"), "teacher": None}, steps=1)
    monkeypatch.setattr(found._distiller, "loss", never)
    monkeypatch.setattr(found._chat, "insert_for", never)
    found.train()
    found.close()
    assert logs(found, "train_loss")


def test_without_rlvr_no_policy_loss_is_computed(
    drill_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl import GRPOTrainer

    def never(*arguments: Any, **more: Any) -> None:
        raise AssertionError("used")

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", never)
    found = trainer(drill_url, tmp_path, {"channels": only("distillation")}, steps=1)
    found.train()
    found.close()
    assert logs(found, "distillation/loss")


def test_distillation_lowers_the_failed_turn_towards_the_teacher(drill_url: str, tmp_path: Path) -> None:
    found = trainer(drill_url, tmp_path, {"channels": only("distillation")}, steps=8, learning_rate=1e-3)
    found.erring = 1.0  # the same turns in every step
    found.train()
    found.close()
    per_token = logs(found, "distillation/loss")
    assert per_token[-1] < 0.5 * per_token[0]


def test_a_learned_chooser_decides_which_hint_a_site_gets(drill_url: str, tmp_path: Path) -> None:
    """Two hints at every error turn; the chooser takes the second."""
    other = Hint(text="Look at the list of tools again.", template="other")

    def chooser(error: ErrorTurn, errors: Sequence[ErrorTurn], /) -> list[Hint]:
        return sorted(error.hints, key=lambda hint: hint.template != "other")

    found = trainer(drill_url, tmp_path, {"channels": only("distillation"), "chooser": chooser}, steps=1)
    real, sites = found._choose_sites, []

    def choose(played: Sequence[Rollout]) -> list[list[Site]]:
        for rollout in played:
            for error in rollout.error_turns:
                error.hints.append(other)
        chosen = real(played)
        sites.extend(site for some in chosen for site in some)
        return chosen

    found._choose_sites = choose
    found.train()
    found.close()
    assert sites
    assert {(site.text, site.source) for site in sites} == {(other.text, other.source)}
