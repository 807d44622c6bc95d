"""A running episode: its record, how a turn is played, and the state that the record does not hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..errors import StatedFault
from ..hints.transcript.parsing import Call, parse_turn
from ..hints.transcript.tool_schemas import parameters_of
from ..models import Episode, EpisodeEnd, ErrorTurn, InjectedFault, State, ToolMessage
from .annotations import Annotations
from .faults.injector import Plan
from .forks import KeptEpisode, Point
from .session import limiter
from .tool_protocol import GIVE_UP, GIVEN_UP, NO_CALL, NOT_RUN, SUBMIT, SUBMITTED, answer_call
from .wire_values import model_tokens

_ENDS: dict[str, EpisodeEnd] = {SUBMIT: "submit", GIVE_UP: "give_up"}
"""The ``end`` of an episode, by the tool that ended it."""
RunTool = Callable[[str, dict[str, Any]], Awaitable[tuple[str, str]]]
"""Runs a checked call, by tool and arguments; returns the status line and the body of its result."""


@dataclass(frozen=True)
class Budget:
    """Limits at which an episode ends by itself; its world is graded as it is then."""

    turns: int = 100
    """Turns."""
    seconds: float = 3600.0
    """Wall-clock seconds since the reset."""
    tokens: int | None = None
    """Tokens that the model wrote; None: no limit."""


class RunningEpisode:
    """One episode while it is played. It starts in the last state that ``past`` keeps."""

    def __init__(self, record: Episode, past: KeptEpisode, annotate: str) -> None:
        state = past.points[-1]
        self.record = record
        self.past = past
        self.annotations = Annotations(record)
        self.injector = state.injector
        self.answer = ""
        self.reason = ""
        self.tools_run: list[str] = []
        self._shows_annotations = annotate == "observation"
        self._stated = list(state.stated)
        self._silent = state.silent
        self._tokens = state.tokens
        self._started = time.monotonic()
        self._parameters = parameters_of(record.tools)
        self._record_faults()

    @property
    def seconds(self) -> float:
        """Return the seconds since the reset."""
        return time.monotonic() - self._started

    def exhausts(self, budget: Budget) -> bool:
        """Return whether the turn that was just played, and is not in the record yet, uses the budget up."""
        tokens = budget.tokens is not None and self._tokens >= budget.tokens
        return len(self.record.turns) + 1 >= budget.turns or tokens or self.seconds >= budget.seconds

    def point(self) -> Point:
        """Return the state after the last turn, without that of the world."""
        return Point(self._silent, self._tokens, False, None, self.injector, tuple(self._stated))

    def state(self, token: str) -> State:
        """Return the infrastructure side of the episode; ``token`` is that of its session."""
        episode, injector = self.record, self.injector
        return State.model_construct(
            episode_id=episode.episode_id,
            step_count=len(episode.turns),
            task_id=episode.task_id,
            token=token,
            error_turns=list(self.annotations.error_turns()),
            findings=list(episode.findings),
            reward=episode.reward,
            sandbox=episode.sandbox,
            fork=episode.fork,
            injected=list(episode.injected),
            tools=injector.shown() if injector is not None and injector.view else None,
            end=episode.end,
        )

    async def last_error_turns(self) -> list[ErrorTurn] | None:
        """Return the ErrorTurns of the last turn, None unless the agent is to see them."""
        if not self._shows_annotations:
            return None
        errors = await asyncio.to_thread(self.annotations.error_turns)
        return [error for error in errors if error.turn == len(self.record.turns) - 1]

    async def play(self, action: dict[str, Any], run_tool: RunTool) -> tuple[list[ToolMessage], EpisodeEnd | None]:
        """Play one turn: its calls in order; return their results and whether the turn ends the episode.

        Calls after the one that ends the episode are not run. A turn without a call is answered; two in a row end it.
        """
        number = len(self.record.turns)
        calls = parse_turn(action, number).calls
        self._tokens += model_tokens(action)
        self.tools_run = []
        if not calls:
            self._silent += 1
            ends = self._silent >= 2
            return [ToolMessage(role="user", content=NO_CALL)], "no_tool_call" if ends else None
        self._silent = 0
        injector = self.injector = self.injector.copy() if self.injector is not None else None
        plans = [
            Plan(call, call) if injector is None else injector.plan(call, number, index)
            for index, call in enumerate(calls)
        ]
        contents: list[str] = []
        end: EpisodeEnd | None = None
        for index, plan in enumerate(plans):
            if end is not None:
                contents.append(NOT_RUN)
                continue
            contents.append("" if plan.real is None else await self._run(plan.real, index, run_tool))
            if plan.real is not None and contents[-1].partition("\n")[0] == "ok":
                end = _ENDS.get(plan.real.name)
        if injector is not None:
            settled = zip(plans, contents, strict=True)
            contents = [text if text == NOT_RUN else injector.settle(plan, text) for plan, text in settled]
        self._record_faults()
        answered = zip(plans, contents, strict=True)
        return [ToolMessage(tool_call_id=p.call.id, name=p.call.name, content=text) for p, text in answered], end

    async def _run(self, call: Call, index: int, run_tool: RunTool) -> str:
        async def run(name: str, arguments: dict[str, Any]) -> tuple[str, str]:
            if name == SUBMIT:
                self.answer = str(arguments.get("answer", "")).strip()
                return SUBMITTED
            if name == GIVE_UP:
                self.reason = str(arguments["reason"]).strip()
                return GIVEN_UP
            self.tools_run.append(name)
            try:
                async with limiter.get()("execution"):
                    return await run_tool(name, arguments)
            except StatedFault as fault:
                self._note(fault, call, index)
                raise

        return await answer_call(call, self._parameters, run)

    def _note(self, fault: StatedFault, call: Call, index: int) -> None:
        """Record a fault that the environment stated; met again in a later turn, it is the agent's own error."""
        turns = self.record.turns
        first_turn = next((other.turn for other in self._stated if other.kind == fault.fault), len(turns))
        if first_turn == len(turns):
            calls_before = sum(message.role == "tool" for turn in turns for message in turn.messages)
            self._stated.append(
                InjectedFault(
                    turn=len(turns),
                    call_index=index,
                    call_id=call.id,
                    call=calls_before + index,
                    kind=fault.fault,
                    tool=call.name,
                    text=str(fault),
                )
            )

    def _record_faults(self) -> None:
        """Put all faults into the record, in the order of the calls."""
        injected = [] if self.injector is None else self.injector.injected
        if self._stated or injected:
            self.record.injected = sorted([*self._stated, *injected], key=lambda fault: (fault.turn, fault.call_index))
