"""The interface of faults: what a fault sees of a call, what it may do to it, and how it changes the agent's tools.

A fault is a function from a Target to a Strike, or to None when it does not fit that call. Third parties register one
in the entry-point group ``etude.faults``; its docstring describes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...hints.transcript.parsing import Call


@dataclass(frozen=True)
class View:
    """The agent's view of the tools. Keys are the environment's names."""

    names: Mapping[str, str] = field(default_factory=dict)
    """The new name of each renamed tool."""
    arguments: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The old and the new name of the renamed argument, by tool."""
    back_at_call: Mapping[str, int] = field(default_factory=dict)
    """The number of the call from which a withdrawn tool is available again."""

    def __bool__(self) -> bool:
        return bool(self.names or self.arguments or self.back_at_call)

    def real_name(self, shown: str) -> str | None:
        """Return the environment's name of a tool, None for the old name of a renamed tool."""
        for real, now in self.names.items():
            if now == shown:
                return real
        return None if shown in self.names else shown

    def real_arguments(self, real: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call under the environment's names."""
        old, new = self.arguments.get(real, ("", ""))
        return {old if name == new else name: value for name, value in arguments.items()}

    def worded(self, real: str, text: str) -> str:
        """Return a text about a tool with the agent's names instead of the environment's."""
        for old, new in ((real, self.names.get(real, real)), self.arguments.get(real, ("", ""))):
            if old != new:
                text = re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", lambda _, new=new: new, text)  # type: ignore[misc]
        return text

    def schemas(self, tools: Sequence[Mapping[str, Any]], call: int) -> list[dict[str, Any]]:
        """Return the tools that exist at the call of this number, in OpenAI's function style."""
        functions = [tool["function"] for tool in tools if self.back_at_call.get(tool["function"]["name"], 0) <= call]
        return [{"type": "function", "function": self._schema(function)} for function in functions]

    def _schema(self, function: Mapping[str, Any]) -> dict[str, Any]:
        real = function["name"]
        shown = {**function, "name": self.names.get(real, real)}
        if real in self.arguments:
            old, new = self.arguments[real]
            parameters = function["parameters"]
            shown["parameters"] = {
                **parameters,
                "properties": {new if name == old else name: rule for name, rule in parameters["properties"].items()},
                "required": [new if name == old else name for name in parameters["required"]],
            }
        return shown


@dataclass(frozen=True)
class Target:
    """A call that a fault may change; the environment would accept it."""

    call: Call
    """The call, with the agent's names."""
    real: Call
    """The call, with the environment's names."""
    schema: Mapping[str, Any]
    names: Sequence[str]
    """Names of the tools as the agent has them."""
    view: View
    number: int
    """Number of the call in the episode, from 0."""
    chance: int
    """A number from the schedule for this call, which decides what the fault chooses."""
    earlier: str | None = None
    """The result of the last equal call that succeeded."""


@dataclass(frozen=True)
class Strike:
    """What is done to a call. Set is one of: ``view``; ``content``; ``arguments``, ``result`` or both."""

    text: str
    """What was done, for the record."""
    view: View | None = None
    """The tools change, and the call is judged by the new view."""
    content: str | None = None
    """The tool is not run, and this is the result."""
    arguments: dict[str, Any] | None = None
    """The tool is run with these arguments."""
    result: Callable[[str], str | None] | None = None
    """Returns the result that the agent sees; None when it cannot change this one: the fault waits for another call."""


Fault = Callable[[Target], Strike | None]


def pick(options: Sequence[str], used: Sequence[str], chance: int) -> str:
    """Return one of the options that is not in use; the number chooses."""
    free = [option for option in options if option not in used]
    return free[chance % len(free)]


def is_ok(content: str) -> bool:
    """Return whether a result says that its call succeeded."""
    return content.partition("\n")[0] == "ok"
