"""Gaps: how far the hints of each source move an untrained base at its own error turns.

Three numbers are measured for each error turn and each source: the divergence between the next-token distributions with
and without the hint (which distillation lowers), how much less likely the hint makes the failed turn, and how much more
likely it makes the right one. All three are 0 where a source has no hint.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from etude.environments.hint_trials.hint_policy import context_of
from etude.models import ErrorTurn
from etude.research.error_turns.hints.hint_sources import SOURCES
from etude.research.error_turns.real_stack.arm_trainer import ArmTrainer
from etude.research.error_turns.worlds.world import due
from etude.research.hint_chooser.chooser import Logged, fit
from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.distiller import Distiller, Settings
from etude.trainers.rollouts.rollout import Rollout

MOVED = ("divergence", "failed", "right")
WRONG, LEARNED = "wrong", "learned"


@dataclass(frozen=True)
class Gap:
    """Effect of one source's hint at one error turn; one line of a file of gaps."""

    task: str
    place: int
    """Number of the rollout."""
    turn: int
    kind: str
    """Kind of the error."""
    source: str
    told: bool
    """Whether the source had a hint."""
    divergence: float
    """Generalised Jensen-Shannon divergence at beta 0.5 in nats a token, averaged over the failed turn."""
    failed: float
    """Log-probability that the failed turn loses, in nats."""
    right: float
    """Log-probability that the right turn gains, in nats."""
    context: Mapping[str, str]
    """Features that a learned chooser may see."""


def gaps(trainer: ArmTrainer, tasks: Sequence[str], group: int) -> list[Gap]:
    """Play ``group`` episodes of each task with the current policy, and measure all sources at each error turn.

    As many tasks as in an update are played together; wrong hints come from the other tasks among them.
    """
    trainer.model.eval()
    torch.manual_seed(0)
    measure, measured = _Measure(trainer), list[Gap]()
    for start in range(0, len(tasks), trainer.world.prompts):
        batch = tasks[start : start + trainer.world.prompts]
        played = trainer.play([{"task_id": name} for name in batch for _ in range(group)])
        for place, rollout in enumerate(played, start * group):
            measured += measure.rollout(rollout, place, played)
    return measured


class _Measure:
    def __init__(self, trainer: ArmTrainer) -> None:
        self._trainer, self._chat = trainer, trainer._chat
        self._distiller, self._knows = Distiller(Settings(gate=False)), trainer.world.knows()

    def rollout(self, rollout: Rollout, place: int, played: Sequence[Rollout]) -> Iterator[Gap]:
        """Yield the gaps at each turn with an error that the environment has a hint for, at its first such error."""
        firsts = {error.turn: error for error in reversed(rollout.error_turns) if error.hints and not error.injected}
        for turn, error in sorted(firsts.items()):
            right = self._right(rollout, turn)
            for source, text in self._texts(error, rollout, place, played).items():
                site = self._site(rollout, error, text)
                moved = self._moved(rollout, site, right) if site else dict.fromkeys(MOVED, 0.0)
                place_of_gap = rollout.task_id, place, turn, error.kind, source, site is not None
                yield Gap(*place_of_gap, **moved, context=context_of(error, rollout.error_turns))

    def _texts(
        self, error: ErrorTurn, rollout: Rollout, place: int, played: Sequence[Rollout]
    ) -> dict[str, str | None]:
        hints = [hint for other in played for hint in self._trainer._task_hints(other)]
        others = [text for task, text in hints if task != rollout.task_id]
        rng = random.Random(f"wrong {place} {error.turn}")
        texts = {name: source(error, rollout, played, self._trainer.world) for name, source in SOURCES.items()}
        return {**texts, WRONG: rng.choice(others) if others else None}

    def _site(self, rollout: Rollout, error: ErrorTurn, text: str | None) -> Site | None:
        span = rollout.turns[error.turn]
        inserted = self._chat.insert_for(rollout, error.turn, text) if text and span.start < span.end else None
        if inserted is None:
            return None
        return Site(error.turn, error.kind, span.begin - inserted.back, span.start, span.end, inserted.ids)

    def _moved(self, rollout: Rollout, site: Site, right: list[int]) -> dict[str, float]:
        instead = [*rollout.ids[: site.start], *right]
        failed = self._measured(rollout, site)
        gained = self._measured(replace(rollout, ids=instead), replace(site, end=len(instead)))
        return {
            "divergence": failed["divergence"] / failed["tokens"],
            "failed": failed["teacher_gain"],
            "right": -gained["teacher_gain"],
        }

    def _measured(self, rollout: Rollout, site: Site) -> dict[str, float]:
        model: Any = self._trainer.model
        with torch.no_grad():
            return self._distiller.loss(model, model, [(replace(rollout, logprobs=[]), [site])]).metrics

    def _right(self, rollout: Rollout, turn: int) -> list[int]:
        """Return the ids of the right call in the state before this turn."""
        name, arguments = due(self._knows, rollout, turn)
        call = {"id": "call_0", "type": "function", "function": {"name": name, "arguments": arguments}}
        span = rollout.turns[turn]
        opening = rollout.ids[span.begin : span.start]
        ids: list[int] = self._chat.turn({"role": "assistant", "content": "", "tool_calls": [call]}, opening)
        return ids


# --- the learned choice among sources ----------------------------------------------------------------------------


def learned(gaps: Sequence[Gap]) -> list[Gap]:
    """Return the gap of the source that a learned chooser takes at each error turn.

    For each half of the tasks the chooser is fitted on the other half, to the gain of the right turn. Wrong hints are
    not among its choices.
    """
    choices = [gap for gap in gaps if gap.source != WRONG]
    half = {name: number % 2 for number, name in enumerate(sorted({gap.task for gap in gaps}))}
    chosen = []
    for side in (0, 1):
        chooser = fit([_logged(gap) for gap in choices if half[gap.task] != side and gap.told])
        for turn in _by_turn([gap for gap in choices if half[gap.task] == side]):
            arms = {gap.source: gap for gap in turn if gap.told}
            best = arms[chooser.best(turn[0].context, list(arms))] if arms else turn[0]
            chosen.append(replace(best, source=LEARNED))
    return chosen


def _logged(gap: Gap) -> Logged:
    return Logged(gap.context, tuple(SOURCES), gap.source, 1 / len(SOURCES), gap.right, gap.task)


def _by_turn(gaps: Sequence[Gap]) -> list[list[Gap]]:
    turns: dict[tuple[int, int], list[Gap]] = {}
    for gap in gaps:
        turns.setdefault((gap.place, gap.turn), []).append(gap)
    return list(turns.values())
