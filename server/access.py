"""Who may use the server: an optional API key, and no pages of other sites; and a name for each request.

The key is sent as ``X-API-Key: KEY`` or ``Authorization: Bearer KEY``. ``GET /episodes/...`` takes the session's token
as Bearer, so there the key must be in ``X-API-Key``. ``/view`` is opened in browsers, which ask for the key as the
password of HTTP's basic authentication; the name is not looked at.
"""

from __future__ import annotations

import base64
import hmac
import re
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..client import KEY_VARIABLE

MIN_KEY = 16
"""Characters of the shortest key that is accepted."""
OPEN_PATHS = frozenset(("/health", "/healthz", "/readyz"))
"""Paths that need no key, because orchestrators probe them."""
REQUEST_ID = "x-request-id"
_ID = re.compile(r"[\w.:-]{1,64}")

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Name of the current request; for a frame, that of its connection, a dot and the frame's number from 1."""


class Access:
    """ASGI middleware that refuses requests without the key (401) and from pages of other sites (403).

    A WebSocket is refused with 403 for either reason.

    ``refused`` is called with ``key`` or ``origin``. Every answer has the header ``X-Request-Id``: the request's own
    one, if it has a usable one, else a new one.
    """

    def __init__(self, app: ASGIApp, key: str = "", refused: Callable[[str], None] = lambda reason: None) -> None:
        self.app = app
        self._key = key.encode()
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        name = headers.get(REQUEST_ID, "")
        name = name if _ID.fullmatch(name) else uuid.uuid4().hex
        request_id.set(name)

        async def named(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.accept"):
                message.setdefault("headers", [])
                MutableHeaders(scope=message)[REQUEST_ID] = name
            await send(message)

        if not _same_site(headers):
            self._refused("origin")
            answer = JSONResponse({"detail": "pages of other sites may not use this server"}, 403)
        elif not self._has_key(headers, scope["path"]):
            self._refused("key")
            detail = "this server needs its API key: send it as the header X-API-Key"
            challenge = 'Basic realm="Etude: the API key is the password"' if _is_view(scope["path"]) else "Bearer"
            answer = JSONResponse({"detail": detail}, 401, {"WWW-Authenticate": challenge})
        else:
            await self.app(scope, receive, named)
            return
        if scope["type"] == "websocket":  # uvicorn logs an error for any other answer than this, which it sends as 403
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        else:
            await answer(scope, receive, named)

    def _has_key(self, headers: Headers, path: str) -> bool:
        """Return whether a request has the key or needs none. Keys are compared in constant time."""
        if not self._key or path in OPEN_PATHS:
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        candidates = [headers.get("x-api-key", "")]
        if scheme.lower() == "bearer" and not path.startswith("/episodes/"):
            candidates.append(bearer.strip())
        if scheme.lower() == "basic" and _is_view(path):
            candidates.append(_password(bearer))
        return any(hmac.compare_digest(text.encode("utf-8", "replace"), self._key) for text in candidates)


def _is_view(path: str) -> bool:
    return path == "/view" or path.startswith("/view/")


def _password(credentials: str) -> str:
    """Return the password in the credentials of basic authentication; empty for anything else."""
    try:
        return base64.b64decode(credentials.strip(), validate=True).decode("utf-8", "replace").partition(":")[2]
    except ValueError:
        return ""


def check_key(key: str) -> str:
    """Return a usable key. Raises ValueError for one that is short or that no header can carry."""
    if key and (len(key) < MIN_KEY or not key.isascii() or not key.isprintable() or " " in key):
        raise ValueError(
            f"{KEY_VARIABLE} must have {MIN_KEY} printable ASCII characters or more, and no space; "
            "`openssl rand -hex 32` makes one"
        )
    return key


def _same_site(headers: Headers) -> bool:
    """Return whether a browser's request comes from a page of this server; other clients send no ``Origin``."""
    origin = headers.get("origin")
    if origin is None:
        return True
    return urlsplit(origin).netloc in (headers.get("host"), headers.get("x-forwarded-host"))
