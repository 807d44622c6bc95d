"""The stateful REST face, in the shape of a NeMo Gym resources server.

``POST /seed_session`` with a row starts an episode and sets a cookie; ``POST /<tool>`` with that cookie plays one call,
its arguments as JSON, and answers with the tool message's text; ``POST /verify`` with the row and the ``response`` (the
rollout in OpenAI's Responses format) ends the episode and answers with the reward. What goes beyond NeMo Gym's reply,
error turns with their hints, findings and reward components, is for the host alone, as the cookie is.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from openenv.core.env_server.exceptions import SessionCapacityError

from ..environments import wire
from ..environments.coding import NOT_RUN, SessionError
from ..environments.frames import Infrastructure, message_text, plain
from .responses import error_turns, last_text
from .sessions import Archive, SessionServer, find_episode

COOKIE = "etude_session"
MAX_FINISHED = 4096
UNPLAYED_S = 900.0
"""A session without a call this long after it was seeded gives way when the server is full: hosts that only try a
seed, as ``validate`` commands do, leave such sessions behind and have no way to end them."""
CHOICES = ("task_id", "split", "index", "fork_of")
NO_SESSION = "no session: POST /seed_session first, and send the cookie of its answer along"
NO_TASK = (
    "seed_session: the row names no task: give it a task_id, or a split and an index; "
    "`etude export DIR --format nemo-gym` writes such rows"
)


@dataclass
class RestSession:
    """One rollout. ``failure`` is what made it void; ``over`` says that no call is played any more."""

    session_id: str
    environment: wire.EtudeEnvironment
    episode_id: str
    token: str
    over: bool = False
    played: bool = False
    failure: Infrastructure | None = None
    seeded: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class RestFace:
    """The sessions by their cookies. A graded one is kept, without its sandbox, so that ``/verify`` can be repeated."""

    def __init__(self, server: SessionServer, archive: Archive) -> None:
        self._server = server
        self._archive = archive
        self._sessions: OrderedDict[str, RestSession] = OrderedDict()

    async def seed(self, row: Mapping[str, Any], cookie: str | None) -> tuple[str, dict[str, Any]]:
        """Start the row's episode; the session that ``cookie`` names ends. Returns the new cookie and the reply.

        Raises SessionError, SessionCapacityError, Infrastructure.
        """
        given = {name: row[name] for name in wire.ResetArguments.model_fields if row.get(name) is not None}
        if not any(name in given for name in CHOICES):
            raise SessionError(NO_TASK)
        before = self._sessions.pop(cookie, None) if cookie else None
        if before is not None:
            await self._server.end(before.session_id)
        session_id, environment = await self._open()
        try:
            first = await environment.reset_async(**given)
        except BaseException:
            await self._server.end(session_id)
            raise
        state = environment.state
        made = secrets.token_urlsafe(32)
        self._sessions[made] = RestSession(session_id, environment, state.episode_id or "", environment.token)
        self._sessions[made].over = first.done
        self._forget()
        told = {"episode_id": state.episode_id, "task_id": state.task_id, "workdir": first.workdir}
        return made, {**told, "prompt": first.prompt, "tools": first.tools}

    async def _open(self) -> tuple[str, wire.EtudeEnvironment]:
        try:
            return await self._server.open()
        except SessionCapacityError:
            before = time.monotonic() - UNPLAYED_S
            for session in [s for s in self._sessions.values() if not s.played and s.seeded < before]:
                await self._server.end(session.session_id)
            return await self._server.open()

    async def call(self, cookie: str | None, tool: str, arguments: Any) -> str:
        """One tool call as a turn of its own; the text of its answer. Raises SessionError, Infrastructure."""
        session = self._find(cookie)
        async with session.lock:
            if session.failure is not None:
                raise session.failure
            if session.over:
                return NOT_RUN
            self._touch(session)
            session.played = True
            try:
                observation = await session.environment.call(tool, arguments)
            except Infrastructure as failure:
                await self._void(session, failure)
                raise
            session.over = observation.done
            return message_text(observation)

    async def verify(self, cookie: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
        """End and grade the episode, once; the reply is the same each time. Raises SessionError, Infrastructure."""
        session = self._find(cookie)
        async with session.lock:
            if session.failure is not None:
                raise session.failure
            if self._server.touch(session.session_id):
                await self._finish(session, body)
        row = find_episode(self._server, self._archive, session.episode_id, session.token)
        episode = json.loads(row) if row is not None else {}
        reward = episode.get("reward")
        if reward is None or not reward["valid"]:
            raise SessionError("this session ended before it was graded, so it has no score: seed another")
        return reply(episode, body)

    def _find(self, cookie: str | None) -> RestSession:
        session = self._sessions.get(cookie or "")
        if session is None:
            raise SessionError(NO_SESSION)
        return session

    def _touch(self, session: RestSession) -> None:
        if not self._server.touch(session.session_id):
            raise SessionError("this session has ended: seed another")

    async def _finish(self, session: RestSession, body: Mapping[str, Any]) -> None:
        """An agent that stopped without ``submit`` made turns without a call: two of them end any episode."""
        said = last_text(body.get("response"))
        try:
            for text in (said, ""):
                if not session.over:
                    seen = await session.environment.step_async(wire.Action(text=text))
                    session.over = seen.done
            if not session.over:
                raise Infrastructure("the episode did not end after two turns without a call")
        except Infrastructure as failure:
            await self._void(session, failure)
            raise
        await self._server.end(session.session_id)

    async def _void(self, session: RestSession, failure: Infrastructure) -> None:
        session.over, session.failure = True, failure
        await self._server.end(session.session_id)

    def _forget(self) -> None:
        """Drop the oldest of those that have ended."""
        ended = [key for key, session in self._sessions.items() if not self._server.has(session.session_id)]
        for key in ended[: max(0, len(ended) - MAX_FINISHED)]:
            del self._sessions[key]


def reply(episode: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """What ``/verify`` answers for a graded episode, as it is served.

    ``reward``, ``responses_create_params`` and ``response`` are NeMo Gym's, ``reward_components`` too, and each
    component is a number of its own besides, because its metrics do not look into mappings. ``hints`` is one text,
    empty when there was nothing to say.
    """
    errors = error_turns(episode, body.get("response"))
    texts = list(dict.fromkeys(hint.text for error in errors for hint in error.hints))
    reward = episode["reward"]
    return {
        **reward["components"],
        "reward": reward["value"],
        "reward_components": reward["components"],
        "error_turns": [error.model_dump(mode="json") for error in errors],
        "n_error_turns": len(errors),
        "hints": "\n".join(texts),
        "findings": episode["findings"],
        "n_findings": len(episode["findings"]),
        "end": episode["end"],
        "assurance": reward["assurance"],
        "sandbox": episode["sandbox"],
        "task_id": episode["task_id"],
        "episode_id": episode["episode_id"],
        "responses_create_params": body.get("responses_create_params"),
        "response": body.get("response"),
    }


def add_rest_routes(app: FastAPI, server: SessionServer, archive: Archive) -> None:
    """Add the face. Last of all routes: the one for tools takes every path that no other has."""
    face = RestFace(server, archive)

    @app.post("/seed_session", tags=["REST session"], summary="Start the episode of a row; sets the session's cookie")
    async def seed_session(request: Request) -> Response:
        cookie, told = await face.seed(await _object(request, "seed_session"), request.cookies.get(COOKIE))
        return _with_cookie(JSONResponse(told), cookie)

    @app.post("/verify", tags=["REST session"], summary="End the session's episode and grade it")
    async def verify(request: Request) -> Response:
        cookie = request.cookies.get(COOKIE)
        told = await face.verify(cookie, await _object(request, "verify"))
        return _with_cookie(JSONResponse(told, headers={"Cache-Control": "no-store"}), cookie)

    @app.post("/{tool}", tags=["REST session"], summary="Call a tool of the session; any name is a turn")
    async def call_tool(tool: str, request: Request) -> Response:
        cookie = request.cookies.get(COOKIE)
        text = await face.call(cookie, tool, _arguments(await request.body()))
        return _with_cookie(PlainTextResponse(text), cookie)


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
