"""Every objective, compared with its formula: the loss that TRL computes for our arguments, and its gradient."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.formulas import (
    ACCUMULATION,
    CLIPPED,
    FORMULAS,
    ITEMS,
    PER_SEQUENCE,
    PROMPT,
    SEEDS,
    SPREAD,
    B,
    T,
    draw,
    gradient,
    inputs_of,
    loss_of,
    tokens,
)
from helpers.made_up_rollouts import ROOM, Unplayed, made_up, unplayed

from etude.trainers.grpo import channels
from etude.trainers.grpo.objectives import OBJECTIVES
from etude.trainers.grpo.parts import ChannelWeights
from etude.trainers.rollouts.rollout import Rollout


@pytest.fixture(scope="module")
def trainers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Unplayed]:
    out = tmp_path_factory.mktemp("out")
    return {name: unplayed(out, name, gradient_accumulation_steps=ACCUMULATION, max_steps=1) for name in OBJECTIVES}


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", OBJECTIVES)
def test_loss_and_gradient_equal_the_formula(name: str, seed: int, trainers: dict[str, Unplayed]) -> None:
    now, old, advantages, mask = draw(seed, SPREAD.get(name, 0.3))
    actual = loss_of(trainers[name], now, inputs_of(old, advantages, mask))
    expected = FORMULAS[name](now, old, advantages, mask)
    assert abs(float((actual - expected).detach())) <= 1e-6
    actual_gradient, expected_gradient = gradient(actual, now), gradient(expected, now)
    assert float((actual_gradient - expected_gradient).abs().max()) <= 1e-6
    assert float(expected_gradient.abs().max()) > 1e-3
    assert bool((actual_gradient[mask == 0] == 0).all())


@pytest.mark.parametrize("name", [*CLIPPED, *PER_SEQUENCE])
def test_drawn_ratios_lie_on_both_sides_of_the_clips_and_between_them(name: str) -> None:
    """Otherwise the formulas above would be compared on one side of their clips only."""
    low, high = {"dapo": (0.2, 0.28), "gspo": (3e-4, 4e-4), "luspo": (2e-3, 2.5e-3)}.get(name, (0.2, 0.2))
    clipped = {-1: 0, 1: 0}
    unclipped = 0
    for seed in range(SEEDS):
        now, old, advantages, mask = draw(seed, SPREAD.get(name, 0.3))
        gap = (now - old).detach()
        gap = (gap * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True) if name in PER_SEQUENCE else gap
        for i, places in enumerate(tokens(mask)):
            for t in places:
                ratio, good = float(gap[i, min(t, gap.shape[1] - 1)].exp()), bool(advantages[i] > 0)
                clipped[1] += good and ratio > 1 + high
                clipped[-1] += not good and ratio < 1 - low
                unclipped += 1 - low < ratio < 1 + high
    assert min(*clipped.values(), unclipped) > 0


@pytest.mark.parametrize("name", OBJECTIVES)
def test_on_policy_gradient_is_advantage_times_score_over_a_normaliser(
    name: str, trainers: dict[str, Unplayed]
) -> None:
    now, _, advantages, mask = draw(0, 0.0)
    actual = gradient(loss_of(trainers[name], now, inputs_of(None, advantages, mask)), now)
    lengths = mask.sum(-1, keepdim=True)
    normaliser = {
        "dr_grpo": torch.tensor(B * ROOM * ACCUMULATION),
        "bnpo": mask.sum() * ACCUMULATION,
        **dict.fromkeys(("dapo", "cispo", "vespo"), torch.tensor(ITEMS)),
        **dict.fromkeys(("grpo", "gspo", "sapo"), B * lengths * ACCUMULATION),
        "luspo": torch.tensor(B * ACCUMULATION),
    }[name]
    torch.testing.assert_close(actual, -advantages[:, None] * mask / normaliser, rtol=0, atol=1e-9)


def slopes_at(trainer: Unplayed, advantage: float, ratio: float) -> torch.Tensor:
    """Return the gradient of three tokens with this advantage and ratio."""
    old = torch.full((1, 3), -1.0, dtype=torch.float64)
    now = (old + math.log(ratio)).requires_grad_()
    inputs = inputs_of(old, torch.tensor([advantage], dtype=torch.float64), torch.ones(1, 3, dtype=torch.long))
    return gradient(loss_of(trainer, now, inputs), now)


@pytest.mark.parametrize(("advantage", "ratio"), [(1.0, 1.5), (-1.0, 0.5)])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradient_beyond_the_clip_is_0_except_for_cispo_and_soft_gates(
    name: str, advantage: float, ratio: float, trainers: dict[str, Unplayed]
) -> None:
    clips = name in CLIPPED or name in PER_SEQUENCE
    assert bool((slopes_at(trainers[name], advantage, ratio) == 0).all()) == clips


@pytest.mark.parametrize(("advantage", "ratio"), [(1.0, 0.5), (-1.0, 1.5)])
@pytest.mark.parametrize("name", [*CLIPPED, *PER_SEQUENCE])
def test_gradient_is_not_0_when_the_ratio_can_still_be_corrected(
    name: str, advantage: float, ratio: float, trainers: dict[str, Unplayed]
) -> None:
    assert bool((slopes_at(trainers[name], advantage, ratio) != 0).all())


def test_dapo_has_a_higher_upper_clip_than_grpo(trainers: dict[str, Unplayed]) -> None:
    """At a ratio of 1.25, a good token has a gradient in DAPO and none in GRPO."""
    old = torch.full((1, 1), -1.0, dtype=torch.float64)
    inputs = inputs_of(old, torch.ones(1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.long))
    learns = {}
    for name in ("dapo", "grpo"):
        now = (old + math.log(1.25)).requires_grad_()
        learns[name] = bool(gradient(loss_of(trainers[name], now, inputs), now).any())
    assert learns == {"dapo": True, "grpo": False}


@pytest.mark.parametrize("name", ["gspo", "luspo", "grpo"])
def test_order_of_token_ratios_matters_only_when_each_token_is_clipped(
    name: str, trainers: dict[str, Unplayed]
) -> None:
    """GSPO and LUSPO use the ratio of the sequence; GRPO clips each token."""
    old = torch.zeros(1, 4, dtype=torch.float64)
    inputs = inputs_of(old, torch.ones(1, dtype=torch.float64), torch.ones(1, 4, dtype=torch.long))
    gaps = torch.tensor([[0.5, -0.4999, 0.1, -0.1]], dtype=torch.float64)
    grads = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        now = gaps[:, order].clone().requires_grad_()
        grads.append(gradient(loss_of(trainers[name], now, inputs), now))
    assert bool(torch.allclose(grads[0], grads[1], rtol=0, atol=1e-12)) == (name != "grpo")


@pytest.mark.parametrize("name", OBJECTIVES)
def test_padding_does_not_change_the_loss(name: str, trainers: dict[str, Unplayed]) -> None:
    now, old, advantages, mask = draw(1, SPREAD.get(name, 0.3))
    plain = loss_of(trainers[name], now, inputs_of(old, advantages, mask))
    wide = [torch.cat([tensor, torch.zeros(B, 5, dtype=tensor.dtype)], dim=1) for tensor in (now, old, mask)]
    padded = loss_of(trainers[name], wide[0], inputs_of(wide[1], advantages, wide[2]))
    torch.testing.assert_close(padded, plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient(padded, now), gradient(plain, now), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_weight_of_a_token_does_not_depend_on_the_length_of_its_sequence_for_some_objectives(
    name: str, trainers: dict[str, Unplayed]
) -> None:
    """Dr.GRPO, among others, removes the bias that a token weighs less in a longer sequence."""
    weights = []
    for length in (2, 6):
        mask = torch.zeros(1, T, dtype=torch.long)
        mask[0, :length] = 1
        now = torch.full((1, T), -1.0, dtype=torch.float64, requires_grad=True)
        inputs = inputs_of(None, torch.ones(1, dtype=torch.float64), mask)
        weights.append(float(gradient(loss_of(trainers[name], now, inputs), now)[0, 0]))
    assert (weights[0] == pytest.approx(weights[1])) == (name in ("dr_grpo", "dapo", "cispo", "vespo", "luspo"))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_split_into_micro_batches_changes_only_bnpo(name: str, trainers: dict[str, Unplayed]) -> None:
    """BNPO divides by the tokens of each micro-batch."""
    now, old, advantages, mask = draw(2, SPREAD.get(name, 0.3))
    trainer = trainers[name]
    trainer.args.steps_per_generation = 1
    whole = loss_of(trainer, now, inputs_of(old, advantages, mask), 1)
    trainer.args.steps_per_generation = ACCUMULATION
    parts = [
        loss_of(trainer, now[rows], inputs_of(old[rows], advantages[rows], mask[rows]), ACCUMULATION)
        for rows in (slice(0, 2), slice(2, 4))
    ]
    whole_gradient, parts_gradient = gradient(whole, now), gradient(torch.stack(parts).sum(), now)
    assert torch.allclose(whole_gradient, parts_gradient, rtol=0, atol=1e-12) == (name != "bnpo")


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradient_of_the_parameters_equals_that_of_the_formula(
    name: str, trainers: dict[str, Unplayed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log-probabilities are those of the model's own logits; TRL computes them in float32 for any model."""
    trainer = trainers[name]
    monkeypatch.delitem(vars(trainer), "_get_per_token_logps_and_entropies", raising=False)
    monkeypatch.setattr(trainer, "current_gradient_accumulation_steps", ACCUMULATION, raising=False)
    trainer.model.double().train()
    ids = torch.randint(3, 90, (B, PROMPT + T), generator=torch.Generator().manual_seed(1))
    _, noise, advantages, mask = draw(3, 1.0)
    inputs = inputs_of(None, advantages, mask) | {"prompt_ids": ids[:, :PROMPT], "completion_ids": ids[:, PROMPT:]}
    attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    logits = trainer.model(input_ids=ids, attention_mask=attention).logits[:, PROMPT - 1 : -1]
    now = logits.log_softmax(-1).gather(-1, ids[:, PROMPT:, None])[..., 0]
    old = now.detach() + SPREAD.get(name, 0.3) * (noise + 1.5) / 1.5
    actual = trainer._compute_loss(trainer.model, inputs | {"old_per_token_logps": old})
    expected = FORMULAS[name](now, old, advantages, mask)
    torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-6)
    parameters = [p for p in trainer.model.parameters() if p.requires_grad]
    pairs = zip(torch.autograd.grad(actual, parameters), torch.autograd.grad(expected, parameters), strict=True)
    assert max(float((first - second).abs().max()) for first, second in pairs) <= 1e-6


def test_draw_of_sites_over_the_cap_depends_on_the_rollout_and_not_on_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks have other rows, so a draw by row would make the loss depend on the number of processes."""
    draws: dict[str, list[float]] = {}

    def choose(rollout: Rollout, insert: Any, *, rng: random.Random, **options: Any) -> Any:
        draws.setdefault(rollout.task_id, []).append(rng.random())
        return [], Counter[str]()

    monkeypatch.setattr(channels, "choose_sites", choose)
    trainer = unplayed(tmp_path, parts={"channels": ChannelWeights(distillation=lambda share: 1.0)})
    rollouts = [made_up(0.0, task) for task in ("a", "b", "c")]
    trainer._choose_sites(rollouts)
    trainer._choose_sites(rollouts[::-1][:2])
    assert draws["b"][0] == draws["b"][1] and draws["c"][0] == draws["c"][1]
    assert len({values[0] for values in draws.values()}) == 3
