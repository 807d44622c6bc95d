"""One session over one socket after another."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Scope

from .answers import RecordedAnswers
from .socket import Socket, ends_session, error_frame

log = logging.getLogger(__name__)

_STATE = '{"type":"state"'
"""Start of the answer in which a client reads its token."""
_TAKEN_OVER = 4001
FLOODED = "too many frames wait to be played: await each answer"


class _Request(NamedTuple):
    """The frame that is played, and the socket that its answer belongs to."""

    socket: Socket | None = None
    number: int | None = None
    frame: str = ""


class Line:
    """Conversation of a client with OpenEnv's loop, which sees one socket that lasts.

    A socket that is lost without a close frame is waited for: ``seconds`` long, if the client knows the session's
    token, which it has read in an answer to ``state``. A call that runs continues meanwhile. A second socket takes the
    place of the first, whose client may be unreachable. An answer goes to the socket that asked; a client that has lost
    it repeats the frame with its id.
    """

    def __init__(self, seconds: float, accept_headers: list[tuple[bytes, bytes]]) -> None:
        self.token = ""
        self._seconds = seconds
        self._accept_headers = accept_headers
        self._socket: Socket | None = None
        self._attached = asyncio.Event()
        self._answers = RecordedAnswers()
        self._request = _Request()
        self._idle = False
        self._ended = False
        self._switching = False
        self._worker: asyncio.Task[None] | None = None
        self._end_timer: asyncio.TimerHandle | None = None

    @property
    def ended(self) -> bool:
        """Return whether no socket can be attached any more."""
        return self._ended

    @property
    def waits(self) -> bool:
        """Return whether the session waits for its client to connect again."""
        return self._socket is None and not self._ended

    def start(self, app: ASGIApp, scope: Scope, done: Callable[[Line], None]) -> None:
        """Start OpenEnv's loop; ``done`` is called when it has ended."""

        def finish(task: asyncio.Task[None]) -> None:
            done(self)
            if self._socket is None and not task.cancelled() and task.exception() is not None:
                log.error("a session without a socket did not end cleanly", exc_info=task.exception())

        self._worker = asyncio.ensure_future(app(scope, self._receive, self._send))
        self._worker.add_done_callback(finish)

    def attach(self, socket: Socket) -> None:
        """Use a socket from now on, instead of the one before."""
        if self._end_timer is not None:
            self._end_timer.cancel()
        before, self._socket = self._socket, socket
        if before is not None:
            before.release()
            self._interrupt()
        self._attached.set()

    async def carry(self, socket: Socket) -> None:
        """Return when the session has ended or released the socket; raise what OpenEnv's loop has raised."""
        worker = self._worker
        assert worker is not None
        try:
            await asyncio.wait({socket.frames.ended, socket.released, worker}, return_when=asyncio.FIRST_COMPLETED)
            if socket.frames.ended.done() and self._socket is socket and not worker.done():
                await self._stop_reading(socket, worker)
            await asyncio.wait({socket.released, worker}, return_when=asyncio.FIRST_COMPLETED)
            if worker.done() and not worker.cancelled() and self._socket is socket:
                worker.result()
        finally:
            if self._socket is socket and not worker.done():
                worker.cancel()
                await asyncio.wait({worker})
        if self._socket is not socket and self._socket is not None and socket.frames.gone is None:
            await _close(socket, "another connection continues this session")

    async def end(self) -> None:
        """End the session, and wait until its resources are removed."""
        self._end()
        if self._worker is not None:
            await asyncio.wait({self._worker})

    async def _stop_reading(self, socket: Socket, worker: asyncio.Task[None]) -> None:
        """React to a socket that sends nothing more while a call may run."""
        if socket.frames.flooded:
            await self._deliver(socket, {"type": "websocket.send", "text": error_frame("SESSION_ERROR", FLOODED)})
        elif self._idle:
            return  # OpenEnv's loop is about to read the disconnect itself
        elif self._may_wait(socket.frames.gone):
            self._detach(socket)
            return
        worker.cancel()
        await asyncio.wait({worker})

    def _may_wait(self, gone: Message | None) -> bool:
        return bool(self._seconds and self.token and not self._ended and gone is not None and not ends_session(gone))

    def _detach(self, socket: Socket) -> None:
        """Wait for the next socket, for a bounded time."""
        self._socket = None
        self._attached.clear()
        socket.release()
        self._end_timer = asyncio.get_running_loop().call_later(self._seconds, self._end)

    def _end(self) -> None:
        if self._end_timer is not None:
            self._end_timer.cancel()
        self._ended = True
        self._attached.set()
        if not self._idle and self._worker is not None:
            self._worker.cancel()
        elif self._socket is not None:
            self._interrupt()

    def _interrupt(self) -> None:
        """Let OpenEnv's loop look again, if it waits for a frame of a socket."""
        if self._idle and self._worker is not None and not self._switching:
            self._switching = True
            self._worker.cancel()

    # The two sides of the socket that OpenEnv's loop sees

    async def _receive(self) -> Message:
        self._idle = True
        while not self._ended:
            try:
                message = await self._next_message()
            except asyncio.CancelledError:
                if not self._switched():
                    raise
                continue
            if message is not None:
                self._idle = False
                self._ended = message["type"] == "websocket.disconnect"
                return message
        self._idle = False
        return {"type": "websocket.disconnect", "code": 1006}

    async def _next_message(self) -> Message | None:
        """Return what OpenEnv's loop gets next; None when it has to be asked for again."""
        socket = self._socket
        if socket is None:
            await self._attached.wait()
            return None
        message = await socket.next()
        if socket is not self._socket:
            return None
        if message["type"] == "websocket.disconnect" and self._may_wait(message):
            self._detach(socket)
            return None
        is_played = message["type"] != "websocket.receive" or await self._is_new(socket, message)
        return message if is_played else None

    def _switched(self) -> bool:
        """Return whether the cancellation that was just seen only announced another socket."""
        task, switching = asyncio.current_task(), self._switching
        self._switching = False
        if switching and task is not None and task.cancelling() == 1:
            task.uncancel()
            return True
        return False

    async def _is_new(self, socket: Socket, message: Message) -> bool:
        """Return whether a frame is to be played; one that is not is answered here."""
        number, frame = message.pop("id", None), message["text"]
        reply = None if number is None else self._answers.begin(number, frame)
        if reply is not None:
            await self._deliver(socket, {"type": "websocket.send", "text": reply})
            return False
        self._request = _Request(socket, number, frame)
        return True

    async def _send(self, message: Message) -> None:
        target = self._socket
        if message["type"] == "websocket.accept":
            message = {**message, "headers": [*message.get("headers", []), *self._accept_headers]}
        elif message["type"] == "websocket.send":
            request = self._request
            target = request.socket or target
            text = message["text"]
            if text.startswith(_STATE) and not (self.token and self.token in text):
                self.token = json.loads(text)["data"].get("token") or ""
            if request.number is not None:
                text = f'{{"id":{request.number},{text[1:]}'
                self._answers.record(request.number, request.frame, text)
                message = {**message, "text": text}
        if target is not None and target is self._socket:
            await self._deliver(target, message)

    async def _deliver(self, socket: Socket, message: Message) -> None:
        try:
            await socket.send(message)
        except OSError:
            log.debug("an answer was lost with its socket")  # the next thing that is read from it is its end


async def _close(socket: Socket, reason: str) -> None:
    """Close a socket with a reason; its client may not read any more."""
    try:
        async with asyncio.timeout(1.0):
            await socket.send({"type": "websocket.close", "code": _TAKEN_OVER, "reason": reason})
    except (OSError, RuntimeError, TimeoutError):
        log.debug("a socket that was replaced could not be closed properly")
