"""A transformer of two layers with grouped-query heads, stacked experts and sizes that divide by nothing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY, WIDTH, HEADS, KEYS, HEAD, EXPERTS, INNER = 17, 20, 3, 1, 6, 8, 10


class Attention(nn.Module):
    """Causal grouped-query attention. With ``gather`` each rank has a part of the sequence (context parallel)."""

    def __init__(self) -> None:
        super().__init__()
        self.head_dim = HEAD
        self.q_proj = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k_proj = nn.Linear(WIDTH, KEYS * HEAD, bias=False)
        self.v_proj = nn.Linear(WIDTH, KEYS * HEAD, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.gather = lambda tensor: (tensor, 0)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the attention's output [B, T, D]."""
        queries = self.q_proj(hidden).unflatten(-1, (HEADS, HEAD))
        keys, first = self.gather(self.k_proj(hidden).unflatten(-1, (KEYS, HEAD)))
        values, _ = self.gather(self.v_proj(hidden).unflatten(-1, (KEYS, HEAD)))
        keys, values = (each.repeat_interleave(HEADS // KEYS, 2) for each in (keys, values))
        positions = torch.arange(queries.size(1))[:, None] + first
        mask = positions >= torch.arange(keys.size(1))
        heads = [each.transpose(1, 2) for each in (queries, keys, values)]
        return self.o_proj(F.scaled_dot_product_attention(*heads, attn_mask=mask).transpose(1, 2).flatten(2))


class Experts(nn.Module):
    """Stacked experts that all see every token. With ``exchange`` each rank has some of them (expert parallel)."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(EXPERTS, 2 * INNER, WIDTH) * 0.2)
        self.down_proj = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) * 0.2)
        self.exchange = lambda compute, hidden: compute(hidden)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the sum of all experts [B, T, D]."""
        return self.exchange(self._own, hidden)

    def _own(self, hidden: Tensor) -> Tensor:
        up, down = (getattr(each, "to_local", lambda each=each: each)() for each in (self.gate_up_proj, self.down_proj))
        gate, value = torch.einsum("btd,efd->ebtf", hidden, up).chunk(2, -1)
        return torch.einsum("ebtf,edf->btd", F.silu(gate) * value, down)


class Layer(nn.Module):
    """Attention, experts and a dense layer with a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.experts, self.dense = Attention(), Experts(), nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return hidden states [B, T, D]."""
        hidden = hidden + self.attention(hidden)
        hidden = hidden + self.experts(hidden)
        return hidden + torch.tanh(self.dense(hidden))


class SmallTransformer(nn.Module):
    """Causal language model with the same weights every time."""

    def __init__(self) -> None:
        super().__init__()
        state = torch.get_rng_state()
        torch.manual_seed(0)
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        torch.set_rng_state(state)

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits [B, T, V]."""
        hidden = self.embed_tokens(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(hidden)


def token_batches(steps: int) -> list[Tensor]:
    """Return batches of token ids [8, 9], in which each token depends on the one before."""
    generator = torch.Generator().manual_seed(5)
    batches = []
    for _ in range(steps):
        ids = torch.randint(0, VOCABULARY, (8, 1), generator=generator)
        for _ in range(8):
            ids = torch.cat([ids, (3 * ids[:, -1:] + 1) % VOCABULARY], 1)
        batches.append(ids)
    return batches


def next_token_loss(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the mean cross-entropy of the next tokens."""
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
