"""First bytes of a connection: what decides which worker gets it."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

import h11

from ... import client
from .place import Place, place_in

MAX_HEAD = 64 << 10
"""Bytes of the longest request head."""
MAX_ROUTED_BODY = 17 << 20
"""Bytes of the longest body that is read before the connection is handed over."""
SESSION_HEADER = client.SESSION_HEADER.lower()
"""Header of a WebSocket that connects again: the token of its session."""
NEAR_HEADER = "x-etude-near"
"""Header of a new WebSocket that shall open in the process of another session: the token of that one."""
MCP_HEADER = "mcp-session-id"
"""Header of a request of an MCP client: the id of its session."""
COOKIE = "etude_session"
"""Cookie of a session over plain HTTP."""
_BLOCK = 64 << 10
_OPENING = frozenset(("/seed_session", "/mcp", "/ws"))


@dataclass
class RequestHead:
    """One request, as far as it was read."""

    data: bytes
    """All bytes that were read from the connection."""
    method: str = ""
    """Empty for what is no HTTP request; a worker answers it."""
    path: str = ""
    """Path without the query."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers by their names in lower case; the last one of a name."""
    session_id: str = ""
    """Id of the session that the body of a request to ``/mcp`` names."""

    @property
    def opens_session(self) -> bool:
        """Return whether a session may be opened for this request."""
        connects_again = SESSION_HEADER in self.headers
        return self.path in _OPENING and not connects_again and (self.method == "POST" or "upgrade" in self.headers)

    @property
    def places(self) -> list[Place]:
        """Return the places that the request's tokens name, the most specific header first."""
        scheme, _, bearer = self.headers.get("authorization", "").partition(" ")
        tokens = [*self.chosen, bearer.strip(), self.session_id]
        tokens += self.headers.get("x-session-tokens", "").split()
        return [place for place in map(place_in, tokens) if place is not None]

    @property
    def chosen(self) -> list[str]:
        """Return the tokens of headers that only the process of their session may answer."""
        names = (SESSION_HEADER, NEAR_HEADER, MCP_HEADER)
        return [*(self.headers.get(name, "") for name in names), self._cookie()]

    def _cookie(self) -> str:
        try:
            morsel = SimpleCookie(self.headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return ""
        return morsel.value if morsel is not None else ""


async def read_head(connection: socket.socket) -> RequestHead | None:
    """Return the head of the connection's first request, with its body where that names the session.

    None when the client closes first. A head that is too long is returned as it is. Raises OSError.
    """
    loop, data, end = asyncio.get_running_loop(), bytearray(), -1
    while end < 0 and len(data) <= MAX_HEAD:
        block = await loop.sock_recv(connection, _BLOCK)
        if not block:
            return None
        data += block
        end = data.find(b"\r\n\r\n")
    request = _parsed(bytes(data))
    if request.method == "POST" and request.path == "/mcp":
        declared = request.headers.get("content-length", "")
        length = end + 4 + (int(declared) if declared.isdigit() else 0)
        if "expect" in request.headers:
            await loop.sock_sendall(connection, b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(data) < length <= MAX_ROUTED_BODY:
            block = await loop.sock_recv(connection, _BLOCK)
            if not block:
                return None
            data += block
        request.data, request.session_id = bytes(data), _session_id(bytes(data[end + 4 : length]))
    return request


def _parsed(data: bytes) -> RequestHead:
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    try:
        parser.receive_data(data)
        event = parser.next_event()
    except h11.RemoteProtocolError:
        return RequestHead(data)
    if not isinstance(event, h11.Request):
        return RequestHead(data)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    target = event.target.decode("latin-1").partition("?")[0]
    return RequestHead(data, event.method.decode("latin-1"), target, headers)


def _session_id(body: bytes) -> str:
    try:
        return str(json.loads(body)["params"]["session_id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
