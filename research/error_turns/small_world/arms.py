"""The arms, and what each learns from one update's rollouts.

Shapes: B rollouts (4 sessions x 8), K = 8 turns, rows [B, K, 2, V] as in ``language``. The loss of an update is
a x Dr.GRPO + b x distillation with a = b = 1 where an arm has both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from etude.research.error_turns.small_world import language
from etude.research.error_turns.small_world.language import BEGINS, TURNS, Sessions, Tiny
from etude.trainers.distillation.divergence import divergence
from etude.trainers.distillation.teachers import Teacher

GROUPS, GROUP = 4, 8


@dataclass(frozen=True)
class Arm:
    """``reward``: sparse, dense, penalty or none. ``hint``: right, wrong, raw, null, none, or of ``hint_sources``.
    ``learns``: from the teacher's distribution, or from one of its samples that worked (sft). ``replay``: from pairs
    too; ``weight``: distillation's beside a reward; (A) has neither. ``where``: error, good (turns that did not err),
    or due, which (A) has not: those good ones at which the call that the hint speaks of is the next. ``teacher``,
    ``rate`` and ``every``: as ``trainers.teachers`` has them, in updates."""

    reward: str = ""
    hint: str = ""
    where: str = "error"
    learns: str = "distribution"
    teacher: str = "frozen"
    rate: float = 0.0
    every: int = 100
    gate: bool = False
    base: str = "strong"
    times: int = 1
    replay: bool = False
    weight: float = 1.0


_DISTILL = Arm(hint="right")
_TEACHERS = {
    "ema_05": replace(_DISTILL, teacher="ema", rate=0.05),
    "ema_001": replace(_DISTILL, teacher="ema", rate=0.001),
    "trust_region": replace(_DISTILL, teacher="trust_region", rate=0.05),
    "live": replace(_DISTILL, teacher="live"),
    "periodic": replace(_DISTILL, teacher="periodic", every=25),
}
ARMS: dict[str, Arm] = {
    "grpo_sparse": Arm("sparse"),
    "grpo_dense": Arm("dense"),
    "grpo_penalty": Arm("penalty"),
    "distill": _DISTILL,
    "sparse_distill": replace(_DISTILL, reward="sparse"),
    "dense_distill": replace(_DISTILL, reward="dense"),
    "raw_error": replace(_DISTILL, hint="raw"),
    "good_turn": replace(_DISTILL, where="good"),
    "sft_resample": replace(_DISTILL, learns="sample"),
    "wrong_hint": replace(_DISTILL, hint="wrong"),
    "null_hint": replace(_DISTILL, hint="null"),
    "gated": replace(_DISTILL, gate=True),
    **_TEACHERS,
    "weak_distill": replace(_DISTILL, base="weak"),
    **{f"weak_{name}": replace(arm, base="weak") for name, arm in _TEACHERS.items()},
    "weak_grpo_dense": Arm("dense", base="weak"),
    "weak_dense_distill": replace(_DISTILL, reward="dense", base="weak"),
    "grpo_dense_10x": Arm("dense", times=10),
}


@dataclass
class Batch:
    """One update's rollouts: ids [B, T], what was said [B, K, 2], which turns are OK [B, K]."""

    sessions: Sessions
    ids: Tensor
    said: Tensor
    ok: Tensor


@dataclass
class Signal:
    """A loss, or None where nothing is to be learned, and the tokens that were read for it beside the student's."""

    loss: Tensor | None = None
    tokens: int = 0


def sampled(model: Tiny, random: torch.Generator) -> Batch:
    sessions = language.draw(GROUPS, random).repeated(GROUP)
    said = language.play(model, sessions, random)
    return Batch(sessions, language.written(sessions, said), said, language.works(sessions, said))


def advantages(reward: str, ok: Tensor) -> Tensor:
    """For each turn, [B, K]: reward minus the group's mean; the penalty is centred over the group at its turn."""
    groups = ok.float().unflatten(0, (-1, GROUP))
    outcome = groups.mean(-1) if reward == "dense" else groups.prod(-1)
    found = (outcome - outcome.mean(1, keepdim=True))[..., None].expand_as(groups)
    if reward == "penalty":
        found = found + groups - groups.mean(1, keepdim=True)
    return found.flatten(0, 1)


def policy_loss(rows: Tensor, batch: Batch, advantage: Tensor) -> Tensor:
    """Dr.GRPO (arXiv:2503.20783) at its first step, where all ratios are 1: divided by B x the tokens of a session."""
    said = rows.log_softmax(-1).gather(-1, batch.said[..., None])[..., 0]
    return -(said * advantage[..., None]).sum() / said.numel()


def chosen_turns(arm: Arm, ok: Tensor, random: torch.Generator) -> Tensor:
    """Return which turns are sites, [B, K]: the erring ones, or as many random good ones, as far as there are."""
    if arm.where == "error":
        return ~ok
    order = torch.rand(ok.shape, generator=random).masked_fill(~ok, 2.0).argsort(1).argsort(1)
    return ok & (order < (~ok).sum(1, keepdim=True))


def hints(kind: str, sessions: Sessions, random: torch.Generator) -> Tensor:
    """Return the hint's ids, [B, H]."""
    if kind == "right":
        return sessions.listed(language.HINT)
    if kind == "wrong":
        return language.draw(len(sessions), random).listed(language.HINT)
    if kind == "raw":
        return torch.full((len(sessions), 1), language.ERR)
    return torch.zeros(len(sessions), 0, dtype=torch.long)


def hint_loss(arm: Arm, rows: Tensor, model: Tiny, teacher: Tiny, batch: Batch, random: torch.Generator) -> Signal:
    """sum over sites w_site sum over tokens D / N, with w = 1 / sites of the rollout and N = tokens of all sites."""
    turns = chosen_turns(arm, batch.ok, random)
    hint = hints(arm.hint, batch.sessions, random)
    some = turns.any(1)
    if not some.any():
        return Signal()
    turns, ids = turns[some], batch.ids[some]
    spliced = hint[some, None].expand(-1, TURNS, -1)
    with torch.no_grad():
        told = language.hinted_rows(teacher, ids, spliced)
    tokens = tokens_of_branches(turns, hint.shape[1])
    weights = (turns / turns.sum(1, keepdim=True))[..., None] / (2 * turns.sum())
    if arm.learns == "sample":
        better, kept = resampled(teacher, batch, some, told, spliced, random)
        own = language.hinted_rows(model, ids, spliced[..., :0], better[..., 0])
        loss = -own.log_softmax(-1).gather(-1, better[..., None])[..., 0]
        return Signal((loss * weights * kept[..., None]).sum(), tokens + tokens_of_branches(turns & kept, 0))
    mine = rows[some]
    if arm.gate:
        said = batch.said[some][..., None]
        gain = (mine.detach().log_softmax(-1) - told.log_softmax(-1)).gather(-1, said)[..., 0].sum(-1)
        weights = weights * (gain > 0)[..., None]
    each = divergence(mine.flatten(0, 2), told.flatten(0, 2)).view(mine.shape[:-1])
    return Signal((each * weights).sum(), tokens)


def resampled(
    teacher: Tiny, batch: Batch, some: Tensor, told: Tensor, spliced: Tensor, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return each turn said once more by the hinted teacher, [B, K, 2], and which of them work, [B, K]."""
    first = language.sample(told[:, :, 0], random)
    with torch.no_grad():
        second = language.hinted_rows(teacher, batch.ids[some], spliced, first)[:, :, 1]
    said = torch.stack([first, language.sample(second, random)], -1)
    whole = Sessions(*(part[some] for part in (batch.sessions.order, batch.sessions.tools, batch.sessions.asked)))
    return said, language.works(whole, said)


def tokens_of_branches(turns: Tensor, hint: int) -> int:
    """What a packed forward reads: each rollout's trunk up to its last site, and hint, AGENT and a token a site."""
    begins = torch.tensor(BEGINS) * turns
    return int(begins.max(1).values.sum() + (hint + 2) * turns.sum())


def learn(arm: Arm, model: Tiny, teacher: Teacher, batch: Batch, random: torch.Generator) -> Signal:
    advantage = advantages(arm.reward, batch.ok) if arm.reward else None
    rewarded = advantage is not None and bool((advantage != 0).any())
    if not rewarded and not arm.hint:
        return Signal()
    rows = language.student_rows(model, batch.ids)
    total = Signal(tokens=batch.ids.shape[0] * (language.LENGTH - 1))
    if advantage is not None and rewarded:
        total.loss = policy_loss(rows, batch, advantage)
    if arm.hint:
        taught = hint_loss(arm, rows, model, teacher.model(model), batch, random)
        total.tokens += taught.tokens
        if taught.loss is not None:
            total.loss = taught.loss if total.loss is None else total.loss + taught.loss
    return total
