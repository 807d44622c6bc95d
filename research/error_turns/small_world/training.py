"""One run of one arm: a hundred updates, with evaluations on sessions that no run trains on."""

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
"""Drift in nats at which a guard would stop a moving teacher; the runs go beyond it, and only note where it is."""
ROUNDING = 1e-6
"""Gradient norms below this are rounding errors (an empty hint gives 1e-9; real ones are above 1e-4). They make no
update, because AdamW would make full steps of them."""


@torch.no_grad()
def error(model: Tiny, hint: bool = False) -> float:
    """Return the error on the held-out sessions, sampled from the same seed each time."""
    sessions = language.draw(HELD, language.stream("held out"))
    said = language.play(model, sessions, language.stream("luck"), sessions.listed(language.HINT) if hint else None)
    return 1 - float(language.works(sessions, said).float().mean())


@torch.no_grad()
def good_turn_kl(model: Tiny, first: Tiny) -> float | None:
    """Return KL(policy || base) in nats a token on OK turns in a quarter of the sessions; None without such turns."""
    sessions = language.draw(HELD // 4, language.stream("held out"))
    said = language.play(model, sessions, language.stream("luck"))
    good = language.works(sessions, said)
    if not good.any():
        return None
    ids = language.written(sessions, said)
    policy, base = (language.student_rows(each_model, ids)[good].flatten(0, 1) for each_model in (model, first))
    return float(divergence(policy, base, beta=1.0).mean())


class Probe:
    """Drift of the teacher: its divergence from its first weights at fixed hinted turns, in nats a token."""

    @torch.no_grad()
    def __init__(self, first: Tiny) -> None:
        random = language.stream("probe")
        sessions = language.draw(32, random)
        self.ids = language.written(sessions, bases.mixed_agent(sessions, random))
        self.hints = sessions.listed(language.HINT)[:, None].expand(-1, TURNS, -1)
        self.first = language.hinted_rows(first, self.ids, self.hints).flatten(0, 2)

    @torch.no_grad()
    def drift(self, teacher: Tiny) -> float:
        """Return the drift of the teacher's current weights."""
        return float(divergence(language.hinted_rows(teacher, self.ids, self.hints).flatten(0, 2), self.first).mean())


@dataclass
class Curve:
    """Episodes, forward tokens, error and the teacher's drift at update 0 and at each evaluation."""

    episodes: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    drifts: list[float] = field(default_factory=list)
    broken: bool = False


def train(name: str, rate: float, seed: int, first: Tiny, *, updates: int = UPDATES) -> dict[str, Any]:
    """Train one arm and return its row of the result file; the arm makes ``arm.times`` times ``updates`` updates."""
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
    """Return whether an evaluation is due: after every tenth update, and from the hundredth on after every fiftieth."""
    return number % (EVERY if number <= UPDATES else 5 * EVERY) == 0


def lost(curve: Curve, number: int, last: int) -> None:
    """Record that a run whose weights became NaN errs in every turn from its next evaluation on."""
    for update in sorted({min(last, number + EVERY), last}):
        curve.episodes.append(update * GROUPS * GROUP)
        curve.errors.append(1.0)
        curve.tokens.append(curve.tokens[-1])
        curve.drifts.extend(curve.drifts[-1:])


def note(
    curve: Curve, number: int, tokens: int, model: Tiny, arm: Arm, teacher: Teacher, probe: Probe, changed: bool
) -> None:
    """Add an evaluation to the curve; one of an unchanged model repeats the last values."""
    curve.episodes.append(number * GROUPS * GROUP)
    curve.tokens.append(tokens)
    curve.errors.append(round(error(model), 5) if changed else curve.errors[-1])
    if arm.hint and arm.teacher != "frozen":
        curve.drifts.append(round(probe.drift(teacher.model(model)), 5) if changed else curve.drifts[-1])


def row(name: str, rate: float, seed: int, curve: Curve, model: Tiny, first: Tiny) -> dict[str, Any]:
    """Return a run as a row of the result file."""
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
