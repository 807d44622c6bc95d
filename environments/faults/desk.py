"""Carries out a schedule: what becomes of each call, and what is noted about it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ...hints.transcript.tool_schemas import argument_problem
from ...models import InjectedFault
from ..messages import unknown_tool
from ..turn_parsing import Call
from . import FAULTS
from .fault import SUBMIT, Ask, Fault, Strike, View, is_ok
from .schedule import Schedule


@dataclass(frozen=True)
class Plan:
    """What to do with a call: ``content`` answers it without running it, else ``real`` is run.

    ``note`` is what was injected; with ``strike`` the result may yet change, and only then the note counts.
    """

    call: Call
    real: Call | None = None
    content: str = ""
    note: InjectedFault | None = None
    kind: str = ""
    strike: Strike | None = None


@dataclass
class Desk:
    """Where an episode stands: its calls so far, the agent's view of the tools, the faults that wait for a call."""

    schedule: Schedule
    task_id: str
    tools: Sequence[Mapping[str, Any]]
    calls: int = 0
    drawn: int = 0
    view: View = field(default_factory=View)
    waiting: list[str] = field(default_factory=list)
    injected: list[InjectedFault] = field(default_factory=list)
    earlier: dict[str, str] = field(default_factory=dict)
    changed: dict[str, tuple[str, int, str]] = field(default_factory=dict)

    def copy(self) -> Desk:
        return replace(
            self,
            waiting=list(self.waiting),
            injected=list(self.injected),
            earlier=dict(self.earlier),
            changed=dict(self.changed),
        )

    def shown(self) -> list[dict[str, Any]]:
        """The tools as the agent has them now."""
        return self.view.schemas(self.tools, self.calls)

    # --- before a call runs ---------------------------------------------------------------------------------

    def plan(self, call: Call, turn: int, index: int) -> Plan:
        """Decide what becomes of a call."""
        number = self.calls
        self._fall_due(number)
        plan = self._plan(call, turn, index, number)
        self.calls += 1
        return plan

    def _fall_due(self, number: int) -> None:
        fixed, drawn = self.schedule.due(self.task_id, number)
        if drawn and self.drawn < self.schedule.most:
            self.drawn += 1
            fixed.append(drawn)
        self.waiting += fixed

    def _plan(self, call: Call, turn: int, index: int, number: int) -> Plan:
        if call.problem:
            return Plan(call, content=f"error {call.problem}")
        hit = self._hit(call, number)
        if hit is None:
            return self._judge(call, turn, index, number)
        kind, strike, real = hit
        note = self._note(kind, strike.text, call, turn, index, number)
        self.waiting.remove(kind)
        if strike.view is not None:
            self.view = strike.view
            self.changed[real.name] = (kind, turn, strike.text)
            return self._judge(call, turn, index, number)
        if strike.content is not None:
            return Plan(call, content=strike.content, note=note)
        changed = real if strike.arguments is None else replace(real, arguments=strike.arguments)
        return Plan(call, changed, note=note, kind=kind, strike=strike)

    def _hit(self, call: Call, number: int) -> tuple[str, Strike, Call] | None:
        """The first waiting fault that fits the call. Calls that are wrong anyway are left alone, and so is submit."""
        if not self.waiting or call.name == SUBMIT:
            return None
        shown = {tool["function"]["name"]: tool["function"] for tool in self.view.schemas(self.tools, number)}
        if call.name not in shown or argument_problem(call.name, shown[call.name]["parameters"], call.arguments):
            return None
        real = self._real(call)
        schema = next(t["function"]["parameters"] for t in self.tools if t["function"]["name"] == real.name)
        chance = self.schedule.chance(self.task_id, number)
        ask = Ask(call, real, schema, list(shown), self.view, number, chance >> 3, self.earlier.get(_key(real)))
        for kind in self.waiting:
            strike = _fault(kind).strike(ask)
            if strike is not None:
                return kind, strike, real
        return None

    def _judge(self, call: Call, turn: int, index: int, number: int) -> Plan:
        """Refuse what the agent's view of the tools does not hold, in its words; run the rest in the environment's."""
        if not (self.view.names or self.view.gone or self.view.arguments):
            return Plan(call, call)
        shown = {tool["function"]["name"]: tool["function"] for tool in self.view.schemas(self.tools, number)}
        if call.name not in shown:
            problem = f"error tool_not_found: {unknown_tool(call.name, list(shown))}"
            name = self.view.real_name(call.name) or call.name
            return Plan(call, content=problem, note=self._unforeseen(name, call, turn, index, number))
        real = self._real(call)
        if real.name in self.view.arguments:
            wrong = argument_problem(call.name, shown[call.name]["parameters"], call.arguments)
            if wrong:
                note = None
                if self.view.arguments[real.name][0] in call.arguments:
                    note = self._unforeseen(real.name, call, turn, index, number)
                return Plan(call, content=f"error invalid_args: {wrong}", note=note)
        return Plan(call, real)

    def _real(self, call: Call) -> Call:
        name = self.view.real_name(call.name) or call.name
        return replace(call, name=name, arguments=self.view.real_arguments(name, call.arguments))

    def _unforeseen(self, tool: str, call: Call, turn: int, index: int, number: int) -> InjectedFault | None:
        """A change of the tools is a surprise in the turn in which it shows, and the agent's own error afterwards."""
        kind, since, text = self.changed.get(tool, ("", -1, ""))
        return self._note(kind, text, call, turn, index, number, self.shown()) if since == turn else None

    # --- after it ran ---------------------------------------------------------------------------------------

    def settle(self, plan: Plan, content: str) -> str:
        """What the agent sees of a result; what was done to the call is noted."""
        if plan.real is None:
            self._add(plan.note)
            return plan.content
        seen: str | None = content
        if plan.strike is not None:
            seen = plan.strike.result(content) if plan.strike.result is not None else content
            if seen is not None:
                self._add(plan.note)
            else:
                self.waiting.insert(0, plan.kind)
        key = _key(plan.real)
        if is_ok(content) and (plan.strike is None or plan.strike.arguments is None):
            self.earlier[key] = content
        status, newline, body = (content if seen is None else seen).partition("\n")
        if status.startswith("error invalid_args: "):
            status = self.view.worded(plan.real.name, status)
        return status + newline + body

    def _add(self, note: InjectedFault | None) -> None:
        if note is not None:
            self.injected.append(note)

    def _note(
        self, kind: str, text: str, call: Call, turn: int, index: int, number: int, tools: Any = None
    ) -> InjectedFault:
        return InjectedFault(
            turn=turn,
            call_index=index,
            call_id=call.id,
            call=number,
            kind=kind,
            tool=call.name,
            text=text,
            tools=tools,
        )


@cache
def _fault(kind: str) -> Fault:
    fault: Fault = FAULTS.load(kind)
    return fault


def _key(call: Call) -> str:
    """The same for the same call, whatever the order of its arguments."""
    return json.dumps([call.name, call.arguments], sort_keys=True, default=str)
