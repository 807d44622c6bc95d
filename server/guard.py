"""What stands in front of OpenEnv's routes: limits, frames that it cannot read, and sockets that went away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any

from ..environments.wire_values import holds_more_than, plain

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 16 << 20
"""Bytes of the largest request body or frame."""
MAX_VALUES = 100_000
"""JSON values of the largest frame or body: a dense one of 16 MiB would keep the event loop busy for seconds."""
_MAX_MARKS = 1 << 20
_WAITING_FRAMES = 1024
_ENVELOPE = -4
"""The levels that a protocol puts around an action do not count as the action's."""

_KEYS = (("data", "type"), ("action", "type"), ("params", "session_id"), ("data", "params", "session_id"))

transport: ContextVar[str] = ContextVar("transport", default="")
"""``http`` or ``websocket``: how the call that is being served came in."""


class Guard:
    """ASGI middleware.

    - A body over ``max_body`` bytes is refused with 413 before anything parses it.
    - A frame that is no JSON object gets an error frame, in its turn, and the socket stays usable: OpenEnv's loop would
      end the session.
    - When a socket goes away in the middle of a call, the call is cancelled, so a dead client does not hold a slot.
    """

    def __init__(self, app: App, max_body: int = MAX_BODY) -> None:
        self.app = app
        self.max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        transport.set(scope["type"])
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self._websocket(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        body = bytearray()
        over = not declared.isdigit() or int(declared) > self.max_body
        more = not over
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            over = len(body) > self.max_body
            more = message.get("more_body", False) and not over
        if over:
            await _answer(send, 413, f"the request body is over {self.max_body} bytes")
            return
        status, cleaned = _cleaned_body(bytes(body))
        if status:
            await _answer(send, status, cleaned.decode())
            return
        pending: list[Message] = [{"type": "http.request", "body": cleaned, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self.app(scope, replay, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        frames = _Frames(receive, 2 * self.max_body)
        idle = False

        async def next_frame() -> Message:
            nonlocal idle
            idle = True
            while True:
                message = await frames.next()
                problem = _unreadable(message, self.max_body) if message["type"] == "websocket.receive" else None
                if problem is None:
                    idle = False
                    return message
                await send({"type": "websocket.send", "text": _error_frame(scope["path"], *problem)})

        worker: asyncio.Task[None] = asyncio.create_task(self._serve(scope, next_frame, send))
        try:
            await asyncio.wait({frames.ended, worker}, return_when=asyncio.FIRST_COMPLETED)
            if frames.flooded and not worker.done():
                reason = "too many frames wait to be played: await each answer"
                await send({"type": "websocket.send", "text": _error_frame(scope["path"], "SESSION_ERROR", reason)})
            if frames.flooded or not idle:
                worker.cancel()
            await asyncio.wait({worker})
            if not worker.cancelled():
                worker.result()
        finally:
            frames.stop()
            if not worker.done():
                worker.cancel()
                await asyncio.wait({worker})


class _Frames:
    """What comes in over one socket, frame by frame.

    As soon as a call waits for anything, frames are read ahead of it, from then on: a socket that goes away in the
    middle of a call must be noticed. ``ended`` is done when nothing more is read ahead, because the socket went away or
    because more than ``most`` bytes wait (``flooded``). A call that waits for nothing is spared the second task.
    """

    def __init__(self, receive: Receive, most: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.flooded = False
        self._receive, self._most = receive, most
        self._ahead: asyncio.Queue[Message] = asyncio.Queue()
        self._bytes = 0
        self._reader: asyncio.Task[None] | None = None
        self._soon: asyncio.Handle | None = None

    async def next(self) -> Message:
        if self._soon is not None:
            self._soon.cancel()
        if self._reader is not None:
            message = await self._ahead.get()
            self._bytes -= _size(message)
            return message
        message = await self._receive()
        # The loop comes to this only when whoever takes the message waits for something else than the next one.
        self._soon = self._loop.call_soon(self._read_ahead)
        return message

    def stop(self) -> None:
        for waiting in (self._soon, self._reader):
            if waiting is not None:
                waiting.cancel()

    def _read_ahead(self) -> None:
        self._reader = self._loop.create_task(self._read())

    async def _read(self) -> None:
        # Never waits for the worker, or a socket that went away would be noticed only after its calls.
        try:
            while not self.flooded:
                message = await self._receive()
                self._ahead.put_nowait(message)
                if message["type"] == "websocket.disconnect":
                    return
                self._bytes += _size(message)
                many = self._ahead.qsize()
                self.flooded = many > _WAITING_FRAMES or (many > 1 and self._bytes > self._most)
        finally:
            if not self.ended.done():
                self.ended.set_result(None)


def _unreadable(message: Message, max_size: int) -> tuple[str, str] | None:
    """Code and reason why a frame is refused."""
    text = message.get("text")
    if text is None:
        try:
            text = (message.get("bytes") or b"").decode()
        except UnicodeDecodeError:
            return "INVALID_JSON", "frames are JSON objects in UTF-8"
        message["text"] = text  # A binary frame is as good as a text frame.
    if len(text) > max_size:
        return "INVALID_JSON", f"the frame is over {max_size} bytes"
    try:
        given, value = _parsed(text)
    except (ValueError, RecursionError) as error:
        return "INVALID_JSON", f"Invalid JSON: {error}"
    except OverflowError as error:
        return "VALIDATION_ERROR", str(error)
    if not isinstance(value, dict):
        return "VALIDATION_ERROR", f"a frame is a JSON object, this is {type(value).__name__}"
    action = value.get("data")
    if action is not None and not isinstance(action, dict):
        return "VALIDATION_ERROR", f"data is a JSON object, this is {type(action).__name__}"
    value = _with_keys(value)
    if value is not given:
        message["text"] = json.dumps(value)
    return None


def _with_keys(value: Any) -> Any:
    """The frame or body with texts for what OpenEnv looks up in tables: it fails for what cannot be a key."""
    for place in _KEYS:
        value = _with_key(value, place)
    return value


def _with_key(value: Any, place: tuple[str, ...]) -> Any:
    """What stands at ``place`` as its JSON, which no table has, if it is an object or a list."""
    if not place:
        return json.dumps(value) if isinstance(value, (dict, list)) else value
    inner = value.get(place[0]) if isinstance(value, dict) else None
    told = _with_key(inner, place[1:])
    return value if told is inner else {**value, place[0]: told}


def _parsed(text: str) -> tuple[Any, Any]:
    """The JSON value as it came, and cleaned. Raises ValueError, RecursionError, OverflowError (too many values)."""
    # A first look, at what text costs at most, since parsing alone would take seconds.
    marks = text.count("[") + text.count("{") + text.count(",")
    value = json.loads(text) if marks <= _MAX_MARKS else None
    if marks > _MAX_MARKS or (marks > MAX_VALUES and holds_more_than(value, MAX_VALUES)):
        raise OverflowError(f"more than {MAX_VALUES} JSON values in one message: send less, or longer strings")
    # What has no place in UTF-8 or JSON could not be answered: OpenEnv repeats its input in errors.
    return value, plain(value, _ENVELOPE)


def _cleaned_body(body: bytes) -> tuple[int, bytes]:
    """A request body for OpenEnv, which itself refuses what is no JSON; or a status and the reason for it."""
    if not body:
        return 0, body
    try:
        given, value = _parsed(body.decode())
        value = _with_keys(value)
        return 0, body if value is given else json.dumps(value).encode()
    except OverflowError as error:
        return 413, str(error).encode()
    except (ValueError, RecursionError):
        return 0, body


def _size(message: Message) -> int:
    return len(message.get("text") or message.get("bytes") or "")


def _error_frame(path: str, code: str, reason: str) -> str:
    if path.endswith("/mcp"):
        number = -32700 if code == "INVALID_JSON" else -32600
        return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": number, "message": reason}})
    return json.dumps({"type": "error", "data": {"message": reason, "code": code}})


async def _answer(send: Send, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
