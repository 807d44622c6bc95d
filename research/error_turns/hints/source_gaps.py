"""How far hints of each source move a base that was not trained yet, at its own error turns.

Of each turn that erred and each source: the divergence of the next-token distributions with the hint and without (what
distillation lowers), by how much the hint makes the failed turn less likely, and by how much the right one more likely.
A source that says nothing of a turn moves nothing there.
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
    """At one error turn. ``divergence``: generalised JSD at 0.5, nats a token, its mean over the failed turn;
    ``failed`` and ``right``: nats that the failed turn loses, and the right one gains. ``told``: whether there was a
    hint. ``context``: what a learned choice may see."""

    task: str
    place: int
    turn: int
    kind: str
    source: str
    told: bool
    divergence: float
    failed: float
    right: float
    context: Mapping[str, str]


def gaps(trainer: ArmTrainer, tasks: Sequence[str], group: int) -> list[Gap]:
    """Of the policy as it is: ``group`` episodes of each task, all sources at each error turn. So many tasks are played
    at once as in an update; hints that are wrong come from these."""
    trainer.model.eval()
    torch.manual_seed(0)
    measure, found = _Measure(trainer), list[Gap]()
    for start in range(0, len(tasks), trainer.world.prompts):
        some = tasks[start : start + trainer.world.prompts]
        played = trainer.play([{"task_id": name} for name in some for _ in range(group)])
        for place, rollout in enumerate(played, start * group):
            found += measure.rollout(rollout, place, played)
    return found


class _Measure:
    def __init__(self, trainer: ArmTrainer) -> None:
        self._trainer, self._chat = trainer, trainer._chat
        self._distiller, self._knows = Distiller(Settings(gate=False)), trainer.world.knows()

    def rollout(self, rollout: Rollout, place: int, played: Sequence[Rollout]) -> Iterator[Gap]:
        """At each turn that erred and has a hint of the environment's: the first such error of the turn."""
        firsts = {error.turn: error for error in reversed(rollout.error_turns) if error.hints and not error.injected}
        for turn, error in sorted(firsts.items()):
            right = self._right(rollout, turn)
            for source, text in self._texts(error, rollout, place, played).items():
                site = self._site(rollout, error, text)
                moved = self._moved(rollout, site, right) if site else dict.fromkeys(MOVED, 0.0)
                known = rollout.task_id, place, turn, error.kind, source, site is not None
                yield Gap(*known, **moved, context=context_of(error, rollout.error_turns))

    def _texts(
        self, error: ErrorTurn, rollout: Rollout, place: int, played: Sequence[Rollout]
    ) -> dict[str, str | None]:
        hints = [hint for other in played for hint in self._trainer._of_its_task(other)]
        others = [text for task, text in hints if task != rollout.task_id]
        chance = random.Random(f"wrong {place} {error.turn}")
        found = {name: source(error, rollout, played, self._trainer.world) for name, source in SOURCES.items()}
        return {**found, WRONG: chance.choice(others) if others else None}

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
        """Return the ids of the call that leads on from before this turn."""
        name, arguments = due(self._knows, rollout, turn)
        call = {"id": "call_0", "type": "function", "function": {"name": name, "arguments": arguments}}
        span = rollout.turns[turn]
        opening = rollout.ids[span.begin : span.start]
        ids: list[int] = self._chat.turn({"role": "assistant", "content": "", "tool_calls": [call]}, opening)
        return ids


# --- which source to take ----------------------------------------------------------------------------------------


def learned(found: Sequence[Gap]) -> list[Gap]:
    """Return what the learned chooser takes at each turn, by what the right turn gained in the other half of the tasks.

    Wrong hints are not a choice.
    """
    names = sorted({gap.task for gap in found})
    half = {name: number % 2 for number, name in enumerate(names)}
    choices = [_chosen([gap for gap in found if half[gap.task] != side], side, found, half) for side in (0, 1)]
    return [gap for side in choices for gap in side]


def _chosen(seen: Sequence[Gap], side: int, found: Sequence[Gap], half: Mapping[str, int]) -> list[Gap]:
    chooser = fit([_logged(gap) for gap in seen if gap.told and gap.source != WRONG])
    taken = []
    for turn in _by_turn([gap for gap in found if half[gap.task] == side and gap.source != WRONG]):
        arms = {gap.source: gap for gap in turn if gap.told}
        best = arms[chooser.best(turn[0].context, list(arms))] if arms else turn[0]
        taken.append(replace(best, source=LEARNED))
    return taken


def _logged(gap: Gap) -> Logged:
    return Logged(gap.context, tuple(SOURCES), gap.source, 1 / len(SOURCES), gap.right, gap.task)


def _by_turn(found: Sequence[Gap]) -> list[list[Gap]]:
    turns: dict[tuple[int, int], list[Gap]] = {}
    for gap in found:
        turns.setdefault((gap.place, gap.turn), []).append(gap)
    return list(turns.values())
