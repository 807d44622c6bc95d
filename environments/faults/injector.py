"""Injection of faults into the calls of an episode, and the record of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ...hints.transcript.parsing import Call
from ...hints.transcript.tool_schemas import argument_problem
from ...models import InjectedFault
from ..tool_protocol import GIVE_UP, SUBMIT, unknown_tool
from . import FAULTS
from .fault import Fault, Strike, Target, View, is_ok
from .schedule import Schedule


@dataclass(frozen=True)
class Plan:
    """What to do with a call."""

    call: Call
    """The call, with the agent's names."""
    real: Call | None = None
    """The call to run, with the environment's names; None when ``content`` answers it."""
    content: str = ""
    """The answer to a call that is not run."""
    note: InjectedFault | None = None
    """The record of the fault."""
    kind: str = ""
    strike: Strike | None = None
    """The fault, where the call is run; the note counts only if the fault then has an effect."""


@dataclass
class Injector:
    """State of the faults in one episode: number of calls, the agent's view of the tools, faults that are due."""

    schedule: Schedule
    task_id: str
    tools: Sequence[Mapping[str, Any]]
    calls: int = 0
    drawn: int = 0
    """Faults that were drawn so far."""
    view: View = field(default_factory=View)
    waiting: list[str] = field(default_factory=list)
    """Kinds that are due and wait for a call that they can change."""
    injected: list[InjectedFault] = field(default_factory=list)
    earlier: dict[str, str] = field(default_factory=dict)
    """The last result of each call that succeeded, by tool and arguments."""
    changed: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    """The fault that changed a tool: its kind, its turn, and what it did, by tool."""

    def copy(self) -> Injector:
        """Return an independent copy."""
        return replace(
            self,
            waiting=list(self.waiting),
            injected=list(self.injected),
            earlier=dict(self.earlier),
            changed=dict(self.changed),
        )

    def shown(self) -> list[dict[str, Any]]:
        """Return the schemas of the tools that the agent has now."""
        return self.view.schemas(self.tools, self.calls)

    # --- before a call runs ---------------------------------------------------------------------------------

    def plan(self, call: Call, turn: int, index: int) -> Plan:
        """Decide what to do with the call at ``index`` of a turn."""
        fixed, drawn = self.schedule.due(self.task_id, self.calls)
        self.waiting += fixed
        if drawn and self.drawn < self.schedule.most:
            self.drawn += 1
            self.waiting.append(drawn)
        plan = self._plan(call, turn, index)
        self.calls += 1
        return plan

    def _plan(self, call: Call, turn: int, index: int) -> Plan:
        if call.problem:
            return Plan(call, content=f"error {call.problem}")
        hit = self._hit(call)
        if hit is None:
            return self._judge(call, turn, index)
        kind, strike, real = hit
        note = self._note(kind, strike.text, call, turn, index)
        self.waiting.remove(kind)
        if strike.view is not None:
            self.view = strike.view
            self.changed[real.name] = kind, turn, strike.text
            return self._judge(call, turn, index)
        if strike.content is not None:
            return Plan(call, content=strike.content, note=note)
        real = real if strike.arguments is None else replace(real, arguments=strike.arguments)
        return Plan(call, real, note=note, kind=kind, strike=strike)

    def _hit(self, call: Call) -> tuple[str, Strike, Call] | None:
        """Return the first waiting fault that fits the call, None for a wrong call and for the end of the episode."""
        if not self.waiting or call.name in (SUBMIT, GIVE_UP):
            return None
        shown = {tool["function"]["name"]: tool["function"] for tool in self.shown()}
        if call.name not in shown or argument_problem(call.name, shown[call.name]["parameters"], call.arguments):
            return None
        real = self._real(call)
        schema = next(t["function"]["parameters"] for t in self.tools if t["function"]["name"] == real.name)
        chance = self.schedule.chance(self.task_id, self.calls) >> 3
        earlier = self.earlier.get(_key(real))
        target = Target(call, real, schema, list(shown), self.view, self.calls, chance, earlier)
        for kind in self.waiting:
            strike = _fault(kind)(target)
            if strike is not None:
                return kind, strike, real
        return None

    def _judge(self, call: Call, turn: int, index: int) -> Plan:
        """Refuse a call that the agent's view of the tools does not allow; run others with the environment's names."""
        if not self.view:
            return Plan(call, call)
        shown = {tool["function"]["name"]: tool["function"] for tool in self.shown()}
        if call.name not in shown:
            problem = f"error tool_not_found: {unknown_tool(call.name, list(shown))}"
            name = self.view.real_name(call.name) or call.name
            return Plan(call, content=problem, note=self._unforeseen(name, call, turn, index))
        real = self._real(call)
        if real.name in self.view.arguments:
            problem = argument_problem(call.name, shown[call.name]["parameters"], call.arguments)
            if problem:
                used_old_name = self.view.arguments[real.name][0] in call.arguments
                note = self._unforeseen(real.name, call, turn, index) if used_old_name else None
                return Plan(call, content=f"error invalid_args: {problem}", note=note)
        return Plan(call, real)

    def _real(self, call: Call) -> Call:
        """Return the call with the environment's names."""
        name = self.view.real_name(call.name) or call.name
        return replace(call, name=name, arguments=self.view.real_arguments(name, call.arguments))

    def _unforeseen(self, tool: str, call: Call, turn: int, index: int) -> InjectedFault | None:
        """Return a record for a call whose tool was changed in this turn; later the error is the agent's own."""
        kind, since, text = self.changed.get(tool, ("", -1, ""))
        if since != turn:
            return None
        return self._note(kind, text, call, turn, index).model_copy(update={"tools": self.shown()})

    def _note(self, kind: str, text: str, call: Call, turn: int, index: int) -> InjectedFault:
        return InjectedFault(
            turn=turn, call_index=index, call_id=call.id, call=self.calls, kind=kind, tool=call.name, text=text
        )

    # --- after it ran ---------------------------------------------------------------------------------------

    def settle(self, plan: Plan, content: str) -> str:
        """Return the result that the agent sees, and record the fault if it had an effect."""
        if plan.real is None:
            self._record(plan.note)
            return plan.content
        shown: str | None = content
        if plan.strike is not None:
            shown = plan.strike.result(content) if plan.strike.result is not None else content
            if shown is not None:
                self._record(plan.note)
            else:
                self.waiting.insert(0, plan.kind)
        if is_ok(content) and (plan.strike is None or plan.strike.arguments is None):
            self.earlier[_key(plan.real)] = content
        status, newline, body = (content if shown is None else shown).partition("\n")
        if status.startswith("error invalid_args: "):
            status = self.view.worded(plan.real.name, status)
        return status + newline + body

    def _record(self, note: InjectedFault | None) -> None:
        if note is not None:
            self.injected.append(note)


@cache
def _fault(kind: str) -> Fault:
    fault: Fault = FAULTS.load(kind)
    return fault


def _key(call: Call) -> str:
    """Return a text that is the same for the same call, whatever the order of its arguments."""
    return json.dumps([call.name, call.arguments], sort_keys=True, default=str)
