"""Puts faults into any session's episodes: a seeded schedule, noted call by call, annotated as injected.

The session inside plays each turn with its calls translated: a call that is withheld is passed on under a name that no
tool has, so that turns, budgets and ends stay the session's own. No fault changes how an episode is scored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from ...errors import FaultsError, SessionError
from ...models import Episode, ErrorTurn, Observation, State, ToolMessage, Turn
from ..annotations import annotated
from ..base import Session, Standing
from ..messages import NOT_RUN
from ..turn_parsing import model_tokens, parse_turn
from .desk import Desk, Plan
from .schedule import Schedule, read_schedule

WITHHELD = "withheld"
_KEPT = 4096


@dataclass
class Trace:
    """An episode as its agent saw it; ``desks[t]`` is where the faults stood before turn t."""

    tools: list[dict[str, Any]]
    turns: list[Turn] = field(default_factory=list)
    desks: list[Desk] = field(default_factory=list)

    def before(self, turn: int) -> Trace:
        return Trace(self.tools, self.turns[:turn], self.desks[: turn + 1])


Traces = OrderedDict[tuple[str, str], Trace]
"""By episode and token, for forks."""


@cache
def shared_traces() -> Traces:
    """The process's."""
    return OrderedDict()


class FaultySession:
    """``inner`` with faults. ``faults`` is what an episode gets for which ``reset`` says nothing ('': none).

    Raises FaultsError for a specification that cannot be read (see ``faults.schedule.read_schedule``).
    """

    def __init__(self, inner: Session, faults: str = "", *, traces: Traces | None = None) -> None:
        self.inner = inner
        self._schedule = read_schedule(faults)
        self._traces = shared_traces() if traces is None else traces
        self._trace: Trace | None = None
        self._annotated: tuple[int, list[ErrorTurn]] = (0, [])
        self._how = "state"

    async def reset(self, *, faults: str | None = None, **given: Any) -> Observation:
        """As the inner session's; ``faults`` is this episode's specification. A fork has its episode's faults."""
        try:
            schedule = self._schedule if faults is None else read_schedule(faults)
        except FaultsError as error:
            raise SessionError(str(error)) from None
        if given.get("fork_of") is not None:
            return await self._fork(faults, given)
        if not schedule:
            first = await self.inner.reset(**given)
            self._trace = None
            self._traces.pop(_key(self.inner.state()), None)  # an id that is used again is another episode
            return first
        replay = given.pop("replay", None)
        if replay is not None and not _are_actions(replay):
            raise SessionError("replay must be a list of actions, each a JSON object")
        first = await self.inner.reset(**given)
        self._begin(first, schedule)
        for action in replay or ():
            if first.done:
                raise SessionError("replay goes on after the end of the episode: cut it there")
            played = await self.step(action)
            first.messages += played.messages
            first.done, first.reward, first.annotations = played.done, played.reward, played.annotations
        return first

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn, with what falls due in it."""
        trace = self._trace
        if trace is None or not isinstance(action, Mapping):
            return await self.inner.step(action)
        number = len(trace.turns)
        desk = trace.desks[-1].copy()
        plans = [desk.plan(call, number, index) for index, call in enumerate(parse_turn(action, number).calls)]
        observation = await self.inner.step(_translated(action, plans) if plans else action)
        observation = observation.model_copy(update={"messages": list(observation.messages)})
        results = observation.messages
        for index, plan in enumerate(plans):
            content = results[index].content
            told = content if content == NOT_RUN else desk.settle(plan, content)
            results[index] = ToolMessage(tool_call_id=plan.call.id, name=plan.call.name, content=told)
        trace.turns.append(Turn(action=dict(action), messages=list(results)))
        trace.desks.append(desk)
        if observation.annotations is not None:
            observation.annotations = [error for error in self._error_turns() if error.turn == number]
        return observation

    def state(self) -> State:
        """The inner session's, with what was injected, and the tools when they changed."""
        state = self.inner.state()
        if self._trace is None:
            return state
        desk = self._trace.desks[-1]
        tools = desk.shown() if desk.view.names or desk.view.arguments or desk.view.gone else None
        injected = _merged(state.injected, desk)
        return state.model_copy(update={"error_turns": self._error_turns(), "injected": injected, "tools": tools})

    def standing(self) -> Standing:
        """The inner session's; its episode is as its agent saw it."""
        standing, trace = self.inner.standing(), self._trace
        return standing if trace is None else standing._replace(episode=partial(_annotated, standing.episode, trace))

    def episode(self) -> Episode:
        """The episode as its agent saw it. Raises SessionError before the first reset."""
        episode, trace = self.inner.episode(), self._trace
        if trace is None:
            return episode
        return _seen(episode, trace).model_copy(update={"error_turns": self._error_turns()})

    async def close(self) -> None:
        await self.inner.close()

    # --- inside ---------------------------------------------------------------------------------------------

    def _begin(self, first: Observation, schedule: Schedule) -> None:
        task_id = self.inner.state().task_id or ""
        self._trace = Trace(first.tools or [], desks=[Desk(schedule, task_id, first.tools or [])])
        self._remember()

    async def _fork(self, faults: str | None, given: Mapping[str, Any]) -> Observation:
        if faults is not None:
            raise SessionError("give fork_of or faults, not both: a fork has its episode's faults")
        first = await self.inner.reset(**given)
        source = given["fork_of"], given.get("token") or self.inner.state().token or ""
        kept = self._traces.get(source)
        self._trace = None if kept is None else kept.before(self.inner.state().step_count)
        if self._trace is not None:
            first.messages = [message for turn in self._trace.turns for message in turn.messages]
            if first.annotations is not None:
                last = len(self._trace.turns) - 1
                first.annotations = [error for error in self._error_turns() if error.turn == last]
            self._remember()
        return first

    def _remember(self) -> None:
        assert self._trace is not None
        state = self.inner.state()
        self._annotated = (0, [])
        self._traces[_key(state)] = self._trace
        while len(self._traces) > _KEPT:
            self._traces.popitem(last=False)

    def _error_turns(self) -> list[ErrorTurn]:
        assert self._trace is not None
        if self._annotated[0] != len(self._trace.turns):
            self._annotated = len(self._trace.turns), annotated(_seen(self.inner.standing().record, self._trace))
        return list(self._annotated[1])


def _seen(episode: Episode, trace: Trace) -> Episode:
    """The inner session's episode as its agent saw it."""
    timed = zip(trace.turns, episode.turns, strict=False)
    turns = [turn.model_copy(update={"seconds": inner.seconds}) for turn, inner in timed]
    injected = _merged(episode.injected, trace.desks[-1])
    return episode.model_copy(update={"turns": turns, "injected": injected, "tools": trace.tools})


def _annotated(inner: Callable[[], Episode], trace: Trace) -> Episode:
    seen = _seen(inner(), trace)
    return seen.model_copy(update={"error_turns": annotated(seen)})


def _merged(inner: Sequence[Any], desk: Desk) -> list[Any]:
    """What the session itself injected, and what was injected into it, in the order of the calls."""
    return sorted([*inner, *desk.injected], key=lambda fault: (fault.turn, fault.call_index))


def _translated(action: Mapping[str, Any], plans: Sequence[Plan]) -> dict[str, Any]:
    """The action in the environment's words, at the price of what the model wrote."""
    kept = {name: value for name, value in action.items() if name not in ("tool_calls", "tool", "arguments", "id")}
    calls = []
    for plan in plans:
        real = plan.real
        name, arguments = (WITHHELD, {}) if real is None else (real.name, real.arguments)
        calls.append({"id": plan.call.id, "name": name, "arguments": arguments})
    return {**kept, "tool_calls": calls, "usage": {"completion_tokens": model_tokens(action)}}


def _key(state: State) -> tuple[str, str]:
    return state.episode_id or "", state.token or ""


def _are_actions(replay: Any) -> bool:
    return isinstance(replay, (list, tuple)) and all(isinstance(action, Mapping) for action in replay)
