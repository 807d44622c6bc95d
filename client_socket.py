"""WebSocket of one session: frames with ids, and a new connection with the session's token when one was lost."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .errors import ConnectionLost

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

MAX_MESSAGE = 64 << 20
"""Bytes of the largest answer that is accepted."""
SESSION_HEADER = "X-Etude-Session"
"""Header with the token of the session that a connection continues."""
RECONNECT_HEADER = "X-Etude-Reconnect"
"""Header in which a server names the seconds that it waits for a lost client. Such a server knows the ids of frames."""
KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 120_000}
"""Socket options with which a vanished peer is noticed within about two minutes, also while data for it waits."""
FIRST_DELAY_S, MAX_DELAY_S = 0.2, 5.0
"""Seconds before the second try to connect again, which double with each further one, and their limit."""
_NUMBERED = ("reset", "step")
_TAKEN_OVER = 4001
_FINAL = (410, 421)
"""Answers to a connection after which no other try can succeed: the session has ended, or is on another replica."""


class SessionSocket:
    """Connection of one session. ``tries``: how often it is opened again after it was lost, in one call; 0: never.

    A frame whose answer was lost is sent again with its id, so that the server does not play it twice. Servers that do
    not offer this get frames without ids.
    """

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        *,
        connect_timeout_s: float,
        message_timeout_s: float,
        tries: int,
        through_proxy: bool,
    ) -> None:
        self.address = address
        self.token = ""
        self._headers = dict(headers)
        self._connect_timeout_s = connect_timeout_s
        self._message_timeout_s = message_timeout_s
        self._tries = tries
        self._through_proxy = through_proxy
        self._socket: ClientConnection | None = None
        self._kept_s: float | None = None
        self._number = 0

    @property
    def is_open(self) -> bool:
        """Return whether there is a connection."""
        return self._socket is not None

    @property
    def connection(self) -> ClientConnection | None:
        """Return the WebSocket of the session, None while there is none."""
        return self._socket

    @property
    def may_reconnect(self) -> bool:
        """Return whether the server waits for a lost client, and this one is to come back."""
        return bool(self._kept_s) and self._tries > 0

    async def open(self) -> None:
        """Connect, with the session's token if there is one. Raises what websockets raises."""
        from websockets.asyncio.client import connect

        # A pong deadline is not needed: the kernel notices a vanished server, and the message timeout a silent one.
        self._socket = await connect(
            self.address,
            open_timeout=self._connect_timeout_s,
            ping_timeout=None,
            max_size=MAX_MESSAGE,
            compression=None,
            proxy=True if self._through_proxy else None,
            additional_headers={**self._headers, **({SESSION_HEADER: self.token} if self.token else {})},
        )
        notice_vanished_peer(self._socket.transport.get_extra_info("socket"))
        response = self._socket.response
        text = response.headers.get(RECONNECT_HEADER) if response is not None else None
        self._kept_s = _seconds(text)
        if not self.token:
            self._number = 0

    async def close(self) -> None:
        """End the session. Idempotent."""
        connection, self._socket, self.token = self._socket, None, ""
        if connection is not None:
            await connection.close()

    async def ask(self, kind: str, data: dict[str, Any] | None) -> dict[str, Any]:
        """Return the answer to one frame. Raises ConnectionLost when the session is lost with its connection."""
        from websockets.exceptions import ConnectionClosed

        frame: dict[str, Any] = {"type": kind} if data is None else {"type": kind, "data": data}
        if self._kept_s is not None and kind in _NUMBERED:
            self._number += 1
            frame["id"] = self._number
        while True:
            try:
                answer = await self._exchange(frame)
            except ConnectionClosed as error:
                await self._open_again(frame, error)
                continue
            if answer.get("type") == "error" and answer.get("data", {}).get("code") == "SESSION_GONE":
                await self.close()
                raise ConnectionLost(f"the server closed the session: {answer['data'].get('message')}")
            return answer

    async def learn_token(self) -> None:
        """Ask for the session's token, which a new connection needs, once. An error of the server changes nothing."""
        if self.may_reconnect and not self.token:
            answer = await self.ask("state", None)
            self.token = str(answer.get("data", {}).get("token") or "") if answer.get("type") == "state" else ""

    async def _exchange(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        from websockets.exceptions import ConnectionClosed

        connection = self._socket
        assert connection is not None
        try:
            with suppress(ConnectionClosed):  # a refused session says why before it closes: that frame is read below
                await connection.send(json.dumps(frame))
            answer: dict[str, Any] = json.loads(await asyncio.wait_for(connection.recv(), self._message_timeout_s))
        except ConnectionClosed:
            self._socket = None
            raise
        except BaseException as error:
            # An answer may still come; read by the next call it would be taken for that call's. So the session ends.
            await self.close()
            if isinstance(error, TimeoutError):
                waited = f"no answer to {frame['type']} within {self._message_timeout_s:g} s"
                raise ConnectionLost(f"{waited}: the session was closed; increase message_timeout_s") from error
            raise
        return answer

    async def _open_again(self, frame: dict[str, Any], cause: Exception) -> None:
        """Connect again in a bounded number of tries. Raises ConnectionLost.

        Before the client knows a token it has no episode, and a first reset starts in a new session.
        """
        from websockets.exceptions import InvalidStatus, WebSocketException

        close = getattr(cause, "rcvd", None)
        is_first = not self.token and frame["type"] == "reset"
        why = ""
        if self.may_reconnect and (self.token or is_first) and (close is None or close.code != _TAKEN_OVER):
            for number in range(self._tries):
                delay = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (number - 1)) if number else 0.0
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # clients of one server do not all come at once
                try:
                    await self.open()
                except InvalidStatus as error:
                    why = f", and answered with status {error.response.status_code}: {_detail(error.response.body)}"
                    if error.response.status_code in _FINAL:
                        break
                except (OSError, TimeoutError, WebSocketException) as error:
                    why = f", and {self._tries} tries to connect again failed ({error or type(error).__name__})"
                else:
                    if is_first:
                        self._number = frame["id"] = 1
                    return
        self.token = ""
        raise ConnectionLost(f"the server closed the session ({cause}){why}") from cause


def notice_vanished_peer(connection: Any) -> None:
    """Let the kernel end a TCP connection whose peer does not answer; ``connection`` is a socket."""
    if connection is None:
        return
    with suppress(OSError):  # a socket of another family has no such options
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE.items():
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _detail(body: bytes | bytearray | None) -> str:
    """Return the reason in a refusal's body."""
    try:
        return str(json.loads(body or b"")["detail"])
    except (ValueError, KeyError, TypeError):
        return "no reason was given"


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
