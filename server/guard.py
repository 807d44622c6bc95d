"""Guard in front of OpenEnv's routes: limits, frames that OpenEnv cannot read, and sockets that were closed."""

from __future__ import annotations

import asyncio
import json
from contextvars import ContextVar
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..environments.wire_values import holds_more_than, plain
from .access import Rates, request_id
from .admission import client, client_of
from .connections import Lines, Socket, error_frame

MAX_BODY = 16 << 20
"""Bytes of the largest request body or frame."""
BODY_S = 120.0
"""Seconds in which a request body arrives, so that unfinished requests do not hold memory."""
MAX_VALUES = 100_000
"""JSON values of the largest frame or body: parsing a dense one of 16 MiB would block the event loop for seconds."""
_MAX_MARKS = 1 << 20
"""Commas and opening brackets of the largest text that is parsed at all."""
_WAITING_FRAMES = 1024
"""Frames that one socket may send ahead of their answers."""
_ENVELOPE = -4
"""Start depth of an action: the four levels that a protocol puts around it do not count as its own."""
_KEYS = (("data", "type"), ("action", "type"), ("params", "session_id"), ("data", "params", "session_id"))
"""Places whose values OpenEnv looks up in tables."""

transport: ContextVar[str] = ContextVar("transport", default="")
"""Scope type of the current call: ``http`` or ``websocket``."""


class Guard:
    """ASGI middleware that keeps requests away from OpenEnv that it would not survive.

    - A body over ``max_body`` bytes is refused with 413 before anything parses it, and with 408 one that is late.
    - A frame that is not a JSON object gets an error frame in its turn, and the socket stays usable; OpenEnv's own loop
      would end the session.
    - When a socket is closed during a call, the call is cancelled, so that a dead client does not occupy a session;
      but a client that can connect again is waited for (see ``connections``).
    - A frame that comes before its client's rate allows it waits, since few clients could send it again.
    """

    def __init__(
        self, app: ASGIApp, max_body: int = MAX_BODY, rates: Rates | None = None, lines: Lines | None = None
    ) -> None:
        self.app = app
        self.max_body = max_body
        self._rates = rates or Rates(0)
        self._lines = lines or Lines()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        transport.set(scope["type"])
        client.set(client_of(scope))
        await (self._http if scope["type"] == "http" else self._websocket)(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        body = bytearray()
        too_long = not declared.isdigit() or int(declared) > self.max_body
        more = not too_long
        try:
            async with asyncio.timeout(BODY_S):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return
                    body += message.get("body", b"")
                    too_long = len(body) > self.max_body
                    more = message.get("more_body", False) and not too_long
        except TimeoutError:
            late = {"detail": f"the request body did not arrive within {BODY_S:g} seconds"}
            await JSONResponse(late, 408, {"connection": "close"})(scope, receive, send)
            return
        try:
            if too_long:
                raise OverflowError(f"the request body is over {self.max_body} bytes")
            cleaned = _cleaned_body(bytes(body))
        except OverflowError as error:
            await JSONResponse({"detail": str(error)}, 413, {"connection": "close"})(scope, receive, send)
            return
        pending: list[Message] = [{"type": "http.request", "body": cleaned, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self.app(scope, replay, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        frames = _Frames(receive, 2 * self.max_body)
        number, connection, with_ids = 0, request_id.get(), not scope["path"].endswith("/mcp")

        async def next_frame() -> Message:
            nonlocal number
            while True:
                message = await frames.next()
                if wait := self._rates.reserve(client.get()):
                    await asyncio.sleep(wait)
                number += message["type"] == "websocket.receive"
                request_id.set(f"{connection}.{number}")
                problem = None
                if message["type"] == "websocket.receive":
                    problem = _problem(message, self.max_body, with_ids=with_ids)
                if problem is None:
                    return message
                await send({"type": "websocket.send", "text": _error_frame(scope["path"], *problem)})

        try:
            await self._lines.carry(self.app, scope, Socket(next_frame, send, frames))
        finally:
            frames.stop()


class _Frames:
    """Frames of one socket, in order.

    As soon as a call waits for something, a second task reads ahead, because a socket that is closed during a call must
    be noticed. A call that never waits costs no second task. ``ended`` is done when reading ahead stops: the socket was
    closed, or more than ``max_bytes`` wait (``flooded``).
    """

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.flooded = False
        self.gone: Message | None = None
        self._receive, self._max_bytes = receive, max_bytes
        self._queue: asyncio.Queue[Message] = asyncio.Queue()
        self._bytes = 0
        self._reader: asyncio.Task[None] | None = None
        self._scheduled: asyncio.Handle | None = None

    async def next(self) -> Message:
        """Return the next frame."""
        if self._scheduled is not None:
            self._scheduled.cancel()
        if self._reader is not None:
            message = await self._queue.get()
            self._bytes -= _size(message)
            return message
        message = await self._receive()
        # The event loop runs this only when the call that got the message waits for something else.
        self._scheduled = self._loop.call_soon(self._start_reader)
        return message

    def stop(self) -> None:
        """Stop reading ahead."""
        for handle in (self._scheduled, self._reader):
            if handle is not None:
                handle.cancel()

    def _start_reader(self) -> None:
        self._reader = self._loop.create_task(self._read())

    async def _read(self) -> None:
        # This task never waits for the worker, or a closed socket would be noticed only after the worker's calls.
        try:
            while not self.flooded:
                message = await self._receive()
                self._queue.put_nowait(message)
                if message["type"] == "websocket.disconnect":
                    self.gone = message
                    return
                self._bytes += _size(message)
                waiting = self._queue.qsize()
                self.flooded = waiting > _WAITING_FRAMES or (waiting > 1 and self._bytes > self._max_bytes)
        finally:
            if not self.ended.done():
                self.ended.set_result(None)


def _problem(message: Message, max_size: int, *, with_ids: bool) -> tuple[str, str] | None:
    """Return the code and the reason why a frame is refused; None for one that OpenEnv can read, cleaned in place.

    ``with_ids`` takes a frame's ``id``, which OpenEnv does not know, into the message.
    """
    text = message.get("text")
    if text is None:
        try:
            text = (message.get("bytes") or b"").decode()
        except UnicodeDecodeError:
            return "INVALID_JSON", "frames must be JSON objects in UTF-8"
        message["text"] = text  # a binary frame counts as a text frame
    if len(text) > max_size:
        return "INVALID_JSON", f"the frame is over {max_size} bytes"
    try:
        parsed, value = _parsed(text)
    except (ValueError, RecursionError) as error:
        return "INVALID_JSON", f"Invalid JSON: {error}"
    except OverflowError as error:
        return "VALIDATION_ERROR", str(error)
    if not isinstance(value, dict):
        return "VALIDATION_ERROR", f"a frame must be a JSON object, got {type(value).__name__}"
    action = value.get("data")
    if action is not None and not isinstance(action, dict):
        return "VALIDATION_ERROR", f"data must be a JSON object, got {type(action).__name__}"
    if with_ids and "id" in value:
        value = dict(value)
        message["id"] = value.pop("id")
        if type(message["id"]) is not int or message["id"] < 1:
            return "VALIDATION_ERROR", "the id of a frame must be a whole number from 1 on"
    if value is not parsed:
        message["text"] = json.dumps(value)
    return None


def _cleaned_body(body: bytes) -> bytes:
    """Return a request body that OpenEnv can read or refuses itself. Raises OverflowError for too many values."""
    try:
        parsed, value = _parsed(body.decode()) if body else (None, None)
    except (ValueError, RecursionError):
        return body
    return body if value is parsed else json.dumps(value).encode()


def _parsed(text: str) -> tuple[Any, Any]:
    """Return a JSON value as it was sent and as OpenEnv gets it; they are identical when nothing had to change.

    Raises ValueError, RecursionError, and OverflowError for too many values.
    """
    # Counting marks is cheap; parsing such a text would take seconds.
    marks = text.count("[") + text.count("{") + text.count(",")
    parsed = json.loads(text) if marks <= _MAX_MARKS else None
    if marks > _MAX_MARKS or (marks > MAX_VALUES and holds_more_than(parsed, MAX_VALUES)):
        raise OverflowError(f"more than {MAX_VALUES} JSON values in one message: send less, or longer strings")
    # OpenEnv repeats its input in errors, so everything must be encodable as JSON in UTF-8.
    value = plain(parsed, _ENVELOPE)
    for path in _KEYS:
        value = _with_text_at(value, path)
    return parsed, value


def _with_text_at(value: Any, path: tuple[str, ...]) -> Any:
    """Return ``value`` with an object or a list at ``path`` replaced by its JSON text, which can be a table's key."""
    if not path:
        return json.dumps(value) if isinstance(value, (dict, list)) else value
    inner = value.get(path[0]) if isinstance(value, dict) else None
    replaced = _with_text_at(inner, path[1:])
    return value if replaced is inner else {**value, path[0]: replaced}


def _size(message: Message) -> int:
    return len(message.get("text") or message.get("bytes") or "")


def _error_frame(path: str, code: str, reason: str) -> str:
    if path.endswith("/mcp"):
        number = -32700 if code == "INVALID_JSON" else -32600
        return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": number, "message": reason}})
    return error_frame(code, reason)
