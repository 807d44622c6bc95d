"""A language of sixteen tokens and a transformer that speaks it: the smallest world in which a hint can teach.

A session is ``LIST c s c s ...`` (six categories in random order, each with one of four tools) and eight turns
``ASK c AGENT c s OK|ERR``; the agent samples the two tokens after AGENT. A hint goes before AGENT, where
``etude.trainers.distillation.distill_sites`` puts it. Every session has the same length, so that batches need no
padding. Shapes: B sessions, T = 61 ids, K = 8 turns, V = 16.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from etude.trainers.distillation.distill_sites import Site

CATEGORIES, SYNONYMS, TURNS = 6, 4, 8
LIST, HINT, ASK, AGENT, OK, ERR = range(6)
CATEGORY = 6
SYNONYM = CATEGORY + CATEGORIES
VOCABULARY = SYNONYM + SYNONYMS
PROMPT = 1 + 2 * CATEGORIES
TURN = 6
LENGTH = PROMPT + TURNS * TURN
BEGINS = tuple(PROMPT + TURN * turn + 2 for turn in range(TURNS))
"""Position of each turn's AGENT (``Span.begin``); the sampled turn is the two ids after it."""

Cache = list[tuple[Tensor, Tensor]]


def stream(*names: object) -> torch.Generator:
    """Return a generator of random numbers that is seeded by these names alone."""
    digest = hashlib.sha256(repr(names).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


@dataclass(frozen=True)
class Sessions:
    """B sessions: their lists, and the categories that are asked for."""

    order: Tensor
    """Categories in the order of the list, [B, 6]."""
    tools: Tensor
    """Tool of each category, [B, 6]."""
    asked: Tensor
    """Category asked for at each turn, [B, K]."""

    def __len__(self) -> int:
        return self.order.shape[0]

    def repeated(self, times: int) -> Sessions:
        """Return each session ``times`` times in a row: a group."""
        return Sessions(*(part.repeat_interleave(times, 0) for part in (self.order, self.tools, self.asked)))

    def right(self) -> Tensor:
        """Return the right tool's token at each turn, [B, K]."""
        return SYNONYM + self.tools.gather(1, self.asked)

    def listed(self, first: int) -> Tensor:
        """Return the list after the token ``first``, [B, 13]."""
        pairs = torch.stack([CATEGORY + self.order, SYNONYM + self.tools.gather(1, self.order)], -1)
        return torch.cat([torch.full((len(self), 1), first), pairs.flatten(1)], 1)


def draw(number: int, random: torch.Generator) -> Sessions:
    """Return random sessions."""
    order = torch.rand(number, CATEGORIES, generator=random).argsort(1)
    tools = torch.randint(SYNONYMS, (number, CATEGORIES), generator=random)
    return Sessions(order, tools, torch.randint(CATEGORIES, (number, TURNS), generator=random))


def conflicting(sessions: Sessions, random: torch.Generator) -> Sessions:
    """Return sessions with other lists, in which every category has another tool."""
    order = torch.rand(sessions.order.shape, generator=random).argsort(1)
    shift = torch.randint(1, SYNONYMS, sessions.tools.shape, generator=random)
    return Sessions(order, (sessions.tools + shift) % SYNONYMS, sessions.asked)


def written(sessions: Sessions, said: Tensor) -> Tensor:
    """Return the ids [B, T] of sessions in which the agent samples ``said`` [B, K, 2]."""
    category = CATEGORY + sessions.asked
    verdict = torch.where(works(sessions, said), OK, ERR)
    ask, agent = torch.full_like(category, ASK), torch.full_like(category, AGENT)
    turns = torch.stack([ask, category, agent, said[..., 0], said[..., 1], verdict], -1)
    return torch.cat([sessions.listed(LIST), turns.flatten(1)], 1)


def works(sessions: Sessions, said: Tensor) -> Tensor:
    """Return which turns are OK, [B, K]."""
    return (said[..., 0] == CATEGORY + sessions.asked) & (said[..., 1] == sessions.right())


def site(turn: int, hint: list[int]) -> Site:
    """Return the place of a turn in the ids, as the trainer describes it."""
    begin = BEGINS[turn]
    return Site(turn=turn, kind="nonzero_exit", at=begin, start=begin + 1, end=begin + 3, hint=hint)


class Tiny(nn.Module):
    """A decoder with RMSNorm, rotary positions and untied embeddings; 150,000 parameters at the default size."""

    def __init__(self, width: int = 64, layers: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: Cache | None = None) -> Tensor:
        """Return the logits [B, N, V] of ids [B, N], and extend the cache.

        ``mask`` [N, past + N] is True where a position is attended to.
        """
        hidden, turned = self.embed(ids), rotary(positions)
        for number, block in enumerate(self.blocks):
            past = cache[number] if cache is not None and number < len(cache) else None
            hidden, keys_values = block(hidden, mask, turned, past)
            if cache is not None:
                cache[number : number + 1] = [keys_values]
        logits: Tensor = self.head(self.norm(hidden))
        return logits


class Block(nn.Module):
    """One transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self, hidden: Tensor, mask: Tensor, turned: tuple[Tensor, Tensor], past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        split = self.qkv(self.before(hidden)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = rotate(split[0], turned), rotate(split[1], turned), split[2]
        if past is not None:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        hidden = hidden + self.out(attended.transpose(1, 2).flatten(2))
        return hidden + self.down(nn.functional.gelu(self.up(self.between(hidden)))), (key, value)


def rotary(positions: Tensor, size: int = 16) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the rotary angles of positions."""
    angles = positions[:, None] / 10_000 ** (torch.arange(0, size, 2) / size)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, turned: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate the halves of the last dimension by the angles of ``rotary``."""
    (one, two), (cos, sin) = x.chunk(2, -1), turned
    return torch.cat([one * cos - two * sin, two * cos + one * sin], -1)


@functools.cache
def causal(length: int) -> Tensor:
    """Return the causal attention mask [length, length]."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def student_rows(model: Tiny, ids: Tensor) -> Tensor:
    """Return the logits [B, K, 2, V] that predict the two tokens of each turn along the original session."""
    length = BEGINS[-1] + 2
    logits = model(ids[:, :length], causal(length), torch.arange(length))
    return logits[:, [[begin, begin + 1] for begin in BEGINS]]


@functools.cache
def packing(hint: int) -> tuple[Tensor, Tensor]:
    """Return mask and positions of a trunk with one branch for each turn: ``hint`` ids, AGENT and the first token."""
    trunk, size = BEGINS[-1], hint + 2
    length = trunk + TURNS * size
    mask, positions = torch.zeros(length, length, dtype=torch.bool), torch.arange(length)
    mask[:trunk, :trunk] = causal(trunk)
    for turn, begin in enumerate(BEGINS):
        own = slice(trunk + turn * size, trunk + (turn + 1) * size)
        mask[own, :begin], mask[own, own] = True, causal(size)
        positions[own] = torch.arange(begin, begin + size)
    return mask, positions


def hinted_rows(model: Tiny, ids: Tensor, hints: Tensor, first: Tensor | None = None) -> Tensor:
    """Return the rows of ``student_rows`` with each turn's hint [B, K, H] before it, each on the original prefix.

    ``first`` [B, K] replaces the first token of each turn in ``ids``.
    """
    agent = torch.full((*hints.shape[:2], 1), AGENT)
    said = ids[:, [begin + 1 for begin in BEGINS]] if first is None else first
    branches = torch.cat([hints, agent, said[..., None]], -1)
    mask, positions = packing(hints.shape[-1])
    logits = model(torch.cat([ids[:, : BEGINS[-1]], branches.flatten(1)], 1), mask, positions)
    return logits[:, BEGINS[-1] :].unflatten(1, (TURNS, -1))[:, :, -2:]


def sample(logits: Tensor, random: torch.Generator) -> Tensor:
    """Return one token for each row, at temperature 1."""
    flat = logits.softmax(-1).flatten(0, -2)
    return torch.multinomial(flat, 1, generator=random).view(logits.shape[:-1])


@torch.no_grad()
def play(model: Tiny, sessions: Sessions, random: torch.Generator, hint: Tensor | None = None) -> Tensor:
    """Return the tokens that the agent samples, [B, K, 2]. Each turn alone has the ``hint`` [B, H] before it."""
    cache: Cache = []
    chunk, read, said = sessions.listed(LIST), 0, []
    for turn in range(TURNS):
        asked = CATEGORY + sessions.asked[:, turn : turn + 1]
        chunk = torch.cat([chunk, torch.full_like(asked, ASK), asked], 1)
        extend(model, chunk, cache, read)
        read += chunk.shape[1]
        agent = torch.full_like(asked, AGENT)
        before, branch = (agent, cache) if hint is None else (torch.cat([hint, agent], 1), list(cache))
        first = sample(extend(model, before, branch, read)[:, -1:], random)
        second = sample(extend(model, first, branch, read + before.shape[1]), random)
        said.append(torch.cat([first, second], 1))
        good = (first == asked) & (second[:, :1] == sessions.right()[:, turn : turn + 1])
        verdict = torch.where(good, OK, ERR)
        if hint is None:
            chunk, read = torch.cat([second, verdict], 1), read + 2
        else:
            chunk = torch.cat([agent, first, second, verdict], 1)
    return torch.stack(said, 1)


def extend(model: Tiny, ids: Tensor, cache: Cache, past: int) -> Tensor:
    """Return the logits of more ids after a cache of ``past`` ids, which is extended."""
    length = past + ids.shape[1]
    logits: Tensor = model(ids, causal(length)[past:], torch.arange(past, length), cache)
    return logits
