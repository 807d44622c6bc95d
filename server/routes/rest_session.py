"""Sessions of the REST face, which has the shape of a NeMo Gym resources server.

- ``POST /seed_session`` with a row starts an episode and sets a cookie.
- ``POST /TOOL`` with that cookie plays one call, its arguments as JSON, and answers with the text of the tool message.
- ``POST /verify`` with the row and the ``response`` (the rollout in OpenAI's Responses format) ends the episode and
  answers with the reward. Beyond NeMo Gym's reply it carries error turns, hints, findings and reward components; like
  the cookie, they are for the host alone.
- ``PATCH /session`` plays a call whose name is in the body: a model's text can choose a path, but never a method.

Hosts put the tool name that the model wrote into the path, so a path does not show whether the host or the model made
the request. Until a session is graded, whatever is posted with its cookie is therefore a turn, also on the routes of
the other faces. Grading takes the row that seeded the session, field by field, which no policy can read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...environments import openenv as wire
from ...environments.reset_args import ResetArgs
from ...environments.tool_protocol import NOT_RUN
from ...environments.wire_values import message_text
from ...errors import InfrastructureError, SessionError
from ..admission import ClientBusy, ServerBusy
from ..sessions import SessionServer
from .responses import last_text, reply

log = logging.getLogger(__name__)

MAX_FINISHED = 4096
"""Ended sessions whose rows and replies are stored."""
MAX_BYTES = 64 << 20
"""Bytes of these rows and replies."""
UNPLAYED_S = 900.0
"""Seconds after which a session without a call may be ended when the server is full: hosts that only try a seed, as
``validate`` commands do, leave such sessions behind and have no way to end them."""
CHOICES = ("task_id", "split", "index", "fork_of")
PROMPT, ROLLOUT = "responses_create_params", "response"
NO_SESSION = "no session: POST /seed_session first, and send the cookie of its answer along"
ENDED = "this session has ended: seed another"
NO_TASK = (
    "seed_session: the row names no task: give it a task_id, or a split and an index; "
    "`etude export DIR --format nemo-gym` writes such rows"
)
NOT_ITS_ROW = (
    f"verify: the body must be the row that seeded the session, unchanged, with its {PROMPT}, and the {ROLLOUT}"
)


class PlayedAsCall(Exception):
    """Raised when a host's request came as a call of the model and was played as one; the message is its answer."""


@dataclass
class RestSession:
    """One rollout."""

    session_id: str
    """Id of the server's session."""
    row: dict[str, Any]
    """Row that seeded it, without the prompt, which hosts may rewrite."""
    episode_id: str
    """Id of the episode."""
    over: bool = False
    """Whether no further call is played."""
    played: bool = False
    """Whether a call was played."""
    failure: InfrastructureError | None = None
    """Failure that made it void."""
    turns: int | None = None
    """The agent's turns, without those that only ended the episode."""
    reply: bytes | None = None
    """The first reply of ``/verify``, compressed."""
    seeded: float = field(default_factory=time.monotonic)
    """Time of its seed, in seconds of the monotonic clock."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock that keeps its calls in order."""
    size: int = field(init=False)
    """Bytes that are stored after it has ended, about."""

    def __post_init__(self) -> None:
        self.size = len(json.dumps(self.row))

    def is_seeded_by(self, row: Mapping[str, Any]) -> bool:
        """Return whether ``row`` holds every field of the row that seeded the session."""
        return all(name in row and row[name] == value for name, value in self.row.items())


class RestFace:
    """Sessions by their cookies. An ended session keeps only what ``/verify`` repeats, and no environment."""

    def __init__(self, server: SessionServer) -> None:
        self._server = server
        self._sessions: OrderedDict[str, RestSession] = OrderedDict()

    def plays(self, cookie: str | None) -> bool:
        """Return whether a model may have written a request with this cookie: its session is not graded yet."""
        session = self._sessions.get(cookie or "")
        return session is not None and session.reply is None

    def knows(self, cookie: str | None) -> bool:
        """Return whether a cookie is that of a session, running or ended."""
        return (cookie or "") in self._sessions

    async def seed(self, row: Mapping[str, Any], cookie: str | None) -> tuple[str, dict[str, Any]]:
        """Start the row's episode. Return the new cookie and the reply.

        With the cookie of a running session the request is a call of its model, except for the same row again before
        any call. Raises PlayedAsCall, SessionError, ServerBusy, InfrastructureError.
        """
        before = self._sessions.get(cookie or "")
        if before is not None:
            async with before.lock:
                if self._server.has(before.session_id) and (before.played or _without_prompt(row) != before.row):
                    await self._play_as_call(before, "seed_session", row)
        arguments = {name: row[name] for name in ResetArgs.model_fields if row.get(name) is not None}
        if not any(name in arguments for name in CHOICES):
            raise SessionError(NO_TASK)
        if before is not None:
            await self._server.end(before.session_id)
        session_id, environment = await self._open()
        try:
            first = await environment.reset_async(**arguments)
        except BaseException:
            await self._server.end(session_id)
            raise
        state = environment.state
        new_cookie = self._server.place.prefix + secrets.token_urlsafe(32)
        session = RestSession(session_id, _without_prompt(row), state.episode_id or "", over=first.done)
        self._sessions[new_cookie] = session
        self._forget()
        names = {"episode_id": state.episode_id, "task_id": state.task_id, "workdir": first.workdir}
        return new_cookie, {**names, "prompt": first.prompt, "tools": first.tools}

    async def _open(self) -> tuple[str, wire.EtudeEnvironment]:
        try:
            return await self._server.open()
        except ServerBusy as busy:
            limit, whole = time.monotonic() - UNPLAYED_S, not isinstance(busy, ClientBusy)
            unplayed = [s.session_id for s in self._sessions.values() if not s.played and s.seeded < limit]
            unplayed = [name for name in unplayed if self._server.has(name) and (whole or self._server.is_own(name))]
            if not unplayed:
                raise
            for session_id in unplayed:
                await self._server.end(session_id)
            return await self._server.open()

    async def abandon(self, cookie: str) -> None:
        """End the session of a cookie that no client has."""
        await self._server.end(self._sessions.pop(cookie).session_id)

    async def call(self, cookie: str | None, tool: Any, arguments: Any) -> str:
        """Play one tool call as a turn and return its answer. Raises SessionError, InfrastructureError."""
        session = self._find(cookie)
        async with session.lock:
            return await self._play(session, tool, arguments)

    async def _play(self, session: RestSession, tool: Any, arguments: Any) -> str:
        if session.failure is not None:
            raise session.failure
        if session.over:
            return NOT_RUN
        environment = self._server.use(session.session_id)
        if environment is None:
            raise SessionError(ENDED)
        session.played = True
        try:
            observation = await environment.call(tool, arguments)
        except InfrastructureError as failure:
            await self._void(session, failure)
            raise
        session.over = observation.done
        return message_text(observation)

    async def _play_as_call(self, session: RestSession, tool: str, body: Mapping[str, Any]) -> None:
        log.warning("/%s with the cookie of a running session, and not with its row, was played as a call", tool)
        raise PlayedAsCall(await self._play(session, tool, dict(body)))

    async def verify(self, cookie: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
        """End and grade the episode once, and return the same reply each time.

        A body that is not the host's is a call of the model while the session runs, and refused afterwards. Raises
        PlayedAsCall, SessionError, InfrastructureError.
        """
        session = self._find(cookie)
        async with session.lock:
            if session.failure is not None:
                raise session.failure
            environment = self._server.use(session.session_id)
            if not ({PROMPT, ROLLOUT} <= body.keys() and session.is_seeded_by(body)):
                if environment is not None:
                    await self._play_as_call(session, "verify", body)
                raise SessionError(NOT_ITS_ROW)
            if environment is not None:
                await self._finish(session, environment, body)
        if session.reply is None:
            raise SessionError("this session ended before it was graded, so it has no score: seed another")
        return {**json.loads(zlib.decompress(session.reply)), PROMPT: body[PROMPT], ROLLOUT: body[ROLLOUT]}

    def _find(self, cookie: str | None) -> RestSession:
        session = self._sessions.get(cookie or "")
        if session is None:
            raise SessionError(NO_SESSION)
        return session

    async def _finish(self, session: RestSession, environment: wire.EtudeEnvironment, body: Mapping[str, Any]) -> None:
        """End and grade an episode; one without ``submit`` ends by two turns without a call, as in any session."""
        final_text = last_text(body[ROLLOUT])
        if session.turns is None:
            session.turns = environment.turns + bool(final_text and not session.over)
        try:
            for text in (final_text, ""):
                if not session.over:
                    session.over = (await environment.step_async(wire.Action(text=text))).done
            if not session.over:
                raise InfrastructureError("the episode did not end after two turns without a call")
        except InfrastructureError as failure:
            await self._void(session, failure)
            raise
        # Annotating a long rollout takes a while, and other sessions play in the meantime.
        session.reply = await asyncio.to_thread(_graded, session, environment, body[ROLLOUT])
        session.size += len(session.reply or b"")
        await self._server.end(session.session_id)
        self._forget()

    async def _void(self, session: RestSession, failure: InfrastructureError) -> None:
        session.over, session.failure = True, failure
        await self._server.end(session.session_id)
        self._forget()

    def _forget(self) -> None:
        """Drop the oldest ended sessions until the others are within the limits."""
        ended = [key for key, session in self._sessions.items() if not self._server.has(session.session_id)]
        stored = sum(self._sessions[key].size for key in ended)
        for number, key in enumerate(ended):
            if len(ended) - number <= MAX_FINISHED and stored <= MAX_BYTES:
                return
            stored -= self._sessions.pop(key).size


def _graded(session: RestSession, environment: wire.EtudeEnvironment, response: Any) -> bytes | None:
    """Return the compressed reply for the episode that has just ended; None when it is void."""
    episode = environment.served(session.episode_id)
    if episode is None or episode["reward"] is None or not episode["reward"]["valid"]:
        return None
    return zlib.compress(json.dumps(reply(episode, response, session.turns, environment.changed)).encode())


def _without_prompt(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != PROMPT}
