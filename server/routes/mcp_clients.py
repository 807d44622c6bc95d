"""Clients of MCP over streamable HTTP at ``/mcp``, for which ``initialize`` starts an episode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import __version__
from ...environments.openenv import EtudeEnvironment
from ...errors import InfrastructureError, SessionError
from ..admission import ServerBusy
from ..sessions import SessionServer
from ..workers.request_head import COOKIE, MCP_HEADER
from .left_clients import has_left

VERSION = "2025-06-18"
"""Version of the protocol for a client that names none."""
FIRST_REQUEST_S = 60.0
"""Seconds within which a client sends its first request after ``initialize``; the protocol wants a notification."""
_CHOICES = ("task_id", "split", "index", "seed", "episode_id")
"""Arguments of ``reset`` that the query of ``initialize`` may have."""
_GONE = "no session has this Mcp-Session-Id: it has ended; initialize again"


class McpClients:
    """ASGI middleware in front of OpenEnv's ``/mcp``, which knows sessions only by ``params.session_id``.

    - ``initialize`` opens a session and resets it with the arguments in the query, as in ``/mcp?task_id=ID``. The
      task's statement is in ``instructions``; what identifies the episode, with the session's token, is in ``_meta``.
    - Later requests name the session in the header ``Mcp-Session-Id``; OpenEnv's handler answers them.
    - ``ping`` and notifications are answered.

    A request with the cookie of a REST session is not MCP's: there any path is a tool's name.
    """

    def __init__(self, app: ASGIApp, server: SessionServer) -> None:
        self.app, self._server = app, server
        self._unused: dict[str, asyncio.TimerHandle] = {}
        self._ends: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/mcp" or scope["method"] == "DELETE":
            await self.app(scope, receive, send)
            return
        if scope["method"] != "POST":  # two routes have this path, and a router would name the methods of one
            refusal = JSONResponse({"detail": "Method Not Allowed"}, 405, {"Allow": "DELETE, POST"})
            await refusal(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        call = {} if COOKIE in request.cookies else _object(body)
        session_id = request.headers.get(MCP_HEADER)
        answer = await self._answer(request, call, session_id) if call else None
        if answer is not None:
            await answer(scope, receive, send)
            return
        if call and session_id is not None and isinstance(call.get("params") or {}, dict):
            body = json.dumps({**call, "params": {**(call.get("params") or {}), "session_id": session_id}}).encode()
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self.app(scope, replay, send)

    async def _answer(self, request: Request, call: Mapping[str, Any], session_id: str | None) -> Response | None:
        """Return the answer to a request that OpenEnv does not know; None for any other."""
        method = call.get("method")
        if method == "initialize":
            if session_id is not None:  # a client that starts again
                await self._server.end(session_id)
            return await self._initialize(request, call)
        if session_id is not None:
            if self._server.use(session_id) is None:
                return JSONResponse({"detail": _GONE}, 404)
            if (timer := self._unused.pop(session_id, None)) is not None:
                timer.cancel()
        if isinstance(method, str) and method.startswith("notifications/"):
            return PlainTextResponse("", 202)
        return _reply(call, {"result": {}}) if method == "ping" else None

    def _abandon(self, session_id: str) -> None:
        """End a session whose client never came back, as when the answer with its id was lost."""
        self._unused.pop(session_id, None)
        end = asyncio.create_task(self._server.end(session_id))
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)

    async def _initialize(self, request: Request, call: Mapping[str, Any]) -> Response:
        try:
            session_id, environment = await self._server.open()
        except ServerBusy as error:
            return _refusal(call, error)
        try:
            result = await _started(environment, dict(request.query_params), call.get("params"))
        except (SessionError, InfrastructureError, ServerBusy) as error:
            await self._server.end(session_id)
            return _refusal(call, error)
        except BaseException:
            await self._server.end(session_id)
            raise
        if await has_left(request):
            await self._server.end(session_id)
        else:
            later = asyncio.get_running_loop().call_later
            self._unused[session_id] = later(FIRST_REQUEST_S, self._abandon, session_id)
        return _reply(call, {"result": result}, {MCP_HEADER: session_id})


def add_mcp_routes(app: FastAPI, server: SessionServer) -> None:
    """Add the route with which an MCP client ends its session."""

    @app.delete("/mcp", tags=["OpenEnv"], summary="End the session of an MCP client")
    async def close_mcp(request: Request) -> dict[str, bool]:
        session_id = request.headers.get(MCP_HEADER, "")
        if not server.has(session_id):
            raise HTTPException(404, _GONE)
        await server.end(session_id)
        return {"closed": True}


async def _started(environment: EtudeEnvironment, query: dict[str, str], params: Any) -> dict[str, Any]:
    """Start an episode and return the result of ``initialize``. Raises what a reset raises."""
    if unknown := sorted(set(query) - set(_CHOICES)):
        raise SessionError(f"initialize: unknown argument {unknown[0][:100]!r}. There are: {', '.join(_CHOICES)}")
    numbers = {name: int(text) for name, text in query.items() if name in ("index", "seed") and text.isdecimal()}
    first = await environment.reset_async(**{**query, **numbers})  # type: ignore[arg-type]  # reset checks the types
    version = params.get("protocolVersion") if isinstance(params, dict) else None
    state = environment.state
    return {
        "protocolVersion": version if isinstance(version, str) else VERSION,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "etude", "version": __version__},
        "instructions": first.prompt,
        "_meta": {"task_id": state.task_id, "episode_id": state.episode_id, "token": state.token},
    }


def _object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; an empty one for anything else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _reply(call: Mapping[str, Any], outcome: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": call.get("id"), **outcome}, headers=headers)


def _refusal(call: Mapping[str, Any], error: Exception) -> Response:
    headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, ServerBusy) else None
    return _reply(call, {"error": {"code": -32000, "message": str(error)}}, headers)
