"""Newton-Schulz iteration: equal to torch's, to the polar factor, batched, by Gram matrices, compiled."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from etude.trainers.muon import COEFFICIENTS, orthogonalize
from etude.trainers.muon.coefficients import newton_schulz_flops


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def _polar(matrices: Tensor) -> Tensor:
    u, _, v = torch.linalg.svd(matrices.double(), full_matrices=False)
    return (u @ v).float()


@pytest.mark.parametrize("shape", [(7, 24), (24, 7), (16, 16), (5, 12, 30)])
def test_exact_coefficients_give_the_polar_factor(shape: tuple[int, ...]) -> None:
    matrices = _random(*shape)
    result = orthogonalize(matrices, "exact", dtype=torch.float32)
    assert result.shape == matrices.shape
    torch.testing.assert_close(result, _polar(matrices), atol=2e-3, rtol=0)


@pytest.mark.parametrize(("name", "error"), [("polar_express", 0.13), ("jordan", 0.25), ("you", 0.06)])
def test_five_steps_stay_near_the_polar_factor(name: str, error: float) -> None:
    matrices = _random(64, 256)
    difference = orthogonalize(matrices, name, dtype=torch.float32) - _polar(matrices)
    assert difference.norm() / _polar(matrices).norm() < error


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(16, 40), (40, 16)])
def test_a_batch_gives_the_bits_of_single_matrices(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    matrices = _random(9, *shape)
    single = torch.stack([orthogonalize(each, dtype=dtype) for each in matrices])
    assert torch.equal(orthogonalize(matrices, dtype=dtype), single)


@pytest.mark.parametrize("name", list(COEFFICIENTS))
def test_gram_method_computes_the_same_polynomial(name: str) -> None:
    matrices = _random(3, 12, 48)
    direct = orthogonalize(matrices, name, dtype=torch.float64)
    torch.testing.assert_close(orthogonalize(matrices, name, method="gram", dtype=torch.float64), direct)


def test_gram_method_stays_bounded_on_a_steep_spectrum_of_tiny_gradients() -> None:
    u, _, v = torch.linalg.svd(_random(128, 512), full_matrices=False)
    steep = u @ torch.diag(torch.arange(1.0, 129.0) ** -1.0) @ v * 1e-9  # below the range of float16
    direct = orthogonalize(steep, dtype=torch.float32)
    gram = orthogonalize(steep, method="gram", dtype=torch.float16)
    assert (gram.float() - direct).norm() / direct.norm() < 0.02


@pytest.mark.parametrize("method", ["direct", "gram"])
def test_products_from_three_quarters_are_the_same(method: str) -> None:
    matrices = _random(2, 33, 40)
    halved = orthogonalize(matrices, method=method, symmetric=True, dtype=torch.float64)
    torch.testing.assert_close(halved, orthogonalize(matrices, method=method, dtype=torch.float64))


@pytest.mark.parametrize("method", ["direct", "gram"])
def test_zeros_stay_zeros(method: str) -> None:
    assert not orthogonalize(torch.zeros(2, 4, 8), method=method).any()


@pytest.mark.parametrize("gram", [False, True])
def test_flops_are_those_that_torch_counts(gram: bool) -> None:
    with FlopCounterMode(display=False) as counter:
        orthogonalize(_random(6, 10, 30), method="gram" if gram else "direct")
    assert counter.get_total_flops() == 6 * newton_schulz_flops(10, 30, gram=gram)


@pytest.mark.parametrize("method", ["direct", "gram"])
def test_the_iteration_compiles_without_a_break(method: str) -> None:
    compiled = torch.compile(orthogonalize, backend="aot_eager", fullgraph=True)
    matrices = _random(2, 8, 24)
    assert torch.equal(compiled(matrices, method=method), orthogonalize(matrices, method=method))


def test_unknown_names_are_errors() -> None:
    with pytest.raises(ValueError, match="unknown coefficients 'polar'; choose one of polar_express, "):
        orthogonalize(_random(2, 2), "polar")
    with pytest.raises(ValueError, match="unknown method 'qr'; choose one of direct, gram"):
        orthogonalize(_random(2, 2), method="qr")
    with pytest.raises(ValueError, match="the gram method diverges in bfloat16; use float16 or float32"):
        orthogonalize(_random(2, 2), method="gram", dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        orthogonalize(_random(2, 2), steps=0)
