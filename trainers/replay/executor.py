"""What an action is worth, found out by playing it: in the state before the turn, on a running server.

v(a) lies in [-1, 1]: -1 when the turn errs or ends the episode unsolved; 1 when the episode is then solved, by itself,
graded (``probe = "submit"``) or after at most ``follow`` further turns; +-0.5 when visible tests pass or fail that did
not before; else 0: no error, and nothing known. Evidence of this kind goes before any agreement.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...client import Client
from ...errors import ConnectionLost, ServerError
from ...hints.transcript.status_line import read_status
from ...models import Episode, Observation, Turn
from .prefixes import State, is_own_error
from .settings import ValueSettings

Follow = Callable[[State], Awaitable[dict[str, Any] | None]]
"""The next turn in a state, of which only the past counts; None gives up."""
_SECONDS = re.compile(r"\b\d+\.\d+ ?s(?:ec\w*)?\b")


@dataclass(frozen=True)
class Value:
    """``how`` the state was reached: ``fork``, ``replay``, or ``recorded`` for what the episode itself tells. ``error``
    is the kind of error that the turn was, ``solved`` None when the episode was not over."""

    score: float
    how: str
    error: str = ""
    solved: bool | None = None
    turns: int = 1


def recorded(state: State) -> Value:
    """What the stored episode tells of the student's own action, for nothing."""
    error, last = state.error, state.turn == len(state.episode.turns) - 1
    reward = state.episode.reward
    solved = reward.value >= 1 if last and reward is not None and reward.valid else None
    score = -1.0 if error or solved is False else 1.0 if solved else 0.0
    return Value(score, "recorded", error.kind if error else "", solved)


class Executor:
    """Plays actions over one session. ``tokens``: of sessions whose episodes the server still keeps, by episode id.

    A state that was reached once is forked the next time. ``problems`` counts what could not be played, by reason.
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
        self._before: dict[str, bool] = {}
        self.problems: dict[str, int] = {}

    @property
    def looks_ahead(self) -> bool:
        """Whether more is found out than the recorded turn tells."""
        return self._settings.probe != "none" or (self._settings.follow > 0 and self._follow is not None)

    async def problem_with(self, first: State) -> str:
        """Why the episode of ``first``, which stands before turn 0, does not begin here as it did; '' when it does."""
        found = "" if await self._reach(first) else next(iter(self.problems))
        self.problems.clear()
        return found

    async def value(self, state: State, action: Mapping[str, Any]) -> Value | None:
        """v(action) in ``state``; None when the state cannot be reached as it was. Raises ConnectionLost."""
        how = await self._reach(state)
        if how is None:
            return None
        passed = await self._passed_before(state) if self._settings.probe == "tests" else False
        if passed is None or (self._settings.probe == "tests" and await self._reach(state) is None):
            return None
        try:
            seen = await self._client.step(action)
            value = await self._judge(state, dict(action), seen, how)
            return value if value.score else await self._probed(value, seen, passed)
        except ConnectionLost:
            raise
        except ServerError as error:
            self._problem("the server refused the action", error)
            return None

    async def _judge(self, state: State, action: dict[str, Any], seen: Observation, how: str) -> Value:
        """The turn itself, and up to ``follow`` more."""
        told = await self._client.state()
        error = next((each for each in told.error_turns if is_own_error(each, state.turn)), None)
        solved = bool(seen.done and seen.reward >= 1) if seen.done else None
        if error is not None or solved is not None:
            score = 1.0 if solved and error is None else -1.0
            return Value(score, how, error.kind if error else "", solved)
        value = Value(0.0, how)
        played = [*state.past, Turn(action=action, messages=seen.messages)]
        for number in range(self._settings.follow if self._follow else 0):
            assert self._follow is not None
            episode = state.episode.model_copy(update={"turns": [*played, Turn(action={})]})
            further = await self._follow(replace(state, episode=episode, turn=len(played)))
            if further is None:
                break
            seen = await self._client.step(further)
            played.append(Turn(action=further, messages=seen.messages))
            value = replace(value, turns=number + 2)
            if seen.done:
                won = seen.reward >= 1
                return replace(value, score=1.0 if won else 0.0, solved=won)
        return value

    async def _probed(self, value: Value, seen: Observation, passed: bool) -> Value:
        if value.solved is not None or value.turns > 1 or self._settings.probe == "none":
            return value
        if self._settings.probe == "submit":
            graded = await self._client.step({"tool": "submit", "arguments": {}})
            won = bool(graded.done and graded.reward >= 1)
            return replace(value, score=float(won), solved=won if graded.done else None)
        now = await self._tests()
        return value if now is None else replace(value, score=0.5 * (now - passed))

    async def _passed_before(self, state: State) -> bool | None:
        """Whether the visible tests passed in ``state``, which is left changed; None when they cannot be run."""
        if state.key not in self._before:
            try:
                passed = await self._tests()
            except ConnectionLost:
                raise
            except ServerError as error:
                self._problem("the visible tests cannot be run", error)
                return None
            if passed is None:
                self._problem("there are no visible tests to run", None)
                return None
            self._before[state.key] = passed
        return self._before[state.key]

    async def _tests(self) -> bool | None:
        played = await self._client.step({"tool": "run_tests", "arguments": {}})
        results = [read_status(message.content) for message in played.messages if message.role == "tool"]
        return None if not results or results[0].word in ("error", "none") else results[0].word == "ok"

    async def _reach(self, state: State) -> str | None:
        """Stand before the turn: by a fork where one is kept, else by playing the actions again."""
        episode = state.episode
        for source, token in self._forks(state):
            try:
                seen = await self._client.reset(fork_of=source, turn=state.turn, token=token)
            except ConnectionLost:
                raise
            except ServerError:
                continue
            if self._is_same(state, seen):
                return "fork"
        try:
            seen = await self._replayed(episode, [turn.action for turn in state.past])
            now = await self._client.state()
        except ConnectionLost:
            raise
        except ServerError as error:
            self._problem("the state cannot be reached", error)
            return None
        if not self._is_same(state, seen):
            self._problem("the episode went otherwise when it was played again", None)
            return None
        self._reached = (state.key, now.episode_id or "", now.token or "")
        return "replay"

    def _forks(self, state: State) -> list[tuple[str, str]]:
        key, source, token = self._reached
        kept = [(source, token)] if key == state.key and source else []
        own = self._tokens.get(state.episode.episode_id)
        return kept + ([(state.episode.episode_id, own)] if own else [])

    async def _replayed(self, episode: Episode, actions: Sequence[Mapping[str, Any]]) -> Observation:
        """Tools are named only when the server would give others: not every environment lets one choose."""
        seed = {} if episode.seed is None else {"seed": episode.seed}
        arguments: dict[str, Any] = {"task_id": episode.task_id, **seed, "replay": [dict(each) for each in actions]}
        seen = await self._client.reset(**arguments)
        if seen.tools == episode.tools:
            return seen
        names = [tool.get("function", tool).get("name") for tool in episode.tools]
        return await self._client.reset(**arguments, tools=names)

    def _is_same(self, state: State, seen: Observation) -> bool:
        """Same actions give the same observations; where they do not, this is another state."""
        was = [_untimed(message.content) for turn in state.past for message in turn.messages]
        return seen.prompt == state.episode.prompt and [_untimed(each.content) for each in seen.messages] == was

    def _problem(self, reason: str, error: ServerError | None) -> None:
        said = f"{reason}: {error}" if error else reason
        self.problems[said[:200]] = self.problems.get(said[:200], 0) + 1


def _untimed(content: str) -> str:
    """A result without the seconds that test runners print."""
    return _SECONDS.sub("", content)
