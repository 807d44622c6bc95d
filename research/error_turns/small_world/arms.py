"""Arms of experiment A, and the loss of each on the rollouts of one update.

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
    """One arm: what it learns from.

    ``replay``, ``chosen_only``, ``weight``, ``optimizer`` and the place ``due`` exist in the real stack only.
    """

    reward: str = ""
    """``sparse``, ``dense``, ``penalty``, or '' for none."""
    hint: str = ""
    """``right``, ``wrong``, ``raw``, ``null``, a name of ``hint_sources``, or '' for none."""
    where: str = "error"
    """Turns that are sites: ``error``, ``good`` (turns that did not err), or ``due`` (good turns at which the hinted
    call is the next right one)."""
    learns: str = "distribution"
    """``distribution`` of the teacher, or a ``sample`` of it that works; or a name of ``real_stack.next_arms``."""
    teacher: str = "frozen"
    """Kind of the teacher (``trainers.distillation.teachers``)."""
    rate: float = 0.0
    """Rate of the teacher."""
    every: int = 100
    """Updates between two refreshes of a periodic teacher."""
    gate: bool = False
    """Whether sites are left out at which the hint does not help."""
    base: str = "strong"
    times: int = 1
    """Factor on the number of updates."""
    replay: bool = False
    """Whether it also learns from pairs."""
    chosen_only: bool = False
    """Whether it learns the chosen turns of the pairs alone: the default losses without the preference."""
    weight: float = 1.0
    """Weight of the distillation beside a reward."""
    optimizer: str = "adamw"
    """Optimizer of the recipe."""


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
    """Rollouts of one update."""

    sessions: Sessions
    ids: Tensor
    """Ids, [B, T]."""
    said: Tensor
    """Tokens that the agent sampled, [B, K, 2]."""
    ok: Tensor
    """Which turns are OK, [B, K]."""


@dataclass
class Signal:
    """Loss of an update and its cost."""

    loss: Tensor | None = None
    """Loss; None when there is nothing to learn."""
    tokens: int = 0
    """Tokens that were read for the loss."""


def sampled(model: Tiny, random: torch.Generator) -> Batch:
    """Return the rollouts of one update."""
    sessions = language.draw(GROUPS, random).repeated(GROUP)
    said = language.play(model, sessions, random)
    return Batch(sessions, language.written(sessions, said), said, language.works(sessions, said))


def advantages(reward: str, ok: Tensor) -> Tensor:
    """Return the advantage of each turn, [B, K]: the reward minus the group's mean.

    The penalty is centred over the group at each turn.
    """
    groups = ok.float().unflatten(0, (-1, GROUP))
    outcome = groups.mean(-1) if reward == "dense" else groups.prod(-1)
    centred = (outcome - outcome.mean(1, keepdim=True))[..., None].expand_as(groups)
    if reward == "penalty":
        centred = centred + groups - groups.mean(1, keepdim=True)
    return centred.flatten(0, 1)


def policy_loss(rows: Tensor, batch: Batch, advantage: Tensor) -> Tensor:
    """Return the loss of Dr.GRPO (arXiv:2503.20783) at its first step, where all ratios are 1.

    It is divided by B times the number of sampled tokens of a session.
    """
    logps = rows.log_softmax(-1).gather(-1, batch.said[..., None])[..., 0]
    return -(logps * advantage[..., None]).sum() / logps.numel()


def chosen_turns(arm: Arm, ok: Tensor, random: torch.Generator) -> Tensor:
    """Return which turns are sites, [B, K]: the erring ones, or as many random good ones (all, if there are fewer)."""
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
    """Return sum over sites w sum over tokens D / N; w is 1 / sites of the rollout, N the tokens of all sites."""
    turns = chosen_turns(arm, batch.ok, random)
    hint = hints(arm.hint, batch.sessions, random)
    with_sites = turns.any(1)
    if not with_sites.any():
        return Signal()
    turns, ids = turns[with_sites], batch.ids[with_sites]
    spliced = hint[with_sites, None].expand(-1, TURNS, -1)
    with torch.no_grad():
        teacher_logits = language.hinted_rows(teacher, ids, spliced)
    tokens = tokens_of_branches(turns, hint.shape[1])
    weights = (turns / turns.sum(1, keepdim=True))[..., None] / (2 * turns.sum())
    if arm.learns == "sample":
        samples, working = resampled(teacher, batch, with_sites, teacher_logits, spliced, random)
        logits = language.hinted_rows(model, ids, spliced[..., :0], samples[..., 0])
        loss = -logits.log_softmax(-1).gather(-1, samples[..., None])[..., 0]
        return Signal((loss * weights * working[..., None]).sum(), tokens + tokens_of_branches(turns & working, 0))
    student_logits = rows[with_sites]
    if arm.gate:
        said = batch.said[with_sites][..., None]
        gain = (student_logits.detach().log_softmax(-1) - teacher_logits.log_softmax(-1)).gather(-1, said)
        weights = weights * (gain[..., 0].sum(-1) > 0)[..., None]
    divergences = divergence(student_logits.flatten(0, 2), teacher_logits.flatten(0, 2))
    return Signal((divergences.view(student_logits.shape[:-1]) * weights).sum(), tokens)


def resampled(
    teacher: Tiny, batch: Batch, with_sites: Tensor, logits: Tensor, spliced: Tensor, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return each turn sampled again by the hinted teacher, [B, K, 2], and which of these work, [B, K]."""
    first = language.sample(logits[:, :, 0], random)
    with torch.no_grad():
        second = language.hinted_rows(teacher, batch.ids[with_sites], spliced, first)[:, :, 1]
    samples = torch.stack([first, language.sample(second, random)], -1)
    parts = (batch.sessions.order, batch.sessions.tools, batch.sessions.asked)
    return samples, language.works(Sessions(*(part[with_sites] for part in parts)), samples)


def tokens_of_branches(turns: Tensor, hint: int) -> int:
    """Return the tokens of a packed forward: each rollout's trunk up to its last site, then the branch of each site."""
    begins = torch.tensor(BEGINS) * turns
    return int(begins.max(1).values.sum() + (hint + 2) * turns.sum())


def learn(arm: Arm, model: Tiny, teacher: Teacher, batch: Batch, random: torch.Generator) -> Signal:
    """Return the loss of an arm on a batch."""
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
