"""What stands in front of OpenEnv's routes: limits, frames that it cannot read, and sockets that went away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 16 << 20
"""Bytes of the largest request body or frame."""
_QUEUED_FRAMES = 16

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
        pending: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self.app(scope, replay, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        frames: asyncio.Queue[Message] = asyncio.Queue(_QUEUED_FRAMES)
        idle = False

        async def pump() -> None:
            while True:
                message = await receive()
                await frames.put(message)
                if message["type"] == "websocket.disconnect":
                    return

        async def next_frame() -> Message:
            nonlocal idle
            idle = True
            while True:
                message = await frames.get()
                problem = _unreadable(message, self.max_body) if message["type"] == "websocket.receive" else None
                if problem is None:
                    idle = False
                    return message
                await send({"type": "websocket.send", "text": _error_frame(scope["path"], *problem)})

        reader = asyncio.create_task(pump())
        worker: asyncio.Task[None] = asyncio.create_task(self._serve(scope, next_frame, send))
        try:
            await asyncio.wait({reader, worker}, return_when=asyncio.FIRST_COMPLETED)
            if not worker.done() and not idle:
                worker.cancel()
            await asyncio.wait({worker})
            if not worker.cancelled():
                worker.result()
        finally:
            reader.cancel()
            if not worker.done():
                worker.cancel()
                await asyncio.wait({worker})


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
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return "INVALID_JSON", f"Invalid JSON: {error}"
    if not isinstance(value, dict):
        return "VALIDATION_ERROR", f"a frame is a JSON object, this is {type(value).__name__}"
    action = value.get("data")
    if isinstance(action, dict) and isinstance(action.get("type"), (dict, list)):
        # OpenEnv looks this key up in a table, and fails for what cannot be a key.
        action["type"] = json.dumps(action["type"])
        message["text"] = json.dumps(value)
    return None


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
