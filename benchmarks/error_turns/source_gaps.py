"""How far hints of each source move a base that was not trained yet, at its own error turns.

Of each turn that erred and each source: the divergence of the next-token distributions with the hint and without (what
distillation lowers), by how much the hint makes the failed turn less likely, and by how much the right one more likely.
A source that says nothing of a turn moves nothing there.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from etude.benchmarks.error_turns.hint_sources import SOURCES
from etude.benchmarks.error_turns.stack_arms import ArmTrainer
from etude.benchmarks.error_turns.worlds import calls_of
from etude.hints.chooser import Logged, context_of, fit
from etude.models import ErrorTurn
from etude.trainers.distillation import Distiller, Settings
from etude.trainers.rollouts import Rollout
from etude.trainers.sites import Site

MOVED = ("divergence", "failed", "right")
WRONG, LEARNED = "wrong", "learned"
_OPEN = Settings(gate=False)


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
    """Of the policy as it is: ``group`` episodes of each task, all sources at each error turn."""
    trainer.model.eval()
    torch.manual_seed(0)
    played = trainer.play([{"task_id": name} for name in tasks for _ in range(group)])
    return [gap for place, rollout in enumerate(played) for gap in _of_rollout(trainer, rollout, place, played)]


def _of_rollout(trainer: ArmTrainer, rollout: Rollout, place: int, played: Sequence[Rollout]) -> Iterator[Gap]:
    firsts = {error.turn: error for error in reversed(rollout.error_turns) if error.hints and not error.injected}
    for turn, error in sorted(firsts.items()):
        for source, text in _texts(trainer, error, rollout, place, played).items():
            site = _site(trainer, rollout, error, text)
            moved = _moved(trainer, rollout, site) if site else dict.fromkeys(MOVED, 0.0)
            known = rollout.task_id, place, turn, error.kind, source, site is not None
            yield Gap(*known, **moved, context=context_of(error, rollout.error_turns))


def _texts(
    trainer: ArmTrainer, error: ErrorTurn, rollout: Rollout, place: int, played: Sequence[Rollout]
) -> dict[str, str | None]:
    others = [told for other in played if other.task_id != rollout.task_id for _, told in trainer._of_its_task(other)]
    chance = random.Random(f"wrong {place} {error.turn}")
    found = {name: source(error, rollout, played, trainer.world) for name, source in SOURCES.items()}
    return {**found, WRONG: chance.choice(others) if others else None}


def _site(trainer: ArmTrainer, rollout: Rollout, error: ErrorTurn, text: str | None) -> Site | None:
    inserted = trainer._chat.insert_for(rollout, error.turn, text) if text else None
    if inserted is None:
        return None
    span = rollout.turns[error.turn]
    return Site(error.turn, error.kind, span.begin - inserted.back, span.start, span.end, inserted.ids)


def _moved(trainer: ArmTrainer, rollout: Rollout, site: Site) -> dict[str, float]:
    right = [*rollout.ids[: site.start], *_right(trainer, rollout, site)]
    failed = _measured(trainer, rollout, site)
    gained = _measured(trainer, replace(rollout, ids=right), replace(site, end=len(right)))
    return {
        "divergence": failed["divergence"] / failed["tokens"],
        "failed": failed["teacher_gain"],
        "right": -gained["teacher_gain"],
    }


def _measured(trainer: ArmTrainer, rollout: Rollout, site: Site) -> dict[str, float]:
    model: Any = trainer.model
    with torch.no_grad():
        return Distiller(_OPEN).loss(model, model, [(replace(rollout, logprobs=[]), [site])]).metrics


def _right(trainer: ArmTrainer, rollout: Rollout, site: Site) -> list[int]:
    """The ids of the call that leads on from before this turn."""
    made = [
        {"tool_calls": [{"function": {**call, "arguments": json.dumps(call["arguments"])}} for call in calls]}
        for calls in calls_of(rollout)[: site.turn]
    ]
    name, arguments = trainer.world.knows().right(rollout.task_id, made)
    call = {"id": "call_0", "type": "function", "function": {"name": name, "arguments": arguments}}
    turn = {"role": "assistant", "content": "", "tool_calls": [call]}
    opening = rollout.ids[rollout.turns[site.turn].begin : site.start]
    ids: list[int] = trainer._chat.turn(turn, opening)
    return ids


# --- which source to take ----------------------------------------------------------------------------------------


def learned(found: Sequence[Gap]) -> list[Gap]:
    """What ``hints.chooser`` takes at each turn, by what the right turn gained at those of the other half of the tasks.
    Wrong hints are no choice."""
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
    return Logged(gap.context, tuple(SOURCES), gap.source, 1 / len(SOURCES), gap.right, f"{gap.task} {gap.place}")


def _by_turn(found: Sequence[Gap]) -> list[list[Gap]]:
    turns: dict[tuple[int, int], list[Gap]] = {}
    for gap in found:
        turns.setdefault((gap.place, gap.turn), []).append(gap)
    return list(turns.values())


def as_rows(found: Sequence[Gap]) -> list[dict[str, Any]]:
    return [asdict(gap) for gap in found]
