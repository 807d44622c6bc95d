"""Effort of an episode and its nonlinear penalty in the reward, as in the report on Composer 2 (arXiv:2603.24477).

The effort x of an episode is a weighted sum of counts. Its penalty is ``weight * C(x)`` with the concave

    C_{k,q}(x) = ((1 + k x)^(1 - q) - 1) / (k (1 - q)),    at q = 1 its limit log(1 + k x) / k.

C(x) is about x for small x, and its slope (1 + k x)^-q falls: one more call costs an easy task, which takes few, more
than a hard one, which takes many. The report names the counts; the weights, k and q of a recipe are ours. The penalty
also falls on episodes that fail, so one that is too heavy teaches to give up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from ..recipe.effort import Effort
from ..rollouts.rollout import Rollout

Decode = Callable[[Sequence[int]], str]
"""Returns ids as text, special tokens included."""
_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class Counts:
    """Effort of one episode, by kind. Every sampled token is of a thought, of a call or of a message."""

    thinking_tokens: int = 0
    """Sampled tokens of thoughts, tags included."""
    call_tokens: int = 0
    """Sampled tokens of tool calls, the end of their turn included, and words after the first call of a turn."""
    output_tokens: int = 0
    """Tokens between two turns: results of tools as the chat template writes them. The last result is never read."""
    message_tokens: int = 0
    """All other sampled tokens: the words before a call, and turns without a call."""
    calls: int = 0
    """Tool calls, malformed ones included."""
    turns: int = 0
    """Sampled turns."""


def count_effort(rollout: Rollout, decode: Decode) -> Counts:
    """Return the effort of an episode. No text is tokenised: borders between tokens come from decoded prefixes."""
    turns = [message for message in rollout.messages if message["role"] == "assistant"]
    thinking = calling = words = calls = 0
    for span, turn in zip(rollout.turns, turns, strict=True):
        ids, turn_calls = rollout.ids[span.start : span.end], turn.get("tool_calls") or []
        thought, before_call = _thought_and_words(ids, str(turn.get("text") or ""), bool(turn_calls), decode)
        thinking += thought
        words += before_call
        calling += len(ids) - thought - before_call
        calls += len(turn_calls)
    sampled = thinking + calling + words
    outputs = len(rollout.ids) - rollout.prompt - sampled
    return Counts(thinking, calling, outputs, words, calls, len(rollout.turns))


def _thought_and_words(ids: Sequence[int], text: str, has_call: bool, decode: Decode) -> tuple[int, int]:
    """Return the numbers of tokens of a turn's thought and of its words before a call. ``text`` holds both."""
    text, thought = text.strip(), 0
    if text.startswith(_OPEN):
        thought = _shortest_prefix(ids, lambda prefix: _CLOSE in decode(prefix))
        text = text.partition(_CLOSE)[2].strip()
    remaining = ids[thought:]
    if not has_call:
        return thought, len(remaining)
    before = bool(text) and decode(remaining).lstrip().startswith(text)
    return thought, _shortest_prefix(
        remaining, lambda prefix: decode(prefix).lstrip().startswith(text)
    ) if before else 0


def _shortest_prefix(ids: Sequence[int], holds: Callable[[Sequence[int]], bool]) -> int:
    """Return the length of the shortest prefix for which ``holds`` is true, as it is for all longer ones; else all."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(ids[:middle]) else (middle + 1, high)
    return low


def nonlinear_cost(x: float, k: float, q: float) -> float:
    """Return C_{k,q}(x) for x >= 0, k > 0 and q >= 0; it has the unit of x, and C(0) = 0."""
    log = math.log1p(k * x)
    return log / k if q == 1 else math.expm1((1 - q) * log) / (k * (1 - q))


def effort_penalty(counts: Counts, effort: Effort) -> float:
    """Return what the effort adds to the reward, 0 or less."""
    x = sum(weight * getattr(counts, name) for name, weight in effort.weights().items())
    return -effort.weight * nonlinear_cost(x, effort.k, effort.q)


@dataclass(frozen=True)
class EffortPenalties:
    """Penalties of a batch of episodes."""

    penalties: list[float]
    """What each rollout's effort adds to its reward; 0 for an invalid episode, and for all while the penalty is off."""
    metrics: dict[str, float]
    """Means over the valid episodes of all ranks; empty while the penalty is off."""


def effort_penalties(
    rollouts: Sequence[Rollout],
    effort: Effort,
    decode: Decode,
    sum_counts: Callable[[Sequence[float]], Sequence[float]] = list,
) -> EffortPenalties:
    """Return the penalties of this rank's rollouts; nothing is counted while the weight is 0.

    ``sum_counts`` adds the numbers of other ranks to those of this one.
    """
    if not effort.weight:
        return EffortPenalties([0.0] * len(rollouts), {})
    counts = [count_effort(rollout, decode) if rollout.reward.valid else None for rollout in rollouts]
    penalties = [0.0 if count is None else effort_penalty(count, effort) for count in counts]
    valid = [asdict(count) for count in counts if count is not None]
    sums = {name: sum(count[name] for count in valid) for name in asdict(Counts())}
    sums["penalty"], sums["tokens"] = (
        sum(penalties),
        sum(sums[f"{kind}_tokens"] for kind in ("thinking", "call", "message")),
    )
    episodes, *totals = sum_counts([len(valid), *sums.values()])
    means = {f"effort/{name}": total / max(episodes, 1) for name, total in zip(sums, totals, strict=True)}
    return EffortPenalties(penalties, means)
