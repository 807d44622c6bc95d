"""Where a hint may come from.

A source says something of an error turn, or nothing. ``introspection`` and ``sibling`` know a better call, and say it
in one sentence of the environment's, so that these two differ in what they know and not in how they put it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from etude.models import ErrorTurn
from etude.research.error_turns.worlds.world import World, calls_of
from etude.trainers.rollouts.rollout import Rollout

Source = Callable[[ErrorTurn, Rollout, Sequence[Rollout], World], str | None]
"""Of an error turn of a rollout, among the rollouts of its batch."""


def template(error: ErrorTurn, rollout: Rollout, batch: Sequence[Rollout], world: World) -> str | None:
    """Return what the environment's own rules say."""
    return error.hints[0].text if error.hints else None


def raw(error: ErrorTurn, rollout: Rollout, batch: Sequence[Rollout], world: World) -> str | None:
    """Return the error's own text."""
    return error.message


def introspection(error: ErrorTurn, rollout: Rollout, batch: Sequence[Rollout], world: World) -> str | None:
    """Return what the policy itself did once it had read the error: right or wrong, and none where it gave up.

    A model that only calls tools has no other words for what it found out.
    """
    later = calls_of(rollout)[error.turn + 1 :][:1]
    return next(_told(error, (call for calls in later for call in calls), world), None)


def sibling(error: ErrorTurn, rollout: Rollout, batch: Sequence[Rollout], world: World) -> str | None:
    """What a solved rollout of the same task did in a turn that did not err (the first that has such a call; it may be
    this one, later on); none where none is solved."""
    solved = (other for other in batch if other.task_id == rollout.task_id and other.reward.value >= 1)
    return next(_told(error, (call for other in solved for call in good_calls(other)), world), None)


def good_calls(rollout: Rollout) -> Iterator[Mapping[str, Any]]:
    """Those of turns that did not err, in order."""
    for turn, calls in enumerate(calls_of(rollout)):
        if turn not in rollout.erring_turns:
            yield from calls


def _told(error: ErrorTurn, calls: Iterator[Mapping[str, Any]], world: World) -> Iterator[str]:
    return (text for call in calls if (text := world.retold(error, call)))


SOURCES: dict[str, Source] = {"template": template, "raw": raw, "introspection": introspection, "sibling": sibling}
