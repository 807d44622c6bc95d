"""Sources of hints: functions from an error turn to the text of a hint, or None.

``introspection`` and ``sibling`` know a better call and say it in the environment's own sentence, so that they differ
from each other in what they know, not in their wording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from etude.models import ErrorTurn
from etude.research.error_turns.worlds.world import World, calls_of
from etude.trainers.rollouts.rollout import Rollout

Source = Callable[[ErrorTurn, Rollout, Sequence[Rollout], World], str | None]
"""Returns a hint for an error turn of a rollout, which is one of the rollouts of a batch."""


def template(error: ErrorTurn, rollout: Rollout, batch: Sequence[Rollout], world: World) -> str | None:
    """Return the hint of the environment's own templates."""
    return error.hints[0].text if error.hints else None


def raw(error: ErrorTurn, rollout: Rollout, batch: Sequence[Rollout], world: World) -> str | None:
    """Return the text of the error itself."""
    return error.message


def introspection(error: ErrorTurn, rollout: Rollout, batch: Sequence[Rollout], world: World) -> str | None:
    """Return what the policy itself called in the next turn, right or wrong; None where it gave up.

    A model that only calls tools has no other words for what it learned from the error.
    """
    next_turn = calls_of(rollout)[error.turn + 1 :][:1]
    return next(_hints(error, (call for calls in next_turn for call in calls), world), None)


def sibling(error: ErrorTurn, rollout: Rollout, batch: Sequence[Rollout], world: World) -> str | None:
    """Return what the first solved rollout of the same task called in a turn that did not err; None without one.

    That rollout may be this one, in a later turn.
    """
    solved = (other for other in batch if other.task_id == rollout.task_id and other.reward.value >= 1)
    return next(_hints(error, (call for other in solved for call in good_calls(other)), world), None)


def good_calls(rollout: Rollout) -> Iterator[Mapping[str, Any]]:
    """Yield the calls of turns that did not err, in order."""
    for turn, calls in enumerate(calls_of(rollout)):
        if turn not in rollout.erring_turns:
            yield from calls


def _hints(error: ErrorTurn, calls: Iterator[Mapping[str, Any]], world: World) -> Iterator[str]:
    return (text for call in calls if (text := world.retold(error, call)))


SOURCES: dict[str, Source] = {"template": template, "raw": raw, "introspection": introspection, "sibling": sibling}
