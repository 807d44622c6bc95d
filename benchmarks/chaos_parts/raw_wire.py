"""One session frame by frame, for faults that Etude's client cannot make."""

from __future__ import annotations

import asyncio
import json
import random
from types import TracebackType
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from etude.client import SESSION_HEADER

ANSWER_S = 600.0
"""Seconds in which an answer has to come."""


class RawWire:
    """A WebSocket with numbered frames. Raises ConnectionClosed, InvalidMessage and OSError when it is lost."""

    def __init__(self, url: str) -> None:
        self._address = f"ws{url.removeprefix('http')}/ws"
        self._number = 0
        self.token = ""
        self.connection: ClientConnection | None = None

    async def __aenter__(self) -> RawWire:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.connection is not None:
            await self.connection.close()

    async def open(self, url: str = "") -> None:
        """Connect, with the token when there is one; ``url`` goes around the network of the first connection."""
        address = f"ws{url.removeprefix('http')}/ws" if url else self._address
        headers = {SESSION_HEADER: self.token} if self.token else {}
        self.connection = await connect(
            address, proxy=None, max_size=None, compression=None, additional_headers=headers, close_timeout=1
        )

    def forget_connection(self) -> None:
        """Leave the connection as it is: its network passes nothing."""
        assert self.connection is not None
        self.connection.transport.abort()

    async def send(self, frame: str | bytes) -> None:
        assert self.connection is not None
        await self.connection.send(frame)

    async def answer(self) -> dict[str, Any]:
        assert self.connection is not None
        answer: dict[str, Any] = json.loads(await asyncio.wait_for(self.connection.recv(), ANSWER_S))
        return answer

    def next_frame(self, kind: str, data: dict[str, Any]) -> str:
        """Return a frame with the next id."""
        self._number += 1
        return self.frame(kind, data, self._number)

    def frame(self, kind: str, data: dict[str, Any], number: int) -> str:
        return json.dumps({"type": kind, "id": number, "data": data})

    @property
    def number(self) -> int:
        """Return the id of the last frame."""
        return self._number

    async def ask(self, frame: str) -> dict[str, Any]:
        await self.send(frame)
        return await self.answer()

    async def state(self) -> dict[str, Any]:
        answer = await self.ask('{"type": "state"}')
        data: dict[str, Any] = answer["data"]
        self.token = data.get("token") or ""
        return data


def garbage(stream: random.Random) -> str | bytes:
    """Return a frame that is no call of the protocol."""
    kinds: list[str | bytes] = [
        stream.randbytes(stream.randrange(1, 400)),
        "{" * stream.randrange(1, 3000),
        json.dumps([stream.random()] * stream.randrange(1, 50)),
        json.dumps({"type": stream.choice(["", "fly", "steps", 7]), "data": {}}),
        json.dumps({"type": "step", "id": stream.choice([-1, "x", 1.5, None, True]), "data": {}}),
        json.dumps({"type": "step", "data": stream.choice(["text", 3, [1]])}),
        '{"type": "step", "data": ' + "[" * 2000 + "]" * 2000 + "}",
    ]
    return stream.choice(kinds)
