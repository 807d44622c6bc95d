"""An episode that somebody else's loop plays, call by call: its session, its calls, and what it came to.

Whatever goes wrong on the way is data: an episode whose session is lost, or whose machine fails, has no reward.
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
    """What an episode came to. ``reward`` is None while it goes on, and for good when there is no honest score."""

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
    """Plays one episode after another, each in a session that it gives back once the episode has its reward.

    Coroutines run on the loop of ``sessions``, one at a time.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._client: Client | None = None
        self.over = True
        self.outcome = Outcome()

    async def begin(self, arguments: Mapping[str, Any], *, wait: bool = False) -> Observation:
        """``reset``. A session that is lost, or a machine that fails, costs one fresh try in a new session.

        Raises ConnectionLost when that is lost too, ServerFull on a server that is full, and ServerError for what else
        it refuses. ``wait``: on a full one, for another of ``sessions`` to end, as long as one is in use; not for who
        begins several episodes before the first one is played. When the machine fails again, the episode is void: over,
        without a reward, and the observation is empty.
        """
        while True:
            seen = self._sessions.ended
            try:
                return await self._begun(arguments)
            except ServerFull:
                if not (wait and await self._sessions.back(seen)):
                    raise

    async def _begun(self, arguments: Mapping[str, Any]) -> Observation:
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

    async def turn(self, calls: Sequence[tuple[str, Any]]) -> list[str]:
        """Play one turn of these calls, names and arguments; a result for each. Raises nothing of the server's.

        What the environment says besides comes after the last result.
        """
        if self.over or self._client is None:
            return [OVER] * len(calls)
        asked = [{"id": f"c{place}", "name": name, "arguments": given} for place, (name, given) in enumerate(calls)]
        try:
            seen = await self.step({"tool_calls": asked})
        except ServerError as error:
            return [f"not run: {error}"] * len(calls)
        said = {message.tool_call_id: message.content for message in seen.messages if message.role == "tool"}
        more = [message.content for message in seen.messages if message.role != "tool"]
        results = [said.get(call["id"], OVER) for call in asked]
        results[-1] = "\n".join([results[-1], *more])
        return results

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn as the wire takes it. Raises ServerError: the episode is void then."""
        if self.over or self._client is None:
            return Observation(done=True)
        try:
            seen = await self._client.step(action)
        except ServerError as error:
            await self._lost(error)
            raise
        self.outcome.turns += 1
        if seen.done:
            self.over = True
            await self.settle()
        return seen

    async def settle(self) -> Outcome:
        """The outcome; an episode that still goes on is submitted without a word, and so graded. Safe to call again."""
        client = self._client
        if client is None:
            return self.outcome
        try:
            if not self.over:
                self.over = True
                await client.step(_SUBMIT)
            self._read(await client.state())
        except ServerError as error:
            await self._lost(error)
            return self.outcome
        self._client = None
        self._sessions.give(client)
        return self.outcome

    async def give_up(self, error: Exception) -> None:
        """It is void, for this reason of the player's own."""
        self._void(error)
        await self.leave()

    async def leave(self) -> None:
        """End what goes on, ungraded, and give up the session."""
        client, self._client, self.over = self._client, None, True
        if client is not None:
            await self._sessions.drop(client)

    # --- inside -----------------------------------------------------------------------------------------------

    async def _reset(self, arguments: Mapping[str, Any], *, fresh: bool) -> Observation:
        if fresh and self._client is not None:
            await self.leave()
        if self._client is None:
            self._client = await self._sessions.take(fresh=fresh)
        try:
            first = await self._client.reset(**arguments)
            self._sessions.admitted(self._client)
            return first
        except ServerInfrastructureError:
            raise
        except ServerError:
            await self.leave()
            raise

    def _read(self, state: State) -> None:
        reward = state.reward or Reward(valid=False)
        found, turns = self.outcome, self.outcome.turns
        found.task_id, found.episode_id, found.end = state.task_id or "", state.episode_id or "", state.end
        found.reward = reward.value if reward.valid else None
        found.components = dict(reward.components)
        found.error_turns = [error for error in state.error_turns if error.turn < turns]
        found.findings = list(state.findings)

    async def _lost(self, error: ServerError) -> None:
        self._void(error)
        if isinstance(error, ServerInfrastructureError) and self._client is not None:
            client, self._client = self._client, None
            self._sessions.give(client)
        else:
            await self.leave()

    def _void(self, error: Exception) -> None:
        """Turns and annotations of a void episode are not asked for: its session may be gone."""
        self.over = True
        self.outcome.reward, self.outcome.problem = None, str(error)
        logger.warning("an episode is void, and has no reward: %s", error)
