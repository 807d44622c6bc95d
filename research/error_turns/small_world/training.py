"""One run of one arm: a hundred updates, evaluated on the way on sessions that no run trains on."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from etude.research.error_turns.small_world import bases, language
from etude.research.error_turns.small_world.arms import ARMS, GROUP, GROUPS, Arm, learn, sampled
from etude.research.error_turns.small_world.language import TURNS, Tiny
from etude.trainers.distillation.divergence import divergence
from etude.trainers.distillation.teachers import Teacher

UPDATES, EVERY, HELD = 100, 10, 512
GUARD = 0.05
"""Nats of drift, above which a moving teacher is stopped; here it is only noted when that would have been."""
ROUNDING = 1e-6
"""Gradient norms below this are rounding (an empty hint leaves 1e-9; real ones are above 1e-4), and are no update:
AdamW would make whole steps of them."""


@torch.no_grad()
def error(model: Tiny, hint: bool = False) -> float:
    """On the held-out sessions; the same luck each time."""
    sessions = language.draw(HELD, language.stream("held out"))
    said = language.play(model, sessions, language.stream("luck"), sessions.listed(language.HINT) if hint else None)
    return 1 - float(language.works(sessions, said).float().mean())


@torch.no_grad()
def good_turn_kl(model: Tiny, first: Tiny) -> float | None:
    """KL(policy || base), nats a token, on the OK turns of the policy in a quarter of the sessions; None without."""
    sessions = language.draw(HELD // 4, language.stream("held out"))
    said = language.play(model, sessions, language.stream("luck"))
    good = language.works(sessions, said)
    if not good.any():
        return None
    ids = language.written(sessions, said)
    mine, theirs = (language.student_rows(each, ids)[good].flatten(0, 1) for each in (model, first))
    return float(divergence(mine, theirs, beta=1.0).mean())


class Probe:
    """How far the teacher is from its first self at hinted turns that are held for this, in nats a token."""

    @torch.no_grad()
    def __init__(self, first: Tiny) -> None:
        random = language.stream("probe")
        sessions = language.draw(32, random)
        self.ids = language.written(sessions, bases.mixed_agent(sessions, random))
        self.hints = sessions.listed(language.HINT)[:, None].expand(-1, TURNS, -1)
        self.first = language.hinted_rows(first, self.ids, self.hints).flatten(0, 2)

    @torch.no_grad()
    def drift(self, teacher: Tiny) -> float:
        return float(divergence(language.hinted_rows(teacher, self.ids, self.hints).flatten(0, 2), self.first).mean())


@dataclass
class Curve:
    """A run, at update 0 and at each evaluation: episodes, forward tokens, error and the teacher's drift."""

    episodes: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    drifts: list[float] = field(default_factory=list)
    broken: bool = False


def train(name: str, rate: float, seed: int, first: Tiny, *, updates: int = UPDATES) -> dict[str, Any]:
    """Return one run as a row of the result file. ``updates`` of an arm with ``times`` are that many times more."""
    arm, started = ARMS[name], time.process_time()
    random = language.stream("run", seed)
    model, probe = copy.deepcopy(first).train(), Probe(first)
    teacher = Teacher(arm.teacher, every=arm.every, rate=arm.rate)
    teacher.start(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    curve, tokens, changed = Curve(), 0, True
    last = updates * arm.times
    for number in range(last + 1):
        if due(number) or number == last:
            note(curve, number, tokens, model, arm, teacher, probe, changed)
            changed = False
        if number == last:
            break
        batch = sampled(model, random)
        signal = learn(arm, model, teacher, batch, random)
        tokens += batch.ids.shape[0] * (language.LENGTH - 1) + signal.tokens
        if signal.loss is None:
            continue
        optimizer.zero_grad()
        signal.loss.backward()
        if torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) < ROUNDING:
            continue
        optimizer.step()
        teacher.step(model, number + 1)
        changed = True
        curve.broken = curve.broken or not all(bool(value.isfinite().all()) for value in model.parameters())
        if curve.broken:
            lost(curve, number, last)
            break
    return row(name, rate, seed, curve, model, first) | {"cpu_seconds": round(time.process_time() - started, 2)}


def due(number: int) -> bool:
    """Evaluated after every tenth update, and after the hundredth, in longer runs, after every fiftieth."""
    return number % (EVERY if number <= UPDATES else 5 * EVERY) == 0


def lost(curve: Curve, number: int, last: int) -> None:
    """A run that is no number any more errs in every turn from its next evaluation on."""
    for at in sorted({min(last, number + EVERY), last}):
        curve.episodes.append(at * GROUPS * GROUP)
        curve.errors.append(1.0)
        curve.tokens.append(curve.tokens[-1])
        curve.drifts.extend(curve.drifts[-1:])


def note(
    curve: Curve, number: int, tokens: int, model: Tiny, arm: Arm, teacher: Teacher, probe: Probe, changed: bool
) -> None:
    """A model that has not changed since the last evaluation is as good as it was."""
    curve.episodes.append(number * GROUPS * GROUP)
    curve.tokens.append(tokens)
    curve.errors.append(round(error(model), 5) if changed else curve.errors[-1])
    if arm.hint and arm.teacher != "frozen":
        curve.drifts.append(round(probe.drift(teacher.model(model)), 5) if changed else curve.drifts[-1])


def row(name: str, rate: float, seed: int, curve: Curve, model: Tiny, first: Tiny) -> dict[str, Any]:
    kl, following = (None, None) if curve.broken else (good_turn_kl(model, first), bases.follows(model))
    return {
        "arm": name,
        "rate": rate,
        "seed": seed,
        "base": bases.digest(first),
        "broken": curve.broken,
        "episodes": curve.episodes,
        "tokens": curve.tokens,
        "errors": curve.errors,
        "drifts": curve.drifts,
        "good_turn_kl": None if kl is None else round(kl, 5),
        "follows": None if following is None else round(following, 5),
    }
