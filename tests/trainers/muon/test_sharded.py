"""Muon on several ranks: the parameters of one process, nothing computed twice, nothing sent that need not be."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.ranks import run_on_ranks
from helpers.sharded_training import MESHES, count, load, save, train
from helpers.small_transformer import SmallTransformer, token_batches
from torch import Tensor

from etude.trainers.muon import divide
from etude.trainers.muon.coefficients import newton_schulz_flops

SHARDED = [name for name, ranks in MESHES.items() if ranks > 1]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "neurons": {"neuron_beta": 0.9, "cautious": True},
    "small buckets": {"bucket": 400, "method": "gram", "dtype": torch.float64},
}
TOLERANCES = {torch.float32: 2e-6, torch.float64: 1e-12}


@cache
def _single(options: str) -> dict[str, Tensor]:
    return train("one", OPTIONS[options])


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mesh", SHARDED)
def test_sharded_training_has_the_parameters_of_one_process(mesh: str, options: str, tmp_path: Path) -> None:
    for parameters in run_on_ranks(MESHES[mesh], train, tmp_path, mesh, OPTIONS[options]):
        for name, expected in _single(options).items():
            torch.testing.assert_close(parameters[name], expected, atol=TOLERANCES[expected.dtype], rtol=0)


@pytest.mark.parametrize("mesh", ["hsdp2x2", "dual"])
def test_replicas_have_the_same_bits_in_sixteen_bits(mesh: str, tmp_path: Path) -> None:
    results = run_on_ranks(MESHES[mesh], train, tmp_path, mesh, {"dtype": None, "method": "gram"}, 3)
    for other in results[1:]:
        assert all(torch.equal(results[0][name], other[name]) for name in other)


@pytest.mark.parametrize("mesh", SHARDED)
def test_no_matrix_is_orthogonalized_twice(mesh: str, tmp_path: Path) -> None:
    expected = 0
    for division in divide(SmallTransformer()):
        if division.blocks is not None:
            shape = tuple(division.parameter.shape)
            for run in division.blocks.runs(shape):
                stack = shape[0] if len(shape) == 3 else 1
                expected += run.number * stack * newton_schulz_flops(*run.shape(shape))
    counts = run_on_ranks(MESHES[mesh], count, tmp_path, mesh)
    assert sum(flops for _, flops in counts) == expected
    assert max(flops for _, flops in counts) < 1.6 * expected / MESHES[mesh]


def _cut_elements(names: tuple[str, ...]) -> int:
    return sum(
        each.parameter.numel() for each in divide(SmallTransformer()) if each.blocks and each.name.endswith(names)
    )


def test_whole_experts_travel_nowhere(tmp_path: Path) -> None:
    """With 8 experts on 8 ranks only dense matrices are sent, each at most to its owner and back."""
    dense = _cut_elements(("_proj.weight", "dense.weight"))
    sent = sum(each for each, _ in run_on_ranks(8, count, tmp_path, "cp2xep8"))
    assert 0 < sent <= 2 * dense * 4


@pytest.mark.parametrize(("first", "second"), [
    ("hsdp2x2", "fsdp2"),
    ("fsdp2", "hsdp2x4"),
    ("one", "fsdp4"),
    ("cp2xep8", "one"),
    ("dual", "fsdp8"),
    ("ep4xfsdp2", "cp2xep8"),
    ("fsdp8", "ep4xfsdp2"),
])  # fmt: skip
def test_checkpoints_move_between_meshes_exactly(first: str, second: str, tmp_path: Path) -> None:
    options, folder = {"neuron_beta": 0.9}, tmp_path / "checkpoint"
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    saved = run_on_ranks(MESHES[first], save, ranks, first, options, folder)
    batches = token_batches(4)[3:]
    loaded = run_on_ranks(MESHES[second], load, ranks, second, options, folder, batches)
    expected = train("one", options, 4)
    for parameters, state, after in loaded:
        assert parameters.keys() == saved[0][0].keys() and state.keys() == saved[0][1].keys()
        assert all(torch.equal(parameters[name], value) for name, value in saved[0][0].items())
        assert all(torch.equal(state[name], value) for name, value in saved[0][1].items())
        for name, value in expected.items():
            torch.testing.assert_close(after[name], value, atol=2e-6, rtol=0)
