"""Tool protocol: schemas, the check of a call, and the fixed texts that every environment answers with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ToolError
from ..hints.transcript.parsing import Call, clean
from ..hints.transcript.status_line import OUTPUT as OUTPUT
from ..hints.transcript.status_line import dropped_mark
from ..hints.transcript.tool_schemas import argument_problem
from ..models import PytestVerifier, Task
from ..tool_names import nearest_name
from .sandbox import Limits, Sandbox

SUBMIT = "submit"
"""Name of the tool that ends an episode, in every environment."""
SUBMITTED = ("ok", "submitted")
"""Status line and body of the answer to ``submit``."""
GIVE_UP = "give_up"
"""Name of the tool that ends an episode without a solution, where the task offers it."""
GIVEN_UP = ("ok", "given up")
"""Status line and body of the answer to ``give_up``."""
NOT_RUN = "not run: episode ended"
"""Answer to a call after the one that ended the episode, in the same turn."""
NO_CALL = (
    "No tool call in this turn. Call a tool; call submit when you are done. "
    "Two turns in a row without one end the episode."
)
"""Answer to a turn without a call."""
RESTRICTED = "restricted"
"""Name among the tools of a session that stands for a profile: a shell without some programs."""
_LONGEST_ERROR = 600


@dataclass(frozen=True)
class Context:
    """What a tool of a sandboxed environment works on."""

    sandbox: Sandbox
    task: Task
    limits: Limits
    shell: Mapping[str, str] = field(default_factory=dict)
    """Variables that commands of the shell find besides the sandbox's own."""
    tests: PytestVerifier | None = None
    """How the visible tests are run; None in an environment without tests."""


@dataclass(frozen=True)
class Tool:
    """A tool that works on a sandbox."""

    name: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: tuple[str, ...]
    run: Callable[[Context, dict[str, Any]], Awaitable[tuple[str, str]]]
    """Runs a checked call; returns the status line and the body of the result. May raise ToolError."""
    writes: bool = True
    """Whether the tool may change the sandbox."""

    def schema(self) -> dict[str, Any]:
        """Return the tool in OpenAI's function style."""
        return function_schema(self.name, self.description, self.parameters())

    def parameters(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        return parameters_schema(self.properties, self.required)


def function_schema(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's schema in OpenAI's function style."""
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": dict(parameters)},
    }


def parameters_schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, which takes no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


async def answer_call(
    call: Call,
    parameters: Mapping[str, Mapping[str, Any]],
    run: Callable[[str, dict[str, Any]], Awaitable[tuple[str, str]]],
) -> str:
    """Run one call and return its result: a status line, then a body when there is one.

    ``parameters`` maps the available tools to the JSON schemas of their arguments; ``run`` gets a tool's name and its
    checked arguments (those that are null left out). Whatever is wrong with the call is its result.
    """
    try:
        if call.problem:
            code, _, text = call.problem.partition(": ")
            raise ToolError(code, text)
        if call.name not in parameters:
            raise ToolError("tool_not_found", unknown_tool(call.name, list(parameters)))
        problem = argument_problem(call.name, parameters[call.name], call.arguments)
        if problem:
            raise ToolError("invalid_args", problem)
        arguments = {name: value for name, value in call.arguments.items() if value is not None}
        status, body = await run(call.name, arguments)
    except ToolError as error:
        status, body = f"error {error.code}: {_on_one_line(str(error))[:_LONGEST_ERROR]}", ""
    return f"{status}\n{body}" if body else status


def _on_one_line(text: str) -> str:
    """Return the text without line breaks; other spaces may be quoted from a file, so they stay."""
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def unknown_tool(name: str, names: Sequence[str]) -> str:
    """Return the answer to a call of a tool that does not exist: the nearest name, and all names."""
    near = nearest_name(name, names)
    guess = f"; did you mean {near!r}?" if near else "."
    return f"there is no tool {name!r}{guess} The tools are: {', '.join(names)}"  # prose: ok


def storable_text(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with every string encodable as UTF-8. Raises ToolError for a NUL character."""
    for name, value in arguments.items():
        if isinstance(value, str) and "\0" in value:
            raise ToolError("invalid_args", f"{tool}: {name} holds a NUL character")
    return {name: clean(value) if isinstance(value, str) else value for name, value in arguments.items()}


def capped(data: bytes, dropped: int = 0, limit: int = OUTPUT) -> str:
    """Return output as text of at most about ``limit`` bytes: head, tail, and between them how many bytes are missing.

    ``dropped`` counts bytes that are missing from the middle of ``data`` already.
    """
    if dropped or len(data) > limit:
        half = limit // 2
        missing = dropped + max(0, len(data) - 2 * half)
        head, tail = data[:half].decode("utf-8", "replace"), data[-half:].decode("utf-8", "replace")
        return f"{head}\n{dropped_mark(missing)}\n{tail}"
    return data.decode("utf-8", "replace")
