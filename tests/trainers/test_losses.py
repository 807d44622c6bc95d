"""Every objective against its formula: the loss that TRL computes for our arguments, and its gradient."""

from __future__ import annotations

import math

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
from helpers.made_up_rollouts import ROOM, Unplayed, unplayed

from etude.trainers.grpo.objectives import OBJECTIVES


@pytest.fixture(scope="module")
def trainers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Unplayed]:
    out = tmp_path_factory.mktemp("out")
    return {name: unplayed(out, name, gradient_accumulation_steps=ACCUMULATION, max_steps=1) for name in OBJECTIVES}


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_loss_is_its_formula(name: str, seed: int, trainers: dict[str, Unplayed]) -> None:
    now, old, advantages, mask = draw(seed, SPREAD.get(name, 0.3))
    found = loss_of(trainers[name], now, inputs_of(old, advantages, mask))
    wanted = FORMULAS[name](now, old, advantages, mask)
    assert abs(float((found - wanted).detach())) <= 1e-6
    one, other = gradient(found, now), gradient(wanted, now)
    assert float((one - other).abs().max()) <= 1e-6
    assert float(other.abs().max()) > 1e-3
    assert bool((one[mask == 0] == 0).all())


@pytest.mark.parametrize("name", [*CLIPPED, *PER_SEQUENCE])
def test_some_of_the_drawn_ratios_are_clipped_on_each_side_and_some_are_not(name: str) -> None:
    """Else the formulas above were compared on one side of their clips alone."""
    low, high = {"dapo": (0.2, 0.28), "gspo": (3e-4, 4e-4), "luspo": (2e-3, 2.5e-3)}.get(name, (0.2, 0.2))
    dead = {-1: 0, 1: 0}
    alive = 0
    for seed in range(SEEDS):
        now, old, advantages, mask = draw(seed, SPREAD.get(name, 0.3))
        gap = (now - old).detach()
        gap = (gap * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True) if name in PER_SEQUENCE else gap
        for i, places in enumerate(tokens(mask)):
            for t in places:
                ratio, good = float(gap[i, min(t, gap.shape[1] - 1)].exp()), bool(advantages[i] > 0)
                dead[1] += good and ratio > 1 + high
                dead[-1] += not good and ratio < 1 - low
                alive += 1 - low < ratio < 1 + high
    assert min(*dead.values(), alive) > 0


@pytest.mark.parametrize("name", OBJECTIVES)
def test_on_the_policy_all_gradients_are_advantage_times_score_up_to_a_normaliser(
    name: str, trainers: dict[str, Unplayed]
) -> None:
    now, _, advantages, mask = draw(0, 0.0)
    found = gradient(loss_of(trainers[name], now, inputs_of(None, advantages, mask)), now)
    lengths = mask.sum(-1, keepdim=True)
    normaliser = {
        "dr_grpo": torch.tensor(B * ROOM * ACCUMULATION),
        "bnpo": mask.sum() * ACCUMULATION,
        **dict.fromkeys(("dapo", "cispo", "vespo"), torch.tensor(ITEMS)),
        **dict.fromkeys(("grpo", "gspo", "sapo"), B * lengths * ACCUMULATION),
        "luspo": torch.tensor(B * ACCUMULATION),
    }[name]
    torch.testing.assert_close(found, -advantages[:, None] * mask / normaliser, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("advantage", "ratio"), [(1.0, 1.5), (-1.0, 0.5)])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_beyond_the_clip_the_gradient_is_zero_but_not_for_cispo_and_soft_gates(
    name: str, advantage: float, ratio: float, trainers: dict[str, Unplayed]
) -> None:
    old = torch.full((1, 3), -1.0, dtype=torch.float64)
    now = (old + math.log(ratio)).requires_grad_()
    inputs = inputs_of(old, torch.tensor([advantage], dtype=torch.float64), torch.ones(1, 3, dtype=torch.long))
    found = gradient(loss_of(trainers[name], now, inputs), now)
    dead = name in CLIPPED or name in PER_SEQUENCE
    assert bool((found == 0).all()) == dead


@pytest.mark.parametrize(("advantage", "ratio"), [(1.0, 0.5), (-1.0, 1.5)])
@pytest.mark.parametrize("name", [*CLIPPED, *PER_SEQUENCE])
def test_a_ratio_that_may_still_be_corrected_is_never_dead(
    name: str, advantage: float, ratio: float, trainers: dict[str, Unplayed]
) -> None:
    old = torch.full((1, 3), -1.0, dtype=torch.float64)
    now = (old + math.log(ratio)).requires_grad_()
    inputs = inputs_of(old, torch.tensor([advantage], dtype=torch.float64), torch.ones(1, 3, dtype=torch.long))
    assert bool((gradient(loss_of(trainers[name], now, inputs), now) != 0).all())


def test_dapo_clips_higher_above_than_below(trainers: dict[str, Unplayed]) -> None:
    """A good token at 1.25 still learns, where GRPO's does not."""
    old = torch.full((1, 1), -1.0, dtype=torch.float64)
    inputs = inputs_of(old, torch.ones(1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.long))
    alive = {}
    for name in ("dapo", "grpo"):
        now = (old + math.log(1.25)).requires_grad_()
        alive[name] = bool(gradient(loss_of(trainers[name], now, inputs), now).any())
    assert alive == {"dapo": True, "grpo": False}


@pytest.mark.parametrize("name", ["gspo", "luspo", "grpo"])
def test_a_sequence_s_ratio_does_not_care_which_token_has_which_ratio(name: str, trainers: dict[str, Unplayed]) -> None:
    """For GSPO and LUSPO; GRPO clips each token, and so does care."""
    old = torch.zeros(1, 4, dtype=torch.float64)
    inputs = inputs_of(old, torch.ones(1, dtype=torch.float64), torch.ones(1, 4, dtype=torch.long))
    gaps = torch.tensor([[0.5, -0.4999, 0.1, -0.1]], dtype=torch.float64)
    grads = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        now = gaps[:, order].clone().requires_grad_()
        grads.append(gradient(loss_of(trainers[name], now, inputs), now))
    assert bool(torch.allclose(grads[0], grads[1], rtol=0, atol=1e-12)) == (name != "grpo")


@pytest.mark.parametrize("name", OBJECTIVES)
def test_padding_changes_nothing(name: str, trainers: dict[str, Unplayed]) -> None:
    now, old, advantages, mask = draw(1, SPREAD.get(name, 0.3))
    plain = loss_of(trainers[name], now, inputs_of(old, advantages, mask))
    wide = [torch.cat([each, torch.zeros(B, 5, dtype=each.dtype)], dim=1) for each in (now, old, mask)]
    padded = loss_of(trainers[name], wide[0], inputs_of(wide[1], advantages, wide[2]))
    torch.testing.assert_close(padded, plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient(padded, now), gradient(plain, now), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_whose_tokens_weigh_less_in_a_longer_sequence(name: str, trainers: dict[str, Unplayed]) -> None:
    """The bias that Dr.GRPO removes: its first token counts the same however many follow."""
    weights = []
    for length in (2, 6):
        mask = torch.zeros(1, T, dtype=torch.long)
        mask[0, :length] = 1
        now = torch.full((1, T), -1.0, dtype=torch.float64, requires_grad=True)
        inputs = inputs_of(None, torch.ones(1, dtype=torch.float64), mask)
        weights.append(float(gradient(loss_of(trainers[name], now, inputs), now)[0, 0]))
    assert (weights[0] == pytest.approx(weights[1])) == (name in ("dr_grpo", "dapo", "cispo", "vespo", "luspo"))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_split_into_micro_batches(name: str, trainers: dict[str, Unplayed]) -> None:
    """Changes nothing but for BNPO, which divides by the tokens of each part."""
    now, old, advantages, mask = draw(2, SPREAD.get(name, 0.3))
    trainer = trainers[name]
    trainer.args.steps_per_generation = 1
    whole = loss_of(trainer, now, inputs_of(old, advantages, mask), 1)
    trainer.args.steps_per_generation = ACCUMULATION
    parts = [
        loss_of(trainer, now[some], inputs_of(old[some], advantages[some], mask[some]), ACCUMULATION)
        for some in (slice(0, 2), slice(2, 4))
    ]
    one, other = gradient(whole, now), gradient(torch.stack(parts).sum(), now)
    assert torch.allclose(one, other, rtol=0, atol=1e-12) == (name != "bnpo")


@pytest.mark.parametrize("name", OBJECTIVES)
def test_through_the_model_too(name: str, trainers: dict[str, Unplayed], monkeypatch: pytest.MonkeyPatch) -> None:
    """The log-probabilities are those of the model's own logits; TRL makes them in float32, whatever the model."""
    trainer = trainers[name]
    monkeypatch.delitem(vars(trainer), "_get_per_token_logps_and_entropies", raising=False)
    monkeypatch.setattr(trainer, "current_gradient_accumulation_steps", ACCUMULATION, raising=False)
    trainer.model.double().train()
    ids = torch.randint(3, 90, (B, PROMPT + T), generator=torch.Generator().manual_seed(1))
    _, noise, advantages, mask = draw(3, 1.0)
    inputs = inputs_of(None, advantages, mask) | {"prompt_ids": ids[:, :PROMPT], "completion_ids": ids[:, PROMPT:]}
    seen = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    logits = trainer.model(input_ids=ids, attention_mask=seen).logits[:, PROMPT - 1 : -1]
    now = logits.log_softmax(-1).gather(-1, ids[:, PROMPT:, None])[..., 0]
    old = now.detach() + SPREAD.get(name, 0.3) * (noise + 1.5) / 1.5
    found = trainer._compute_loss(trainer.model, inputs | {"old_per_token_logps": old})
    wanted = FORMULAS[name](now, old, advantages, mask)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)
    parameters = [p for p in trainer.model.parameters() if p.requires_grad]
    pairs = zip(torch.autograd.grad(found, parameters), torch.autograd.grad(wanted, parameters), strict=True)
    assert max(float((one - other).abs().max()) for one, other in pairs) <= 1e-6
