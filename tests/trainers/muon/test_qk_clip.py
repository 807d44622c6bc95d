"""QK-clip: every logit of a head becomes gamma times what it was."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from etude.trainers.muon import clip_heads_, clip_latent_

HEADS, WIDTH, SIZE = 6, 20, 8


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def _heads(hidden: Tensor, weight: Tensor, bias: Tensor, heads: int) -> Tensor:
    return (hidden @ weight.T + bias).unflatten(-1, (-1, SIZE)).repeat_interleave(HEADS // heads, 1)


@pytest.mark.parametrize("keys", [6, 3, 1])
def test_logits_of_grouped_heads_shrink_by_gamma(keys: int) -> None:
    hidden = 4 * _random(12, WIDTH)
    query, key = nn.Parameter(_random(HEADS * SIZE, WIDTH)), nn.Parameter(_random(keys * SIZE, WIDTH))
    biases = _random(HEADS * SIZE), _random(keys * SIZE)

    def logits() -> Tensor:
        return torch.einsum(
            "thd,shd->hts", _heads(hidden, query, biases[0], HEADS), _heads(hidden, key, biases[1], keys)
        )

    before = logits().detach()
    largest = before.amax((1, 2))
    threshold = float(largest.median())
    gamma = clip_heads_(query, key, largest, threshold=threshold, biases=biases)
    assert (gamma < 1).any() and (gamma == 1).any()
    torch.testing.assert_close(logits().detach(), before * gamma[:, None, None], atol=1e-3, rtol=1e-5)
    assert logits().max() <= threshold * 1.0001


def test_logits_of_latent_attention_shrink_by_gamma() -> None:
    nope, rope, value, rank = 5, 3, 7, 11
    query, key_value = _random(HEADS * (nope + rope), rank), _random(HEADS * (nope + value), rank)
    hidden, rotary = _random(9, rank), _random(9, rope)
    values = key_value.unflatten(0, (HEADS, -1))[:, nope:].clone()

    def logits() -> Tensor:
        queries = (hidden @ query.T).unflatten(-1, (HEADS, -1))
        keys = (hidden @ key_value.T).unflatten(-1, (HEADS, -1))[..., :nope]
        return torch.einsum("thd,shd->hts", queries[..., :nope], keys) + torch.einsum(
            "thd,sd->hts", queries[..., nope:], rotary
        )

    before = logits()
    largest = before.amax((1, 2))
    gamma = clip_latent_(query, key_value, largest, nope=nope, rope=rope, value=value, threshold=float(largest.min()))
    torch.testing.assert_close(logits(), before * gamma[:, None, None], atol=1e-4, rtol=1e-5)
    assert torch.equal(key_value.unflatten(0, (HEADS, -1))[:, nope:], values)


def test_small_logits_change_nothing() -> None:
    query, key = _random(12, 4), _random(12, 4)
    before = query.clone(), key.clone()
    assert clip_heads_(query, key, torch.tensor([99.0, 3.0])).tolist() == [1.0, 1.0]
    assert torch.equal(query, before[0]) and torch.equal(key, before[1])


def test_heads_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ValueError, match=r"5 heads do not fit queries \(12, 4\) and keys \(12, 4\); pass one logit"):
        clip_heads_(_random(12, 4), _random(12, 4), torch.ones(5))
    with pytest.raises(ValueError, match="2 heads do not fit queries"):
        clip_latent_(_random(12, 4), _random(12, 4), torch.ones(2), nope=4, rope=2, value=3)
    with pytest.raises(ValueError, match="threshold must be positive, got 0"):
        clip_heads_(_random(12, 4), _random(12, 4), torch.ones(2), threshold=0)
