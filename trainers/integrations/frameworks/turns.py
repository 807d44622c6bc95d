"""Conversions that the adapters share: a message to an action, an outcome to annotations, credit for each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ....models import ErrorTurn, Observation
from ..episodes import Outcome
from ..sessions import Sessions

T = TypeVar("T")


def action_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return an assistant's message of OpenAI's chat format as an action; malformed calls stay as they are."""
    return {"text": message.get("content"), "tool_calls": message.get("tool_calls") or []}


def inspect_action(message: Any) -> dict[str, Any]:
    """Return inspect_ai's ``ChatMessageAssistant`` as an action; arguments that it could not parse stay malformed."""
    calls = [(call.id, call.function, call.parse_error or call.arguments) for call in message.tool_calls or []]
    named = [{"id": id_, "name": name, "arguments": arguments} for id_, name, arguments in calls]
    return {"text": message.text, "tool_calls": named}


def messages_of(observation: Observation) -> list[dict[str, Any]]:
    """Return the messages that the environment answers a turn with."""
    return [message.model_dump(exclude_none=True) for message in observation.messages]


def turn_rewards(error_turns: Sequence[ErrorTurn], turns: int) -> list[float]:
    """Return -1.0 for each turn with an error that the agent could have foreseen, and 0.0 for all others.

    Injected errors and those of the site ``recovery`` do not count. The grade of the episode is not included.
    """
    erring = {error.turn for error in error_turns if not error.injected and error.site != "recovery"}
    return [-1.0 if turn in erring else 0.0 for turn in range(turns)]


def annotations_of(outcome: Outcome) -> dict[str, Any]:
    """Return what the trainer may read, and the policy must not, as JSON values; without a score ``valid`` is False."""
    return {
        "task_id": outcome.task_id,
        "episode_id": outcome.episode_id,
        "valid": outcome.reward is not None,
        "reward": outcome.reward,
        "reward_components": outcome.components,
        "end": outcome.end,
        "problem": outcome.problem,
        "turn_rewards": turn_rewards(outcome.error_turns, outcome.turns),
        "error_turns": [error.model_dump(mode="json") for error in outcome.error_turns],
        "findings": [finding.model_dump(mode="json") for finding in outcome.findings],
    }


async def on_sessions(sessions: Sessions, call: Coroutine[Any, Any, T]) -> T:
    """Await ``call`` on the loop of ``sessions``, from any other asyncio loop; cancelling it cancels the call."""
    return await asyncio.wrap_future(sessions.submit(call))
