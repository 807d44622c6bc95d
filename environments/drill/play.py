"""One play of a drill: a pure function of the calls so far, so that playing them again restores any state."""

from __future__ import annotations

from typing import Any

from ...errors import StatedFault, ToolError
from ...hints.transcript.tool_schemas import argument_problem
from ...models import AnswerVerifier, EpisodeEnd, InjectedFault, Reward, Task, ToolMessage
from ..messages import NO_CALL, NOT_RUN, unknown_tool
from ..tool_protocol import message
from ..turn_parsing import Call, ParsedTurn
from .exercise import Drill, State

SUBMIT: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "submit",
        "description": "End the episode with your answer.",
        "parameters": {
            "type": "object",
            "properties": {"answer": {"type": "string"}, "summary": {"type": "string"}},
            "required": [],
            "additionalProperties": False,
        },
    },
}
_SUBMIT_ARGUMENTS = SUBMIT["function"]["parameters"]


class Play:
    """A drill and what its agent has changed. ``injected`` are the stated faults that the agent ran into."""

    def __init__(self, drill: Drill) -> None:
        self.injected: list[InjectedFault] = []
        self.answer = ""
        self.silent = 0
        self._tools = {tool.name: tool for tool in drill.tools}
        self._state: State = {}
        self._calls = 0
        self._stated: dict[str, int] = {}

    def turn(self, parsed: ParsedTurn, number: int) -> tuple[list[ToolMessage], EpisodeEnd | None]:
        """Play turn ``number``: its results, and whether the episode ends."""
        if not parsed.calls:
            self.silent += 1
            return [ToolMessage(role="user", content=NO_CALL)], "no_tool_call" if self.silent >= 2 else None
        self.silent = 0
        messages: list[ToolMessage] = []
        end: EpisodeEnd | None = None
        for index, call in enumerate(parsed.calls):
            if end is not None:
                messages.append(message(call, NOT_RUN))
                continue
            try:
                body = self._run(call)
                end = "submit" if call.name == "submit" else None
                messages.append(message(call, "ok", body))
            except ToolError as error:
                if isinstance(error, StatedFault):
                    self._note(error, call, number, index)
                messages.append(message(call, f"error {error.code}: {error}"))
            self._calls += 1
        return messages, end

    def reward(self, task: Task) -> Reward:
        """The answer and the effects, compared with the task's."""
        verifier = task.verifier
        assert isinstance(verifier, AnswerVerifier)
        components = {
            "answer": float(self.answer == verifier.answer.strip()),
            "effects": float(self._state.get("effects", {}) == verifier.effects),
        }
        value = min((components[name] for name in verifier.components), default=0.0)
        return Reward(value=value, components=components, assurance=task.assurance)

    def _run(self, call: Call) -> str:
        """The body of a result. Raises ToolError."""
        if call.problem:
            code, _, text = call.problem.partition(": ")
            raise ToolError(code, text)
        arguments = {name: value for name, value in call.arguments.items() if value is not None}
        if call.name == "submit":
            _check("submit", _SUBMIT_ARGUMENTS, arguments)
            self.answer = str(arguments.get("answer", "")).strip()
            return "submitted"
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError("tool_not_found", unknown_tool(call.name, [*self._tools, "submit"]))
        _check(tool.name, tool.parameters, arguments)
        return tool.run(self._state, arguments)

    def _note(self, error: StatedFault, call: Call, turn: int, index: int) -> None:
        """Met again in a later turn, a stated fault is the agent's own error."""
        if self._stated.setdefault(error.fault, turn) == turn:
            self.injected.append(
                InjectedFault(
                    turn=turn,
                    call_index=index,
                    call_id=call.id,
                    call=self._calls,
                    kind=error.fault,
                    tool=call.name,
                    text=str(error),
                )
            )


def _check(tool: str, schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    wrong = argument_problem(tool, schema, arguments)
    if wrong:
        raise ToolError("invalid_args", wrong)
