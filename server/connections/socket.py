"""One WebSocket as the guard reads it, and what is sent over it besides OpenEnv's answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from starlette.types import Message, Send

CLOSED = frozenset((1000, 1001, 1005))
"""Close codes with which a client ends its session: normal, going away, and none given."""
STOPPED = 1012
"""Close code of a server that stops."""


class Frames(Protocol):
    """Frames of a socket, which are read ahead while a call runs."""

    ended: asyncio.Future[None]
    """Done when reading ahead has stopped."""
    flooded: bool
    """Whether it stopped because too many frames wait."""
    gone: Message | None
    """The message with which the socket was closed, if reading ahead has seen it."""


@dataclass(eq=False)
class Socket:
    """One WebSocket of a session."""

    next: Callable[[], Awaitable[Message]]
    """Returns the next frame that OpenEnv can read, or the message with which the socket was closed."""
    send: Send
    frames: Frames
    released: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Done when the session no longer uses this socket."""

    def release(self) -> None:
        """Note that the session no longer uses this socket."""
        if not self.released.done():
            self.released.set_result(None)


def ends_session(message: Message) -> bool:
    """Return whether a disconnect ends the session: a close frame of the client, or the server stops.

    uvicorn gives a connection that was lost without a close frame the code 1005 too, but no reason.
    """
    code = message.get("code", 1005)
    return code == STOPPED or (code in CLOSED and (code != 1005 or "reason" in message))


def error_frame(code: str, reason: str, number: int | None = None) -> str:
    """Return an error frame; ``number`` is the id of the frame that it answers."""
    answer = {"type": "error", "data": {"message": reason, "code": code}}
    return json.dumps(answer if number is None else {"id": number, **answer})
