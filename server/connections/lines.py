"""All sessions of ``/ws`` on one server, and the way back to them by their tokens."""

from __future__ import annotations

import asyncio
import hmac
import math
import os
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Scope

from ...client import RECONNECT_HEADER, SESSION_HEADER
from .line import Line
from .socket import Socket, error_frame

RECONNECT_S = 60.0
"""Seconds that a session is kept after its socket was lost, by default."""
_GONE = (
    "no session with this token is here: it has ended, waited too long for its client, or the server was restarted; "
    "reset in a new session"
)


class Lines:
    """The sessions of one server that are played over ``/ws``. ``seconds``: how long one waits for its client; 0: not.

    A session that was opened over HTTP and is played over ``/ws?session_id=`` lives by itself, and waits for no socket.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._headers = [(RECONNECT_HEADER.lower().encode(), f"{seconds:g}".encode())]
        self._lines: set[Line] = set()

    @property
    def waiting(self) -> int:
        """Return the number of sessions that wait for their client to connect again."""
        return sum(line.waits for line in self._lines)

    async def carry(self, app: ASGIApp, scope: Scope, socket: Socket) -> None:
        """Play a session over a socket, a new one or the one whose token the request carries."""
        token = Headers(scope=scope).get(SESSION_HEADER) if "headers" in scope else None
        is_episode = scope["path"].endswith("/ws")
        if token is None or not is_episode:
            is_kept = is_episode and "session_id" not in parse_qs(scope.get("query_string", b"").decode("latin-1"))
            line = Line(self._seconds if is_kept else 0.0, self._headers if is_episode else [])
            self._lines.add(line)
            line.attach(socket)
            line.start(app, scope, self._lines.discard)
            await line.carry(socket)
            return
        await socket.next()  # the handshake
        await socket.send({"type": "websocket.accept", "headers": self._headers})
        line_of_token = self._find(token)
        if line_of_token is None:
            await socket.send({"type": "websocket.send", "text": error_frame("SESSION_GONE", _GONE)})
            await socket.send({"type": "websocket.close", "code": 1000})
            return
        line_of_token.attach(socket)
        await line_of_token.carry(socket)

    async def stop(self) -> None:
        """End every session."""
        await asyncio.gather(*(line.end() for line in list(self._lines)))

    def _find(self, token: str) -> Line | None:
        """Return the session with a token. Tokens are compared in constant time."""
        expected = token.encode("utf-8", "replace")
        lines = [line for line in self._lines if line.token and not line.ended]
        matches = [line for line in lines if hmac.compare_digest(line.token.encode(), expected)]
        return matches[0] if matches else None


def read_seconds(variable: str, default: float, none: str, chosen: float | None = None) -> float:
    """Return the chosen seconds, else those in an environment variable, else the default. Raises ValueError.

    none: what 0 means, for the error.
    """
    text = os.environ.get(variable, "") if chosen is None else str(chosen)
    try:
        seconds = float(text or default)
    except ValueError:
        seconds = -1.0
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{variable} is {text!r}: give a number of seconds, 0 {none}")
    return seconds


def reconnect_seconds(chosen: float | None = None) -> float:
    """Return the chosen seconds, else those in ETUDE_RECONNECT, else RECONNECT_S. Raises ValueError."""
    return read_seconds("ETUDE_RECONNECT", RECONNECT_S, "to keep no session", chosen)
