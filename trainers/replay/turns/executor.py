"""Executed value of an action: plays it on a running server, in the state before the turn.

The value lies in [-1, 1]:

| value | meaning |
|---|---|
| -1 | the turn is an error, or ends the episode unsolved |
| 1 | the episode is solved: by the turn, when graded (``probe = "submit"``), or after at most ``follow`` more turns |
| 0.5, -0.5 | the visible tests pass, or fail, and did not before |
| 0 | no error, and nothing else is known |

This evidence takes precedence over any agreement of teachers.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....client import Client
from ....errors import ConnectionLost, ServerError
from ....hints.transcript.status_line import read_status
from ....models import Episode, Observation, Turn
from ..settings import ValueSettings
from .prefixes import State, is_own_error

Follow = Callable[[State], Awaitable[dict[str, Any] | None]]
"""Return the next action in a state, of which only the past is read; None gives up."""
_SECONDS = re.compile(r"\b\d+\.\d+ ?s(?:ec\w*)?\b")


@dataclass(frozen=True)
class Value:
    """The value of an action.

    ``source`` says how the state was reached: ``fork``, ``replay``, or ``recorded`` when the stored episode was enough.
    ``error`` is the kind of error of the turn; ``solved`` is None when the episode was not over.
    """

    score: float
    source: str
    error: str = ""
    solved: bool | None = None
    turns: int = 1


def recorded(state: State) -> Value:
    """Return the value of the student's own action as far as the stored episode shows it."""
    error, is_last = state.error, state.turn == len(state.episode.turns) - 1
    reward = state.episode.reward
    solved = reward.value >= 1 if is_last and reward is not None and reward.valid else None
    score = -1.0 if error or solved is False else 1.0 if solved else 0.0
    return Value(score, "recorded", error.kind if error else "", solved)


class Executor:
    """Execution of actions over one session.

    ``tokens`` maps episode ids to the tokens of sessions whose episodes the server still stores: their states are
    forked, like the state that was reached last. ``problems`` counts what could not be played, by reason.
    """

    def __init__(
        self,
        client: Client,
        settings: ValueSettings | None = None,
        follow: Follow | None = None,
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        self._client, self._settings, self._follow = client, settings or ValueSettings(), follow
        self._tokens = dict(tokens or {})
        self._reached: tuple[str, str, str] = ("", "", "")
        self._passed: dict[str, bool] = {}
        self.problems: dict[str, int] = {}

    @property
    def looks_ahead(self) -> bool:
        """Return whether execution shows more than the recorded turn does."""
        return self._settings.probe != "none" or (self._settings.follow > 0 and self._follow is not None)

    async def problem_with(self, first: State) -> str:
        """Return why the server does not begin the episode of ``first`` (turn 0) as recorded; '' when it does."""
        problem = "" if await self._reach(first) else next(iter(self.problems))
        self.problems.clear()
        return problem

    async def value(self, state: State, action: Mapping[str, Any]) -> Value | None:
        """Return the value of ``action`` in ``state``; None when the state cannot be reached. Raises ConnectionLost."""
        source = await self._reach(state)
        if source is None:
            return None
        passed = await self._passed_before(state) if self._settings.probe == "tests" else False
        if passed is None or (self._settings.probe == "tests" and await self._reach(state) is None):
            return None
        try:
            observation = await self._client.step(action)
            value = await self._judge(state, dict(action), observation, source)
            return value if value.score else await self._probed(value, observation, passed)
        except ServerError as error:
            self._fail("the server refused the action", error)
            return None

    async def _judge(self, state: State, action: dict[str, Any], observation: Observation, source: str) -> Value:
        """Judge the turn itself, and play up to ``follow`` more turns."""
        server_state = await self._client.state()
        error = next((error for error in server_state.error_turns if is_own_error(error, state.turn)), None)
        solved = bool(observation.done and observation.reward >= 1) if observation.done else None
        if error is not None or solved is not None:
            score = 1.0 if solved and error is None else -1.0
            return Value(score, source, error.kind if error else "", solved)
        value = Value(0.0, source)
        played = [*state.past, Turn(action=action, messages=observation.messages)]
        for number in range(self._settings.follow if self._follow else 0):
            assert self._follow is not None
            episode = state.episode.model_copy(update={"turns": [*played, Turn(action={})]})
            next_action = await self._follow(replace(state, episode=episode, turn=len(played)))
            if next_action is None:
                break
            observation = await self._client.step(next_action)
            played.append(Turn(action=next_action, messages=observation.messages))
            value = replace(value, turns=number + 2)
            if observation.done:
                won = observation.reward >= 1
                return replace(value, score=1.0 if won else 0.0, solved=won)
        return value

    async def _probed(self, value: Value, observation: Observation, passed: bool) -> Value:
        if value.solved is not None or value.turns > 1 or self._settings.probe == "none":
            return value
        if self._settings.probe == "submit":
            graded = await self._client.step({"tool": "submit", "arguments": {}})
            won = bool(graded.done and graded.reward >= 1)
            return replace(value, score=float(won), solved=won if graded.done else None)
        now = await self._tests()
        return value if now is None else replace(value, score=0.5 * (now - passed))

    async def _passed_before(self, state: State) -> bool | None:
        """Return whether the visible tests pass in ``state``, None when they cannot be run; changes the state."""
        if state.key not in self._passed:
            try:
                passed = await self._tests()
            except ServerError as error:
                self._fail("the visible tests cannot be run", error)
                return None
            if passed is None:
                self._fail("the task has no visible tests to run")
                return None
            self._passed[state.key] = passed
        return self._passed[state.key]

    async def _tests(self) -> bool | None:
        observation = await self._client.step({"tool": "run_tests", "arguments": {}})
        results = [read_status(message.content) for message in observation.messages if message.role == "tool"]
        return None if not results or results[0].word in ("error", "none") else results[0].word == "ok"

    async def _reach(self, state: State) -> str | None:
        """Bring the session into ``state``, by a fork where one is available, else by replaying the actions."""
        for episode_id, token in self._forks(state):
            try:
                observation = await self._client.reset(fork_of=episode_id, turn=state.turn, token=token)
            except ConnectionLost:
                raise
            except ServerError:
                continue
            if self._is_same(state, observation):
                return "fork"
        try:
            observation = await self._replayed(state.episode, [turn.action for turn in state.past])
            server_state = await self._client.state()
        except ServerError as error:
            self._fail("the state cannot be reached", error)
            return None
        if not self._is_same(state, observation):
            self._fail("replaying the recorded actions gave different observations")
            return None
        self._reached = (state.key, server_state.episode_id or "", server_state.token or "")
        return "replay"

    def _forks(self, state: State) -> list[tuple[str, str]]:
        key, episode_id, token = self._reached
        forks = [(episode_id, token)] if key == state.key and episode_id else []
        stored_token = self._tokens.get(state.episode.episode_id)
        return forks + ([(state.episode.episode_id, stored_token)] if stored_token else [])

    async def _replayed(self, episode: Episode, actions: Sequence[Mapping[str, Any]]) -> Observation:
        """Replay actions. Tools are only named when the server's differ: not every environment accepts a choice."""
        seed = {} if episode.seed is None else {"seed": episode.seed}
        arguments: dict[str, Any] = {"task_id": episode.task_id, **seed, "replay": [dict(action) for action in actions]}
        observation = await self._client.reset(**arguments)
        if observation.tools == episode.tools:
            return observation
        names = [tool.get("function", tool).get("name") for tool in episode.tools]
        return await self._client.reset(**arguments, tools=names)

    def _is_same(self, state: State, observation: Observation) -> bool:
        """Return whether an observation is the recorded one; if not, the server is in another state."""
        recorded_texts = [_untimed(message.content) for turn in state.past for message in turn.messages]
        texts = [_untimed(message.content) for message in observation.messages]
        return observation.prompt == state.episode.prompt and texts == recorded_texts

    def _fail(self, reason: str, error: ServerError | None = None) -> None:
        """Count why an action could not be played. Raises ConnectionLost, after which no action can be played."""
        if isinstance(error, ConnectionLost):
            raise error
        problem = (f"{reason}: {error}" if error else reason)[:200]
        self.problems[problem] = self.problems.get(problem, 0) + 1


def _untimed(content: str) -> str:
    """Remove the seconds that test runners print from a result."""
    return _SECONDS.sub("", content)
