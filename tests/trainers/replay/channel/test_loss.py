"""Tests of the preference losses: closed forms, TRL's own numbers, and which tokens count."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from helpers.model_factory import VOCABULARY, model
from helpers.tokenizer_factory import tokenizer
from transformers import AutoModelForCausalLM, Qwen3Config
from trl import DPOConfig, DPOTrainer

from etude.errors import ReplayError
from etude.trainers.replay.channel.encoding import Encoded
from etude.trainers.replay.channel.loss import (
    DEFAULT,
    LOSSES,
    NO_PAIR_METRICS,
    Replay,
    Scores,
    open_replay,
    preference_loss,
    turn_logps,
)
from etude.trainers.replay.pairs import Pair


def pairs(count: int = 3, seed: int = 0) -> list[Encoded]:
    rng = torch.Generator().manual_seed(seed)

    def ids() -> list[int]:
        length = int(torch.randint(2, 9, (), generator=rng))
        return torch.randint(3, VOCABULARY, (length,), generator=rng).tolist()

    return [Encoded(ids(), ids(), ids(), str(number)) for number in range(count)]


METRICS = [f"replay/{name}" for name in NO_PAIR_METRICS]


class Trainer:
    """The part of a trainer that the loss uses."""

    def __init__(self, step: int = 0, accumulation: int = 1, micro: int = 0, rank: int = 0, ranks: int = 1) -> None:
        self.args, self.state = SimpleNamespace(seed=1), SimpleNamespace(global_step=step)
        self.accelerator = SimpleNamespace(process_index=rank, num_processes=ranks, unwrap_model=lambda model: model)
        self.current_gradient_accumulation_steps, self._step = accumulation, step * accumulation + micro
        self.metrics: dict[str, float] = {}

    def record_metric(self, name: str, value: float) -> None:
        self.metrics[name] = value


def scores(policy: list[float], reference: list[float], tokens: list[int]) -> Scores:
    return Scores(*(torch.tensor(column, dtype=torch.float64) for column in (policy, reference, tokens)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sigmoid", -math.log(1 / (1 + math.exp(-0.5 * 3)))),
        ("sigmoid_norm", -math.log(1 / (1 + math.exp(-0.5 * (2 / 4 + 1 / 2))))),
        ("ipo", (2 / 4 + 1 / 2 - 1) ** 2),
        ("hinge", 0.0),
        ("robust", (0.9 * math.log(1 + math.exp(-1.5)) - 0.1 * math.log(1 + math.exp(1.5))) / 0.8),
        ("sft", 6 / 4),
    ],
)
def test_preference_loss_equals_its_closed_form(name: str, value: float) -> None:
    chosen, rejected = scores([-6.0], [-8.0], [4]), scores([-5.0], [-4.0], [2])
    if name == "hinge":
        value = max(0.0, 1 - 0.5 * 3)
    assert float(preference_loss(chosen, rejected, {name: 1.0}, beta=0.5, flipped=0.1)) == pytest.approx(
        value, abs=1e-9
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: Any) -> Any:
    """Return TRL's DPOTrainer around a tiny model whose policy was moved away from the reference."""
    words = tokenizer("qwen3-2507")
    words.pad_token = "<|endoftext|>"
    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = Qwen3Config(vocab_size=len(words), **size, num_key_value_heads=2, head_dim=8)
    config.eos_token_id, config.pad_token_id = words.eos_token_id, words.pad_token_id
    folder = tmp_path_factory.mktemp("dpo")
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    loaded = AutoModelForCausalLM.from_pretrained(folder)  # TRL loads the reference from there
    rows = [{"prompt": "Go on. " * (i + 1), "chosen": "yes found it", "rejected": "no " * (i + 2)} for i in range(4)]
    arguments = DPOConfig(str(folder / "out"), report_to=[], use_cpu=True, bf16=False, per_device_train_batch_size=4)
    trainer = DPOTrainer(loaded, args=arguments, train_dataset=Dataset.from_list(rows), processing_class=words)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return trainer


@pytest.mark.parametrize("names", [[name] for name in LOSSES] + [list(DEFAULT)])
def test_channel_has_the_loss_and_gradient_of_trls_trainer(trained: Any, names: list[str]) -> None:
    weights = [1.0] if len(names) == 1 else list(DEFAULT.values())
    trained.loss_types, trained.loss_weights, trained.beta, trained.label_smoothing = names, weights, 0.3, 0.15
    inputs = next(iter(trained.get_train_dataloader()))
    trained.model.zero_grad()
    expected = trained._compute_loss(trained.model, inputs, False)
    expected.backward()
    slopes = [parameter.grad.clone() for parameter in trained.model.parameters()]
    rows = [_encoded(inputs, row) for row in range(len(inputs["input_ids"]) // 2)]
    replay = Replay(rows, dict(zip(names, weights, strict=True)), batch=len(rows), beta=0.3, flipped=0.15)
    replay.prepare(trained.ref_model)
    trained.model.zero_grad()
    loss = replay.loss(Trainer(), trained.model)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-6, abs=1e-6)
    for parameter, slope in zip(trained.model.parameters(), slopes, strict=True):
        torch.testing.assert_close(parameter.grad, slope, atol=1e-6, rtol=1e-4)


def _encoded(inputs: Any, row: int) -> Encoded:
    """Return a row of TRL's batch, which has the rejected turns after the chosen ones."""
    sides = []
    for which in (row, row + len(inputs["input_ids"]) // 2):
        ids, mask = inputs["input_ids"][which].tolist(), inputs["completion_mask"][which].tolist()
        start, length = mask.index(1), sum(mask)
        sides.append((ids[:start], ids[start : start + length]))
    return Encoded(sides[0][0], sides[0][1], sides[1][1], str(row))


def test_turn_logps_sum_the_turns_tokens_whatever_the_padding() -> None:
    student, rows = model(), pairs(4)
    sums, tokens = turn_logps(student, [p.prompt for p in rows], [p.chosen for p in rows])
    for number, pair in enumerate(rows):
        alone = torch.tensor([pair.prompt + pair.chosen])
        logps = student(alone).logits[0].log_softmax(-1)
        expected = sum(
            float(logps[place - 1, alone[0, place]].detach()) for place in range(len(pair.prompt), alone.shape[1])
        )
        assert float(sums[number].detach()) == pytest.approx(expected, abs=1e-4)
        assert int(tokens[number]) == len(pair.chosen)


def test_turn_logps_have_a_gradient_only_where_turn_tokens_are_predicted() -> None:
    student = model("qwen3")
    hidden = student.base_model(input_ids=torch.tensor([[5, 6, 7, 8, 9]])).last_hidden_state
    hidden.retain_grad()
    student.base_model.forward = lambda **_: SimpleNamespace(last_hidden_state=hidden)  # type: ignore[method-assign]
    sums, _ = turn_logps(student, [[5, 6, 7]], [[8, 9]])
    sums.sum().backward()
    assert hidden.grad[0, [0, 1, 4]].abs().sum() == 0.0
    assert (hidden.grad[0, [2, 3]].abs().sum(-1) > 0).all()


def test_reference_is_the_model_before_training_and_survives_a_resume() -> None:
    student, replay = model(), Replay(pairs(), batch=3)
    trainer = Trainer()
    first = float(replay.loss(trainer, student).detach())
    assert first == pytest.approx(math.log(2) - 0.2 * trainer.metrics["replay/chosen_logp"], abs=0.3)
    assert trainer.metrics["replay/margin"] == pytest.approx(0.0, abs=1e-5)
    saved = replay.state_dict()
    with torch.no_grad():
        for parameter in student.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    here = replay.loss(Trainer(step=5), student)
    resumed = Replay(pairs(), batch=3)
    with pytest.raises(ReplayError, match="has no reference"):
        resumed.loss(Trainer(step=5), student)
    resumed.load_state_dict(saved)
    assert torch.equal(resumed.loss(Trainer(step=5), student), here)
    with pytest.raises(ReplayError, match="made with other pairs"):
        Replay([replace(pair, key="x") for pair in pairs()]).load_state_dict(saved)


def test_training_raises_the_chosen_turn_above_the_rejected_one() -> None:
    student, replay, trainer = model(), Replay(pairs(), batch=3, beta=1.0), Trainer()
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    before = {}
    for step in range(20):
        loss = replay.loss(trainer, student)
        before = before or dict(trainer.metrics)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trainer.state.global_step = step + 1
    assert trainer.metrics["replay/accuracy"] == 1.0 and trainer.metrics["replay/margin"] > 0.1
    assert trainer.metrics["replay/chosen_logp"] > before["replay/chosen_logp"]


def test_drawn_pairs_depend_on_the_step_alone() -> None:
    replay = Replay(pairs(50), batch=4)
    assert replay.drawn(Trainer(step=3)) == replay.drawn(Trainer(step=3, accumulation=2, micro=1, rank=1, ranks=2))
    assert replay.drawn(Trainer(step=3)) != replay.drawn(Trainer(step=4))


@pytest.mark.parametrize(("accumulation", "ranks"), [(2, 1), (1, 2), (3, 2), (4, 3)])
def test_loss_does_not_depend_on_micro_batches_and_ranks(accumulation: int, ranks: int) -> None:
    """Compare splits whose parts have unequal sizes, or are empty."""
    student, replay = model().double().train(), Replay(pairs(9), batch=7)

    def learned(accumulation: int, ranks: int) -> tuple[float, dict[str, float], list[torch.Tensor]]:
        """Sum over micro-batches and average over ranks, as TRL and torch's wrapper do, losses and metrics alike."""
        student.zero_grad()
        total, metrics = 0.0, dict.fromkeys(METRICS, 0.0)
        for place in range(accumulation * ranks):
            trainer = Trainer(2, accumulation, place // ranks, place % ranks, ranks)
            loss = replay.loss(trainer, student) / ranks
            if loss.requires_grad:
                loss.backward()
            total += float(loss.detach())
            metrics = {name: metrics[name] + trainer.metrics[name] / accumulation for name in metrics}
        return total, metrics, [parameter.grad.clone() for parameter in student.parameters()]

    replay.prepare(student)
    with torch.no_grad():
        for parameter in student.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    whole, split = learned(1, 1), learned(accumulation, ranks)
    assert split[0] == pytest.approx(whole[0], abs=1e-6)
    assert split[1] == pytest.approx(whole[1], abs=1e-6)
    for one, other in zip(whole[2], split[2], strict=True):
        torch.testing.assert_close(other, one, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": {"sigmod": 1.0}}, "unknown loss 'sigmod'. Did you mean 'sigmoid'?"),
        ({"flipped": 0.5}, r"must lie in \[0, 0.5\)"),
        ({"pairs": []}, "no pairs to learn from"),
        ({"pairs": [Encoded([1], [], [2], "e:0")]}, "the pair e:0 lacks a prompt or a turn"),
    ],
)
def test_replay_refuses_unusable_options_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ReplayError, match=message):
        Replay(**{"pairs": pairs(), **options})


@pytest.mark.parametrize(
    ("chosen", "max_ids", "message"),
    [
        ("yes", 1000, "both read the same 1$"),
        ("no", 3, "too long 1; raise generation.max_ids = 3"),
    ],
)
def test_open_replay_reports_why_no_pair_can_be_learned_from(
    chosen: str, max_ids: int, message: str, tmp_path: Path
) -> None:
    about = {"episode_id": "e", "task_id": "t", "turn": 0, "share": 1.0, "margin": 1.0, "teachers": {}, "weights": {}}
    both = {"chosen": {"text": chosen}, "rejected": {"text": "yes"}}
    messages = [{"role": "user", "content": "Go on."}]
    path = tmp_path / "pairs.jsonl"
    path.write_text(Pair(kind="correct", messages=messages, tools=[], **both, **about).model_dump_json() + "\n")
    with pytest.raises(ReplayError, match=f"no pair of {path} can be learned from: {message}"):
        open_replay(path, tokenizer("qwen3-2507"), max_ids=max_ids)
