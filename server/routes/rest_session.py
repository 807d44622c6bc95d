"""The stateful REST face, in the shape of a NeMo Gym resources server.

``POST /seed_session`` with a row starts an episode and sets a cookie; ``POST /<tool>`` with that cookie plays one call,
its arguments as JSON, and answers with the tool message's text; ``POST /verify`` with the row and the ``response`` (the
rollout in OpenAI's Responses format) ends the episode and answers with the reward. What goes beyond NeMo Gym's reply,
error turns with their hints, findings and reward components, is for the host alone, as the cookie is.

Hosts put the name that the model wrote into the path, so a path alone tells nothing about who asks. As long as a
session is not graded, whatever is posted with its cookie is a turn, to the other faces' routes as well. To grade it
takes the row that seeded it, field by field, which no policy reads. ``PATCH /session`` plays a call whose name is in
the body: a name chooses a path, never a method.
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

from openenv.core.env_server.exceptions import SessionCapacityError

from ...environments import openenv as wire
from ...environments.reset_args import ResetArgs
from ...environments.tool_protocol import NOT_RUN
from ...environments.wire_values import message_text
from ...errors import InfrastructureError, SessionError
from ..sessions import SessionServer
from .responses import last_text, reply

log = logging.getLogger(__name__)

COOKIE = "etude_session"
MAX_FINISHED = 4096
MAX_KEPT = 64 << 20
"""Bytes of the rows and replies that are kept of sessions that have ended."""
UNPLAYED_S = 900.0
"""A session without a call this long after it was seeded gives way when the server is full: hosts that only try a
seed, as ``validate`` commands do, leave such sessions behind and have no way to end them."""
CHOICES = ("task_id", "split", "index", "fork_of")
PROMPT, ROLLOUT = "responses_create_params", "response"
NO_SESSION = "no session: POST /seed_session first, and send the cookie of its answer along"
ENDED = "this session has ended: seed another"
NO_TASK = (
    "seed_session: the row names no task: give it a task_id, or a split and an index; "
    "`etude export DIR --format nemo-gym` writes such rows"
)
NOT_ITS_ROW = f"verify: the body is the row that seeded the session, unchanged, with its {PROMPT}, and the {ROLLOUT}"


class PlayedAsCall(Exception):
    """What only a host may ask came as a call of the model, and was played as one; the message is its answer."""


@dataclass
class RestSession:
    """One rollout. ``row`` is what seeded it, without the prompt, which hosts may rewrite.

    ``failure`` is what made it void; ``over`` says that no call is played any more. ``turns`` are the agent's, without
    those that only ended the episode. ``reply`` is the grade as ``/verify`` told it first, packed. ``size`` is about
    how many bytes are kept when it has ended.
    """

    session_id: str
    row: dict[str, Any]
    episode_id: str
    over: bool = False
    played: bool = False
    failure: InfrastructureError | None = None
    turns: int | None = None
    reply: bytes | None = None
    seeded: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = len(json.dumps(self.row))

    def is_seeded_by(self, row: Mapping[str, Any]) -> bool:
        return all(name in row and row[name] == value for name, value in self.row.items())


class RestFace:
    """The sessions by their cookies. Of one that has ended, what ``/verify`` repeats is kept, and no environment."""

    def __init__(self, server: SessionServer) -> None:
        self._server = server
        self._sessions: OrderedDict[str, RestSession] = OrderedDict()

    def plays(self, cookie: str | None) -> bool:
        """Whether a model may be writing what comes with this cookie: its session is not graded yet."""
        session = self._sessions.get(cookie or "")
        return session is not None and session.reply is None

    async def seed(self, row: Mapping[str, Any], cookie: str | None) -> tuple[str, dict[str, Any]]:
        """Start the row's episode. Returns the new cookie and the reply.

        With the cookie of a running session that is a call of its model, except for the same row again before any call.
        Raises PlayedAsCall, SessionError, SessionCapacityError, InfrastructureError.
        """
        before = self._sessions.get(cookie or "")
        if before is not None:
            async with before.lock:
                if self._server.has(before.session_id) and (before.played or _without_prompt(row) != before.row):
                    await self._play_as_call(before, "seed_session", row)
        given = {name: row[name] for name in ResetArgs.model_fields if row.get(name) is not None}
        if not any(name in given for name in CHOICES):
            raise SessionError(NO_TASK)
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
        self._sessions[made] = RestSession(session_id, _without_prompt(row), state.episode_id or "", over=first.done)
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

    async def call(self, cookie: str | None, tool: Any, arguments: Any) -> str:
        """One tool call as a turn of its own; the text of its answer. Raises SessionError, InfrastructureError."""
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
        """End and grade the episode, once; the reply is the same each time.

        A body that is not the host's is a call of the model while the session runs, refused later. Raises PlayedAsCall,
        SessionError, InfrastructureError.
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
        """An agent that stopped without ``submit`` made turns without a call: two of them end any episode."""
        said = last_text(body[ROLLOUT])
        if session.turns is None:
            session.turns = environment.turns + bool(said and not session.over)
        try:
            for text in (said, ""):
                if not session.over:
                    seen = await environment.step_async(wire.Action(text=text))
                    session.over = seen.done
            if not session.over:
                raise InfrastructureError("the episode did not end after two turns without a call")
        except InfrastructureError as failure:
            await self._void(session, failure)
            raise
        # A long rollout takes a while to annotate, and others play meanwhile.
        session.reply = await asyncio.to_thread(_graded, session, environment, body[ROLLOUT])
        session.size += len(session.reply or b"")
        await self._server.end(session.session_id)
        self._forget()

    async def _void(self, session: RestSession, failure: InfrastructureError) -> None:
        session.over, session.failure = True, failure
        await self._server.end(session.session_id)
        self._forget()

    def _forget(self) -> None:
        """Drop the oldest of those that have ended, until few and small enough are left."""
        ended = [key for key, session in self._sessions.items() if not self._server.has(session.session_id)]
        kept = sum(self._sessions[key].size for key in ended)
        for number, key in enumerate(ended):
            if len(ended) - number <= MAX_FINISHED and kept <= MAX_KEPT:
                return
            kept -= self._sessions.pop(key).size


def _graded(session: RestSession, environment: wire.EtudeEnvironment, response: Any) -> bytes | None:
    """The grade of the episode that has just ended, packed; ``None`` when it is void."""
    episode = environment.served(session.episode_id)
    if episode is None or episode["reward"] is None or not episode["reward"]["valid"]:
        return None
    told = reply(episode, response, session.turns, environment.changed)
    return zlib.compress(json.dumps(told).encode())


def _without_prompt(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != PROMPT}
