"""An episode that another framework's loop plays, call by call: its session, its turns and its outcome.

Failures on the way are data: an episode whose session is lost, or whose machine fails, has no reward.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...client import Client
from ...errors import ConnectionLost, ServerError, ServerFull, ServerInfrastructureError
from ...models import ErrorTurn, Finding, Observation, Reward, State
from .sessions import Sessions

OVER = "not run: episode ended"
_SUBMIT = {"tool_calls": [{"id": "end", "name": "submit", "arguments": {}}]}

logger = logging.getLogger(__name__)


@dataclass
class Outcome:
    """Result of an episode; ``reward`` is None until it ends, and stays None without a valid score."""

    task_id: str = ""
    episode_id: str = ""
    reward: float | None = None
    components: dict[str, float] = field(default_factory=dict)
    end: str | None = None
    error_turns: list[ErrorTurn] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    turns: int = 0
    problem: str = ""


class Episode:
    """One episode after another; each gives its session back once it has its reward.

    Coroutines run on the loop of ``sessions``, one at a time.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._client: Client | None = None
        self.over = True
        self.outcome = Outcome()

    async def begin(self, arguments: Mapping[str, Any], *, wait: bool = False) -> Observation:
        """Reset the environment and return the first observation.

        A lost session, or a failed machine, costs one more try in a new session. When the machine fails again, the
        episode is void: over, without a reward, and the observation is empty. ``wait``: when the server is full, wait
        for another of ``sessions`` to end, as long as one is in use; do not use it to begin several episodes before
        the first one is played.

        Raises ConnectionLost when the new session is lost too, ServerFull, and ServerError for other refusals.
        """
        while True:
            ended = self._sessions.ended
            try:
                return await self._begin(arguments)
            except ServerFull:
                if not (wait and await self._sessions.wait_for_end(ended)):
                    raise

    async def _begin(self, arguments: Mapping[str, Any]) -> Observation:
        self.over, self.outcome = True, Outcome()
        try:
            first = await self._reset(arguments, fresh=False)
        except (ConnectionLost, ServerInfrastructureError):
            try:
                first = await self._reset(arguments, fresh=True)
            except ServerInfrastructureError as error:
                self._void(error)
                return Observation(done=True)
        self.over = first.done
        return first

    async def play_calls(self, calls: Sequence[tuple[str, Any]]) -> list[str]:
        """Play one turn of (name, arguments) calls and return a result for each; server errors become results.

        Further messages of the environment are appended to the last result.
        """
        if self.over or self._client is None:
            return [OVER] * len(calls)
        tool_calls = [
            {"id": f"c{place}", "name": name, "arguments": arguments} for place, (name, arguments) in enumerate(calls)
        ]
        try:
            observation = await self.step({"tool_calls": tool_calls})
        except ServerError as error:
            return [f"not run: {error}"] * len(calls)
        contents = {message.tool_call_id: message.content for message in observation.messages if message.role == "tool"}
        others = [message.content for message in observation.messages if message.role != "tool"]
        results = [contents.get(call["id"], OVER) for call in tool_calls]
        results[-1] = "\n".join([results[-1], *others])
        return results

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn as the wire takes it. Raises ServerError; the episode is then void."""
        if self.over or self._client is None:
            return Observation(done=True)
        try:
            observation = await self._client.step(action)
        except ServerError as error:
            await self._lose(error)
            raise
        self.outcome.turns += 1
        if observation.done:
            self.over = True
            await self.settle()
        return observation

    async def settle(self) -> Outcome:
        """Return the outcome; an episode that is not over is submitted as it is, and graded. Idempotent."""
        client = self._client
        if client is None:
            return self.outcome
        try:
            if not self.over:
                self.over = True
                await client.step(_SUBMIT)
            self._read(await client.state())
        except ServerError as error:
            await self._lose(error)
            return self.outcome
        self._client = None
        self._sessions.release(client)
        return self.outcome

    async def give_up(self, error: Exception) -> None:
        """Make the episode void, for a reason on the player's side."""
        self._void(error)
        await self.leave()

    async def leave(self) -> None:
        """End the episode, ungraded, and close its session."""
        client, self._client, self.over = self._client, None, True
        if client is not None:
            await self._sessions.discard(client)

    # --- internals --------------------------------------------------------------------------------------------

    async def _reset(self, arguments: Mapping[str, Any], *, fresh: bool) -> Observation:
        if fresh and self._client is not None:
            await self.leave()
        if self._client is None:
            self._client = await self._sessions.acquire(fresh=fresh)
        try:
            first = await self._client.reset(**arguments)
            self._sessions.mark_playing(self._client)
            return first
        except ServerInfrastructureError:
            raise
        except ServerError:
            await self.leave()
            raise

    def _read(self, state: State) -> None:
        reward, outcome = state.reward or Reward(valid=False), self.outcome
        outcome.task_id, outcome.episode_id, outcome.end = state.task_id or "", state.episode_id or "", state.end
        outcome.reward = reward.value if reward.valid else None
        outcome.components = dict(reward.components)
        outcome.error_turns = [error for error in state.error_turns if error.turn < outcome.turns]
        outcome.findings = list(state.findings)

    async def _lose(self, error: ServerError) -> None:
        if self._client is None:
            return  # the episode was left meanwhile, which closed its session
        self._void(error)
        if isinstance(error, ServerInfrastructureError) and self._client is not None:
            client, self._client = self._client, None
            self._sessions.release(client)
        else:
            await self.leave()

    def _void(self, error: Exception) -> None:
        """Void the episode without asking for its annotations: its session may be gone."""
        self.over = True
        self.outcome.reward, self.outcome.problem = None, str(error)
        logger.warning("an episode is void, and has no reward: %s", error)
