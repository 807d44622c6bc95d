"""What a fault sees of a call, what it may do to it, and how the agent's tools then differ from the environment's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..turn_parsing import Call

SUBMIT = "submit"


@dataclass(frozen=True)
class View:
    """The agent's view of the tools. Keys are the environment's names.

    ``names``: what a tool is called now. ``arguments``: an argument and what it is called now. ``gone``: the number of
    the call from which on a withdrawn tool is back.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    gone: Mapping[str, int] = field(default_factory=dict)

    def real_name(self, shown: str) -> str | None:
        """The environment's name for a tool; ``None`` for a name that is no longer used."""
        for real, now in self.names.items():
            if now == shown:
                return real
        return None if shown in self.names else shown

    def real_arguments(self, real: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        old, new = self.arguments.get(real, ("", ""))
        return {old if name == new else name: value for name, value in arguments.items()}

    def worded(self, real: str, text: str) -> str:
        """A text of the environment's, in the agent's words."""
        for old, new in ((real, self.names.get(real, real)), self.arguments.get(real, ("", ""))):
            if old != new:
                text = re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", lambda _, new=new: new, text)  # type: ignore[misc]
        return text

    def schemas(self, tools: Sequence[Mapping[str, Any]], call: int) -> list[dict[str, Any]]:
        """The tools as they are for the call of this number, in OpenAI's function style."""
        functions = [tool["function"] for tool in tools if self.gone.get(tool["function"]["name"], 0) <= call]
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
class Ask:
    """A call that a fault may hit: one that the environment would take.

    ``real`` is the call in the environment's words, ``schema`` the JSON schema of its arguments, ``earlier`` what the
    same call gave last; ``chance`` is a number that the schedule gives for this call, ``number`` counts the calls.
    """

    call: Call
    real: Call
    schema: Mapping[str, Any]
    names: Sequence[str]
    view: View
    number: int
    chance: int
    earlier: str | None = None


@dataclass(frozen=True)
class Strike:
    """What is done to a call; ``text`` says it. One of: ``view``, the tools change and the call is judged by them;
    ``content``, the tool is not run and this is the result; ``arguments`` and ``result``, what the tool gets, and what
    the agent sees of what it gave (``None``: nothing came of it, the fault waits for another call).
    """

    text: str
    view: View | None = None
    content: str | None = None
    arguments: dict[str, Any] | None = None
    result: Callable[[str], str | None] | None = None


@dataclass(frozen=True)
class Fault:
    """One kind of fault: ``strike`` gives what to do to a call, ``None`` when it does not fit that call."""

    strike: Callable[[Ask], Strike | None]


def renamed_argument(view: View, real: str, old: str, new: str) -> View:
    return replace(view, arguments={**view.arguments, real: (old, new)})


def pick(options: Sequence[str], taken: Sequence[str], chance: int) -> str:
    """One of the options that is not taken; the schedule's number chooses."""
    free = [option for option in options if option not in taken]
    return free[chance % len(free)]


def is_ok(content: str) -> bool:
    return content.partition("\n")[0] == "ok"
