"""Routes of the REST session, and the choice among them: a path may be a tool's name that a model invented."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from ...environments.wire_values import plain
from ...errors import SessionError
from ..sessions import SessionServer
from ..workers.request_head import COOKIE
from .left_clients import has_left
from .rest_session import PlayedAsCall, RestFace

NO_CALL = 'session: the body must be a call, {"name": ..., "arguments": ...}'
TAGS: list[str | Enum] = ["REST session"]


class _SessionRoute(Route):
    """Route of any path, for requests with the cookie of a session that is being played."""

    def __init__(self, face: RestFace, endpoint: Any) -> None:
        super().__init__("/{tool:path}", endpoint, methods=["POST"], include_in_schema=False)
        self._face = face

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        if is_post and self._face.plays(Request(scope).cookies.get(COOKIE)):
            return super().matches(scope)
        return Match.NONE, {}


def add_rest_routes(app: FastAPI, server: SessionServer) -> None:
    """Add the routes: before all others for cookies of running sessions, after them for names of tools."""
    face, routes = RestFace(server), app.router.routes
    others = list(routes)
    routes.clear()

    @app.post("/seed_session", tags=TAGS, summary="Start the episode of a row and set the session's cookie")
    async def seed_session(request: Request) -> Response:
        cookie, first = await face.seed(await _object(request, "seed_session"), request.cookies.get(COOKIE))
        if await has_left(request):
            await face.abandon(cookie)
        return _with_cookie(JSONResponse(first), cookie)

    @app.post("/verify", tags=TAGS, summary="End the session's episode and grade it")
    async def verify(request: Request) -> Response:
        cookie = request.cookies.get(COOKIE)
        grade = await face.verify(cookie, await _object(request, "verify"))
        return _with_cookie(JSONResponse(grade, headers={"Cache-Control": "no-store"}), cookie)

    @app.patch("/session", tags=TAGS, summary="Call the tool of the session that the body names")
    async def call_in_body(request: Request) -> Response:
        body = await _object(request, "session")
        if "name" not in body:
            raise SessionError(NO_CALL)
        cookie = request.cookies.get(COOKIE)
        text = await face.call(cookie, body["name"], body.get("arguments", {}))
        return _with_cookie(PlainTextResponse(text), cookie)

    async def call_tool(request: Request) -> Response:
        cookie = request.cookies.get(COOKIE)
        if not face.knows(cookie) and (methods := _methods_of(others, request.scope)):
            raise HTTPException(405, "Method Not Allowed", {"Allow": ", ".join(methods)})
        text = await face.call(cookie, request.path_params["tool"], _arguments(await request.body()))
        return _with_cookie(PlainTextResponse(text), cookie)

    async def answer_call(request: Request, answer: Exception) -> Response:
        return _with_cookie(PlainTextResponse(str(answer), 409), request.cookies.get(COOKIE))

    app.add_exception_handler(PlayedAsCall, answer_call)
    routes += [_SessionRoute(face, call_tool), *others]
    app.post("/{tool}", tags=TAGS, summary="Call a tool of the session; any name is a turn")(call_tool)


def _methods_of(routes: Sequence[BaseRoute], scope: Scope) -> list[str]:
    """Return the methods of the routes with the path of a request that has none of them."""
    matching = [route for route in routes if route.matches(scope)[0] == Match.PARTIAL]
    return sorted({method for route in matching for method in getattr(route, "methods", None) or ()})


def _with_cookie(response: Response, cookie: str | None) -> Response:
    """Set the cookie again in every answer: NeMo Gym's agents send back the cookies of the last answer alone."""
    if cookie:
        response.set_cookie(COOKIE, cookie, httponly=True, samesite="lax")
    return response


async def _object(request: Request, route: str) -> dict[str, Any]:
    """Return the JSON object in a request's body. Raises SessionError for any other body."""
    try:
        body = plain(json.loads(await request.body() or b"{}"))
    except (ValueError, RecursionError) as error:
        raise SessionError(f"{route}: the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise SessionError(f"{route}: the body is not a JSON object but {type(body).__name__}")
    return body


def _arguments(body: bytes) -> Any:
    """Return the JSON object in a body, or the body's text: what a model wrote is never refused."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
