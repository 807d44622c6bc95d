"""Tools as OpenEnv's MCP types: a listing, a call as a separate turn, and a client for OpenEnv's handler."""

from __future__ import annotations

from typing import Any, Protocol

from openenv.core.env_server.mcp_types import CallToolObservation, ListToolsObservation, Tool, ToolError, ToolErrorType

from ...hints.transcript.status_line import read_status
from ..wire_values import message_text
from .types import Observation

_TOOL_ERRORS = {
    "tool_not_found": ToolErrorType.TOOL_NOT_FOUND,
    "invalid_args": ToolErrorType.INVALID_ARGS,
    "malformed_call": ToolErrorType.INVALID_ARGS,
    "transport_error": ToolErrorType.TRANSPORT_ERROR,
}


class Tooled(Protocol):
    """An environment whose tools can be listed and called."""

    @property
    def tools_now(self) -> list[dict[str, Any]]: ...

    async def call(self, name: Any, arguments: Any) -> Observation: ...


class ToolsClient:
    """The client through which OpenEnv's MCP handler drives an environment; it calls the same ``step`` directly."""

    def __init__(self, environment: Tooled) -> None:
        self._environment = environment

    def is_connected(self) -> bool:
        """Return True: calls are made in this process, without a connection."""
        return True

    async def __aenter__(self) -> ToolsClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools in MCP's shape."""
        tools = listing(self._environment.tools_now).tools
        return [{"name": t.name, "description": t.description, "inputSchema": t.input_schema} for t in tools]

    async def call_tool(self, name: Any, arguments: Any) -> dict[str, Any]:
        """Play a call and return MCP's result, plus ``data`` (the text), ``done`` and ``reward``."""
        observation = await self._environment.call(name, arguments)
        text = message_text(observation)
        return {
            "content": [{"type": "text", "text": text}],
            "isError": bool(read_status(text).code),
            "data": text,
            "done": observation.done,
            "reward": observation.reward,
        }


def listing(tools: list[dict[str, Any]]) -> ListToolsObservation:
    """Return the tools as a listing, which is not a turn."""
    functions = [tool["function"] for tool in tools]
    named = [
        Tool(name=f["name"], description=f.get("description", ""), input_schema=f.get("parameters", {}))
        for f in functions
    ]
    return ListToolsObservation(tools=named, reward=0.0)


def as_call(name: Any, observation: Observation) -> CallToolObservation:
    """Return a turn of one call as OpenEnv's answer to that call."""
    text = message_text(observation)
    code = read_status(text).code
    status = text.partition("\n")[0]
    error = ToolError(error_type=_TOOL_ERRORS[code], message=status) if code in _TOOL_ERRORS else None
    return CallToolObservation(
        tool_name=str(name), result=text, error=error, done=observation.done, reward=observation.reward
    )
