"""What a hint template may use: the error, the transcript around it, the tools and the visible files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...models import ErrorTurn
from ..detect.behaviour.marks import behaviour_of
from ..transcript.call_effects import command_of, path_of
from ..transcript.past_turns import PastCall, PastTurn
from ..transcript.tool_schemas import argument_problem, parameters_of

_ENDING = ("submit", "finish", "done")


@dataclass(frozen=True)
class ErrorContext:
    """One error and what is known about it. Templates may not use anything else."""

    error: ErrorTurn
    turns: Sequence[PastTurn]
    """The turns of the transcript; a hint may use those up to the error."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The schemas of the agent's tools."""
    files: Sequence[str] = ()
    """Paths of the workspace that the agent may see."""

    @cached_property
    def call(self) -> PastCall | None:
        """Return the call that the error is about; ``None`` for a whole turn."""
        if self.error.call_index is None or not 0 <= self.error.turn < len(self.turns):
            return None
        calls = self.turns[self.error.turn].calls
        return calls[self.error.call_index] if 0 <= self.error.call_index < len(calls) else None

    @cached_property
    def earlier_calls(self) -> list[PastCall]:
        """Return every call before the one that the error is about, in order."""
        earlier = [call for turn in self.turns[: self.error.turn] for call in turn.calls]
        if 0 <= self.error.turn < len(self.turns):
            earlier.extend(self.turns[self.error.turn].calls[: self.error.call_index or 0])
        return earlier

    @property
    def command(self) -> str:
        """Return the command line of the call; '' for a call without one."""
        return command_of(self.call) if self.call is not None else ""

    @property
    def path(self) -> str:
        """Return the path that the call names; '' for a call without one."""
        return path_of(self.call) if self.call is not None else ""

    @property
    def behaviour(self) -> str:
        """Return the name of the behaviour that the error marks; '' for the error of a call."""
        return behaviour_of(self.error)

    @property
    def detail(self) -> str:
        """Return the message of a behaviour without its name."""
        return self.error.message.partition(": ")[2]

    @cached_property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """Return the schemas of the tools' arguments by tool."""
        return parameters_of(self.tools)

    @property
    def ending_tool(self) -> str:
        """Return the tool that hands in the work; '' when no tool has one of the usual names."""
        return next((name for name in self.schemas if name in _ENDING), "")

    def arguments_of(self, tool: str) -> Mapping[str, Any]:
        """Return the schemas of a tool's arguments by name; empty for an unknown tool."""
        properties = self.schemas.get(tool, {}).get("properties")
        return properties if isinstance(properties, Mapping) else {}

    def tools_that_fit(self) -> list[str]:
        """Return the other tools whose schema accepts the call's arguments and has an argument for each."""
        arguments = self.call.arguments if self.call is not None else {}
        return [
            name
            for name, schema in self.schemas.items()
            if arguments
            and name != self.error.tool
            and all(key in self.arguments_of(name) for key in arguments)
            and not argument_problem(name, schema, arguments)
        ]
