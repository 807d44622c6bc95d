"""Middleware that turns requests away before anything else sees them, and gives each one a name."""

from __future__ import annotations

import logging
import math
import re
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..admission.limits import client_of
from .api_key import has_key, is_view
from .host_names import VARIABLE, HostNames
from .request_rates import Rates

log = logging.getLogger(__name__)

OPEN_PATHS = frozenset(("/health", "/healthz", "/readyz"))
"""Paths that need no key and have no rate limit, because orchestrators probe them."""
REQUEST_ID = "x-request-id"
_ID = re.compile(r"[\w.:-]{1,64}")

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Name of the current request; for a frame, that of its connection, a dot and the frame's number from 1."""


class Access:
    """ASGI middleware that refuses requests that may not be served.

    - to a name that is not the server's (421)
    - from pages of other sites (403)
    - more often than a client may ask (429)
    - without the key (401)

    A WebSocket is refused with 403, or with 429. ``refused`` is called with ``host``, ``origin``, ``rate`` or ``key``.
    Every answer has the header ``X-Request-Id``: the request's own one, if it has a usable one, else a new one. A
    request that fails in an unforeseen way gets 500 with this name alone, and the log the rest.
    """

    def __init__(
        self,
        app: ASGIApp,
        key: str = "",
        refused: Callable[[str], None] = lambda reason: None,
        hosts: HostNames | None = None,
        requests: Rates | None = None,
        connections: Rates | None = None,
    ) -> None:
        self.app = app
        self._key = key.encode()
        self._refused = refused
        self._hosts = hosts or HostNames()
        self._rates = {"http": requests or Rates(0), "websocket": connections or Rates(0)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        name = headers.get(REQUEST_ID, "")
        name = name if _ID.fullmatch(name) else uuid.uuid4().hex
        request_id.set(name)
        started = False

        async def named(message: Message) -> None:
            nonlocal started
            if message["type"] in ("http.response.start", "websocket.accept", "websocket.http.response.start"):
                started = True
                message.setdefault("headers", [])
                MutableHeaders(scope=message)[REQUEST_ID] = name
            await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            self._refused(refusal[0])
            await _refuse(refusal[1], scope, receive, named)
            return
        try:
            await self.app(scope, receive, named)
        except Exception:
            if scope["type"] == "websocket" or started:
                raise
            log.exception("request %s failed", name)
            answer = JSONResponse({"detail": f"internal error; the server's log has its cause at request {name}"}, 500)
            await answer(scope, receive, named)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[str, Response] | None:
        """Return why a request is refused and the answer to it; None when it may pass."""
        path, host = scope["path"], headers.get("host")
        if not self._hosts.allow(host):
            advice = f"allow it with --allowed-host or {VARIABLE}"
            return "host", JSONResponse({"detail": f"this server is not called {host!r}: {advice}"}, 421)
        if not _same_site(headers):
            return "origin", JSONResponse({"detail": "pages of other sites may not use this server"}, 403)
        if path in OPEN_PATHS:
            return None
        wait = self._rates[scope["type"]].ask(client_of(scope))
        if wait:
            detail = f"too many {'requests' if scope['type'] == 'http' else 'connections'}: try again in {wait:.1f} s"
            return "rate", JSONResponse({"detail": detail}, 429, {"Retry-After": str(math.ceil(wait))})
        if self._key and not has_key(headers, path, self._key):
            detail = "this server needs its API key: send it as the header X-API-Key"
            challenge = 'Basic realm="Etude: the API key is the password"' if is_view(path) else "Bearer"
            return "key", JSONResponse({"detail": detail}, 401, {"WWW-Authenticate": challenge})
        return None


async def _refuse(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        if answer.status_code != 429 or "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})  # sent as 403
            return
    await answer(scope, receive, send)


def _same_site(headers: Headers) -> bool:
    """Return whether a browser's request comes from a page of this server; other clients send no ``Origin``."""
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        place = urlsplit(origin).netloc
    except ValueError:
        return False
    return place in (headers.get("host"), headers.get("x-forwarded-host"))
