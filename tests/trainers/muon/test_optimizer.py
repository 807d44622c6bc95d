"""Muon on one process: equal to torch.optim.Muon, to loops over heads and experts, with its options."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_transformer import SmallTransformer, next_token_loss, token_batches
from torch import Tensor, nn

from etude.trainers.muon import COLUMNS, ROWS, Blocks, Division, Muon, divide, orthogonalize

LR = 0.02


def _train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 5) -> list[float]:
    losses = []
    for batch in token_batches(steps):
        optimizer.zero_grad()
        loss = next_token_loss(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _matrix_division(parameter: nn.Parameter, blocks: Blocks) -> list[Division]:
    return [Division("weight", parameter, blocks)]


@pytest.mark.parametrize(("scale", "torch_scale"), [("original", "original"), ("moonlight", "match_rms_adamw")])
@pytest.mark.parametrize("nesterov", [True, False])
def test_plain_matrices_have_the_bits_of_torch(scale: str, torch_scale: str, nesterov: bool) -> None:
    """torch's Muon divides its momentum by the norm in place when it is bfloat16 without Nesterov; float32 is right."""
    start = [torch.randn(shape, generator=torch.Generator().manual_seed(1)) for shape in [(24, 60), (60, 24), (32, 32)]]
    ours, theirs = [[nn.Parameter(each.clone()) for each in start] for _ in range(2)]
    divisions = [Division(str(place), each, Blocks()) for place, each in enumerate(ours)]
    optimizer = Muon(divisions, LR, scale=scale, coefficients="jordan", nesterov=nesterov)
    reference = torch.optim.Muon(theirs, LR, adjust_lr_fn=torch_scale, nesterov=nesterov)
    generator = torch.Generator().manual_seed(2)
    for _ in range(8):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape, generator=generator)
            other.grad = mine.grad.clone()
        optimizer.step()
        reference.step()
    assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))


def _heads(weight: Tensor, size: int) -> list[Tensor]:
    return list(weight.split(size, 0))


def _inputs(weight: Tensor, size: int) -> list[Tensor]:
    return list(weight.split(size, 1))


def _experts(weight: Tensor, size: int) -> list[Tensor]:
    return [half for expert in weight for half in expert.split(size, 0)]


@pytest.mark.parametrize(
    ("shape", "blocks", "parts"),
    [
        ((24, 20), Blocks("head", ROWS, (6,) * 4), lambda weight: _heads(weight, 6)),
        ((20, 24), Blocks("head", COLUMNS, (6,) * 4), lambda weight: _inputs(weight, 6)),
        ((5, 16, 12), Blocks("expert", ROWS, (8, 8)), lambda weight: _experts(weight, 8)),
        ((5, 16, 12), Blocks("expert"), lambda weight: list(weight)),
        ((5, 12, 16), Blocks("expert", COLUMNS, (8, 8)), lambda weight: [h for e in weight for h in _inputs(e, 8)]),
        ((18, 20), Blocks("head", ROWS, (4, 2) * 3), lambda w: list(w.split([4, 2] * 3, 0))),
    ],
)
def test_blocks_equal_a_loop(shape: tuple[int, ...], blocks: Blocks, parts: Callable[[Tensor], list[Tensor]]) -> None:
    weight = nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(3)))
    looped, momentum = weight.detach().clone(), torch.zeros(shape)
    optimizer = Muon(_matrix_division(weight, blocks), LR, dtype=torch.float32)
    generator = torch.Generator().manual_seed(4)
    for _ in range(4):
        gradient = torch.randn(shape, generator=generator)
        weight.grad = gradient.clone()
        optimizer.step()
        momentum.lerp_(gradient, 0.05)
        ahead = gradient.lerp(momentum, 0.95)
        for part, update in zip(parts(looped), parts(ahead), strict=True):
            factor = 0.2 * max(part.shape) ** 0.5
            part.mul_(1 - LR * 0.1).sub_(orthogonalize(update, dtype=torch.float32), alpha=LR * factor)
    torch.testing.assert_close(weight.detach(), looped, atol=1e-6, rtol=0)


def test_other_parameters_have_the_values_of_torch_adamw() -> None:
    ours, theirs = SmallTransformer(), SmallTransformer()
    divisions = divide(ours, {"*": "adamw"})
    optimizer = Muon(divisions, adamw_lr=LR, betas=(0.9, 0.99), weight_decay=0.2)
    _train(ours, optimizer)
    _train(theirs, torch.optim.AdamW(theirs.parameters(), LR, (0.9, 0.99), weight_decay=0.2))
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-7, rtol=0)


@pytest.mark.parametrize(
    "options",
    [{}, {"neuron_beta": 0.9}, {"cautious": True}, {"method": "gram"}, {"symmetric": True}, {"scale": "spectral"}],
)
def test_every_option_learns(options: dict[str, Any]) -> None:
    model = SmallTransformer()
    losses = _train(model, Muon(divide(model), 0.01, **options), 40)
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


@pytest.mark.parametrize("limit", [1, 300, 2**25])
def test_size_of_buckets_changes_nothing(limit: int) -> None:
    one, other = SmallTransformer(), SmallTransformer()
    _train(one, Muon(divide(one), LR, dtype=torch.float32))
    _train(other, Muon(divide(other), LR, dtype=torch.float32, bucket=limit))
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-6, rtol=0)


def test_cautious_decay_spares_weights_that_the_update_moves_outwards() -> None:
    weight = nn.Parameter(torch.tensor([[4.0, -4.0], [4.0, 4.0]]))
    start = weight.detach().clone()
    plain, cautious = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    gradient = torch.tensor([[1.0, 0.2], [-0.3, 1.0]])
    for parameter, flag in ((plain, False), (cautious, True)):
        parameter.grad = gradient.clone()
        Muon(_matrix_division(parameter, Blocks()), LR, weight_decay=0.5, cautious=flag).step()
    opposed = gradient.sign() != start.sign()
    decayed = (plain - cautious).detach()
    assert torch.equal(decayed != 0, opposed)


def test_neuron_normalization_evens_out_rows_and_keeps_the_norm() -> None:
    generator = torch.Generator().manual_seed(0)
    gradient = torch.randn(8, 64, generator=generator)
    gradient[1] = gradient[0] + 0.01 * gradient[1]  # rows that share a direction have small factors
    sizes = {}
    for beta in (None, 0.9):
        weight = nn.Parameter(torch.zeros(8, 64))
        weight.grad = gradient.clone()
        Muon(_matrix_division(weight, Blocks()), 1.0, weight_decay=0.0, neuron_beta=beta, dtype=torch.float32).step()
        sizes[beta] = weight.detach().norm(dim=1), weight.detach().norm()
    torch.testing.assert_close(sizes[None][1], sizes[0.9][1])
    assert sizes[0.9][0].std() < 1e-4 < sizes[None][0].std()


def test_learning_rate_may_be_a_tensor() -> None:
    one, other = SmallTransformer(), SmallTransformer()
    _train(one, Muon(divide(one), LR, dtype=torch.float32))
    _train(other, Muon(divide(other), torch.tensor(LR), dtype=torch.float32))
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)


def test_state_resumes_bit_equal() -> None:
    whole, half = SmallTransformer(), SmallTransformer()
    _train(whole, Muon(divide(whole), LR, neuron_beta=0.9), 6)
    first = Muon(divide(half), LR, neuron_beta=0.9)
    batches = token_batches(6)
    second = None
    for place, batch in enumerate(batches):
        if place == 3:
            second = Muon(divide(half), LR, neuron_beta=0.9)
            second.load_state_dict(first.state_dict())
        optimizer = second or first
        optimizer.zero_grad()
        next_token_loss(half, batch).backward()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), half.parameters(), strict=True))


@pytest.mark.parametrize("neuron_beta", [None, 0.9])
def test_parameter_without_a_gradient_is_not_changed(neuron_beta: float | None) -> None:
    model = SmallTransformer()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for changing in (model.lm_head.weight, model.layers[1].dense.weight):
        changing.grad = torch.ones_like(changing)
    Muon(divide(model), LR, neuron_beta=neuron_beta).step()
    changed = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    expected = ["layers.1.dense.weight", "lm_head.weight"]
    assert [
        name for (name, _), is_changed in zip(model.named_parameters(), changed, strict=True) if is_changed
    ] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -1.0}, "lr must be at least 0 and finite, got -1.0"),
        ({"lr": float("nan")}, "lr must be at least 0 and finite, got nan"),
        ({"adamw_lr": -1.0}, "adamw_lr must be at least 0 and finite, got -1.0"),
        ({"betas": (1.5, 0.9)}, r"betas must be at least 0 and less than 1, got \(1.5, 0.9\)"),
        ({"eps": -1.0}, "eps must not be negative, got -1.0"),
        ({"bucket": 0}, "bucket must be at least 1, got 0"),
        ({"momentum": 1.0}, "momentum must be at least 0 and less than 1, got 1.0"),
        ({"weight_decay": -0.1}, "weight_decay must not be negative, got -0.1"),
        ({"scale": "big"}, "unknown scale 'big'; choose one of moonlight, spectral, original"),
        ({"method": "svd"}, "unknown method 'svd'; choose one of direct, gram"),
        ({"coefficients": "x"}, "unknown coefficients 'x'; choose one of "),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"neuron_beta": 1.0}, "neuron_beta must be at least 0 and less than 1, got 1.0"),
    ],
)
def test_options_out_of_range_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Muon(divide(SmallTransformer()), **options)


def test_second_moments_of_bfloat16_weights_survive_a_checkpoint(tmp_path: Path) -> None:
    model = SmallTransformer().bfloat16()
    first = Muon(divide(model), LR, neuron_beta=0.9)
    _train(model, first, 2)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second = Muon(divide(model), LR, neuron_beta=0.9)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for weight, values in first.state.items():
        if "second_moment" in values:
            assert torch.equal(second.state[weight]["second_moment"], values["second_moment"])
    _train(model, second, 1)


def test_copy_of_an_optimizer_steps() -> None:
    model = SmallTransformer()
    optimizer = Muon(divide(model), LR)
    _train(model, optimizer, 1)
    both = copy.deepcopy({"model": model, "optimizer": optimizer})
    _train(model, optimizer, 2)
    _train(both["model"], both["optimizer"], 2)
    for mine, theirs in zip(model.parameters(), both["model"].parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_groups_can_be_added_with_the_options_of_the_first() -> None:
    model = SmallTransformer()
    divisions = divide(model)
    optimizer = Muon(divisions, LR)
    with pytest.raises(ValueError, match="a group needs an algorithm, muon or adamw, got None"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
    with pytest.raises(ValueError, match="parameters of a Muon group need blocks; divide the model first"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2, 2))], "algorithm": "muon"})
    assert len(optimizer.param_groups) == 2
    extra = nn.Parameter(torch.ones(3))
    optimizer.add_param_group({"params": extra, "algorithm": "adamw", "lr": 0.5})
    assert optimizer.param_groups[-1]["betas"] == (0.9, 0.95)
    extra.grad = torch.ones(3)
    optimizer.step()
    assert (extra < 1).all()


def test_package_needs_torch_alone() -> None:
    others = {"transformers", "trl", "datasets", "accelerate"}
    code = f"import sys, etude.trainers.muon; print(sorted({others} & {{*sys.modules}}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
