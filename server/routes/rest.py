"""The REST face's routes, and which of them a request means: a path may be a name that a model made up."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.routing import Match, Route
from starlette.types import Scope

from ...environments.wire_values import plain
from ...errors import SessionError
from ..sessions import SessionServer
from .rest_session import COOKIE, PlayedAsCall, RestFace

NO_CALL = 'session: the body is a call, {"name": ..., "arguments": ...}'


class _SessionRoute(Route):
    """Any path, for the cookies of sessions that are being played."""

    def __init__(self, face: RestFace, endpoint: Any) -> None:
        super().__init__("/{tool:path}", endpoint, methods=["POST"], include_in_schema=False)
        self._face = face

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        asked = scope["type"] == "http" and scope["method"] == "POST"
        if asked and self._face.plays(Request(scope).cookies.get(COOKIE)):
            return super().matches(scope)
        return Match.NONE, {}


def add_rest_routes(app: FastAPI, server: SessionServer) -> None:
    """Add the face: before all other routes for the cookies of its sessions, behind them for the names of tools."""
    face, routes = RestFace(server), app.router.routes
    others = list(routes)
    routes.clear()

    @app.post("/seed_session", tags=["REST session"], summary="Start the episode of a row; sets the session's cookie")
    async def seed_session(request: Request) -> Response:
        cookie, told = await face.seed(await _object(request, "seed_session"), request.cookies.get(COOKIE))
        return _with_cookie(JSONResponse(told), cookie)

    @app.post("/verify", tags=["REST session"], summary="End the session's episode and grade it, for its row")
    async def verify(request: Request) -> Response:
        cookie = request.cookies.get(COOKIE)
        told = await face.verify(cookie, await _object(request, "verify"))
        return _with_cookie(JSONResponse(told, headers={"Cache-Control": "no-store"}), cookie)

    @app.patch("/session", tags=["REST session"], summary="Call a tool of the session, its name in the body")
    async def call_in_body(request: Request) -> Response:
        body = await _object(request, "session")
        if "name" not in body:
            raise SessionError(NO_CALL)
        cookie = request.cookies.get(COOKIE)
        text = await face.call(cookie, body["name"], body.get("arguments", {}))
        return _with_cookie(PlainTextResponse(text), cookie)

    async def call_tool(request: Request) -> Response:
        cookie = request.cookies.get(COOKIE)
        text = await face.call(cookie, request.path_params["tool"], _arguments(await request.body()))
        return _with_cookie(PlainTextResponse(text), cookie)

    async def played_as_call(request: Request, played: Exception) -> Response:
        return _with_cookie(PlainTextResponse(str(played), 409), request.cookies.get(COOKIE))

    app.add_exception_handler(PlayedAsCall, played_as_call)
    routes += [_SessionRoute(face, call_tool), *others]
    app.post("/{tool}", tags=["REST session"], summary="Call a tool of the session; any name is a turn")(call_tool)


def _with_cookie(response: Response, cookie: str | None) -> Response:
    """In every answer: NeMo Gym's agents send back the cookies of the last answer alone."""
    if cookie:
        response.set_cookie(COOKIE, cookie, httponly=True, samesite="lax")
    return response


async def _object(request: Request, route: str) -> dict[str, Any]:
    """Raises SessionError for a body that is no JSON object."""
    try:
        body = plain(json.loads(await request.body() or b"{}"))
    except (ValueError, RecursionError) as error:
        raise SessionError(f"{route}: the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise SessionError(f"{route}: the body is a JSON object, this is {type(body).__name__}")
    return body


def _arguments(body: bytes) -> Any:
    """A JSON object, or the text as it came: what the model wrote is never refused."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
