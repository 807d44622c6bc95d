"""What every tool is made of: its schema, the check of its arguments, the cap on its output."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ToolError
from ..hints.transcript.status_line import OUTPUT as OUTPUT
from ..hints.transcript.status_line import dropped_mark
from ..hints.transcript.tool_schemas import argument_problem
from ..models import Task, ToolMessage
from .sandbox import Limits, Sandbox
from .turn_parsing import Call


@dataclass(frozen=True)
class Context:
    """What a tool works on."""

    sandbox: Sandbox
    task: Task
    limits: Limits


@dataclass(frozen=True)
class Tool:
    """``properties`` are JSON-schema properties; ``run`` returns the status line and the body.

    ``writes`` is False for a tool that leaves the sandbox as it was.
    """

    name: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: tuple[str, ...]
    run: Callable[[Context, dict[str, Any]], Awaitable[tuple[str, str]]]
    writes: bool = True

    def schema(self) -> dict[str, Any]:
        """OpenAI's function style."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters()}
        return {"type": "function", "function": function}

    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }


def message(call: Call, status: str, body: str = "") -> ToolMessage:
    """A tool message: the status line, then the body when there is one."""
    return ToolMessage(
        role="tool", tool_call_id=call.id, name=call.name, content=f"{status}\n{body}" if body else status
    )


def validate(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, checked against the tool's schema. Raises ToolError for the first that is wrong."""
    wrong = argument_problem(tool.name, tool.parameters(), arguments)
    if wrong:
        raise ToolError("invalid_args", wrong)
    return {name: _cleaned(tool, name, value) for name, value in arguments.items() if value is not None}


def _cleaned(tool: Tool, name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if "\0" in value:
        raise ToolError("invalid_args", f"{tool.name}: {name} holds a NUL character")
    return value.encode("utf-8", "replace").decode("utf-8")


def capped(data: bytes, dropped: int = 0, limit: int = OUTPUT) -> str:
    """Text of at most about ``limit`` bytes: head and tail, and how many bytes were dropped between them."""
    if dropped or len(data) > limit:
        half = limit // 2
        missing = dropped + max(0, len(data) - 2 * half)
        head, tail = data[:half].decode("utf-8", "replace"), data[-half:].decode("utf-8", "replace")
        return f"{head}\n{dropped_mark(missing)}\n{tail}"
    return data.decode("utf-8", "replace")
