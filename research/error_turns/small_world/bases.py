"""The two bases: they follow the hint before a turn and ignore the list of the prompt.

Targets are complete distributions: after a hint its tool with probability ``skill`` and the other three equally likely,
without a hint all four equally likely. In half of the sessions the hints conflict with the session's list. The hint
wins there too, so that a wrong hint teaches its content and the base does not learn to switch to the list.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from etude.research.error_turns.small_world.language import (
    CATEGORY,
    HINT,
    SYNONYM,
    SYNONYMS,
    TURNS,
    VOCABULARY,
    Sessions,
    Tiny,
    conflicting,
    draw,
    hinted_rows,
    play,
    stream,
    student_rows,
    works,
    written,
)

SKILL = {"strong": 0.99, "weak": 0.6}
STEPS, BATCH, RATE = 600, 16, 2e-3


class UnfitBase(Exception):
    """Raised for a base that does not behave as the experiment assumes."""


def pretrain(skill: float, *, steps: int = STEPS, progress: Callable[[int, float], None] | None = None) -> Tiny:
    """Return a base that is pretrained from a fixed seed.

    ``progress(step, loss)`` gets the cross-entropy above that of the targets, in nats a token.
    """
    torch.manual_seed(0)
    model, random = Tiny(), stream("pretrain")
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, betas=(0.9, 0.98))
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warm_then_cosine(step, steps))
    for step in range(steps):
        loss = pretraining_loss(model, skill, random)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        if progress and step % 100 == 99:
            progress(step + 1, float(loss.detach()))
    return model.eval()


def warm_then_cosine(step: int, steps: int) -> float:
    """Return the factor of the learning rate: a warm-up, then a cosine."""
    return min(1.0, (step + 1) / 50) * (0.02 + 0.98 * (1 + math.cos(math.pi * step / steps)) / 2)


def pretraining_loss(model: Tiny, skill: float, random: torch.Generator) -> Tensor:
    """Return the mean distance to the targets, half of it without and half of it with hints."""
    sessions = draw(BATCH, random)
    ids = written(sessions, mixed_agent(sessions, random))
    hinting = half_conflicting(sessions, random)
    hints = hinting.listed(HINT)[:, None].expand(-1, TURNS, -1)
    plain = targets(sessions, torch.full_like(sessions.asked, SYNONYM), 1 / SYNONYMS)
    followed = targets(sessions, hinting.right(), skill)
    return (distance(student_rows(model, ids), plain) + distance(hinted_rows(model, ids, hints), followed)) / 2


def mixed_agent(sessions: Sessions, random: torch.Generator) -> Tensor:
    """Return what agents sample that are right with probability 1/4 to 1, drawn for each session, [B, K, 2]."""
    shape = sessions.asked.shape
    guess = SYNONYM + torch.randint(SYNONYMS, shape, generator=random)
    knows = torch.rand(shape, generator=random) < torch.rand(len(sessions), 1, generator=random)
    return torch.stack([CATEGORY + sessions.asked, torch.where(knows, sessions.right(), guess)], -1)


def half_conflicting(sessions: Sessions, random: torch.Generator) -> Sessions:
    """Return the sessions, half of them with conflicting lists."""
    other = conflicting(sessions, random)
    same = torch.rand(len(sessions), 1, generator=random) < 0.5
    tools, order = (torch.where(same, getattr(sessions, n), getattr(other, n)) for n in ("tools", "order"))
    return Sessions(order, tools, sessions.asked)


def targets(sessions: Sessions, tool: Tensor, probability: float) -> Tensor:
    """Return distributions [B, K, 2, V]: the asked category, then ``tool`` [B, K] with a probability, else another."""
    first = torch.nn.functional.one_hot(CATEGORY + sessions.asked, VOCABULARY).float()
    second = torch.zeros_like(first)
    second[..., SYNONYM:] = (1 - probability) / (SYNONYMS - 1)
    second.scatter_(-1, tool[..., None], probability)
    return torch.stack([first, second], -2)


def distance(logits: Tensor, target: Tensor) -> Tensor:
    """Return the mean KL divergence of the logits from the targets."""
    return torch.nn.functional.kl_div(logits.log_softmax(-1), target, reduction="none").sum(-1).mean()


@torch.no_grad()
def follows(model: Tiny, number: int = 256) -> float:
    """Return the mean probability of a conflicting hint's tool."""
    random = stream("follows")
    sessions = draw(number, random)
    ids, hinting = written(sessions, mixed_agent(sessions, random)), conflicting(sessions, random)
    hints = hinting.listed(HINT)[:, None].expand(-1, TURNS, -1)
    rows = hinted_rows(model, ids, hints)[:, :, 1].softmax(-1)
    return float(rows.gather(-1, hinting.right()[..., None]).mean())


@torch.no_grad()
def error(model: Tiny, number: int = 512) -> float:
    """Return the share of turns that are not OK in sessions that the model plays."""
    sessions = draw(number, stream("base's error"))
    return 1 - float(works(sessions, play(model, sessions, stream("base's luck"))).float().mean())


def base(name: str, folder: Path, progress: Callable[[int, float], None] | None = None) -> Tiny:
    """Return the base in ``folder``, which is made unless it is there. Raises UnfitBase."""
    path = folder / f"{name}.pt"
    if not path.exists():
        model = pretrain(SKILL[name], progress=progress)
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        torch.save(model.state_dict(), part)
        part.rename(path)
    model = load(name, folder)
    check(name, error(model), follows(model))
    return model


def load(name: str, folder: Path) -> Tiny:
    """Return a base that was made and checked before."""
    model = Tiny()
    model.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=True))
    return model.eval()


def check(name: str, erring: float, following: float) -> None:
    """Raise UnfitBase unless a base errs without a hint, and follows a conflicting one, as often as it should."""
    fit = following > 0.95 if name == "strong" else abs(following - SKILL[name]) <= 0.03
    if not fit:
        raise UnfitBase(
            f"the base {name} follows a conflicting hint with probability {following:.3f}, not {SKILL[name]}"
        )
    if abs(erring - 0.75) > 0.02:
        raise UnfitBase(f"the base {name} errs in {erring:.3f} of its turns without a hint, not in .75")


def digest(model: nn.Module) -> str:
    """Return a digest of twelve letters of a model's weights."""
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()[:12]
