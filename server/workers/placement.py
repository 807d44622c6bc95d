"""Requests for a session of another place: what they are answered, and what a worker does with each connection."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import SessionError
from .handover import arrival
from .place import Place, place_in
from .request_head import NEAR_HEADER, RequestHead

REPLICA_HEADER = "x-etude-replica"
"""Header of an answer with the replica that has the session."""
WRONG_REPLICA = 421
ENDED = 410


class WrongPlace(Exception):
    """Raised for a session that this process does not have, or no more; the message says what to do."""

    def __init__(self, status: int, place: Place) -> None:
        ended = "was started again: open another; graded episodes are at GET /episodes/EPISODE_ID"
        advice = (
            f"this session is on {place}: send the request there (its balancer must route by the session's token)"
            if status == WRONG_REPLICA
            else f"this session ended with its process ({place}), which {ended}"
        )
        super().__init__(advice)
        self.status, self.place = status, place

    def answer(self) -> JSONResponse:
        """Return the answer of a route."""
        return JSONResponse({"detail": str(self)}, self.status, {REPLICA_HEADER: self.place.replica})


def check_place(token: str, place: Place) -> None:
    """Check that a token belongs to this place, or names none. Raises WrongPlace."""
    other = place_in(token)
    if other is not None and other != place:
        raise WrongPlace(ENDED if other.replica == place.replica else WRONG_REPLICA, other)


def check_fork(token: str, place: Place) -> None:
    """Check that the episode of a session with this token can be forked here. Raises SessionError."""
    other = place_in(token)
    if other is not None and other != place:
        advice = f"connect with the header {NEAR_HEADER}: TOKEN, which leads there, or replay its actions"
        raise SessionError(f"the episode of this token is on {other}: {advice}")


class Placement:
    """ASGI middleware of a server that has a place.

    It refuses requests for sessions of other places, which are in the cookie or in the headers of sockets: with 421
    and the replica's name for another replica, with 410 for a process that has ended. ``/seed_session`` of a session
    that has ended is let through, because it opens another. A worker serves one request for each connection, since the
    next one may belong to another worker.
    """

    def __init__(self, app: ASGIApp, place: Place) -> None:
        self.app, self._place = app, place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        arrived, wrong = arrival.get(), self._why_not(scope)

        async def send_once(message: Message) -> None:
            if message["type"] == "http.response.start" and self._place.worker:
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        try:
            if wrong is None or (wrong.status == ENDED and scope["path"] == "/seed_session"):
                await self.app(scope, receive, send_once)
            elif scope["type"] == "http":
                await wrong.answer()(scope, receive, send_once)
            else:
                await _refuse(wrong, receive, send)
        finally:
            if arrived is not None:
                arrived.settle()

    def _why_not(self, scope: Scope) -> WrongPlace | None:
        """Return the refusal of a request for a session of another place; None when it belongs here."""
        headers = dict(Headers(scope=scope).items())
        try:
            for token in RequestHead(b"", headers=headers).chosen:
                check_place(token, self._place)
        except WrongPlace as wrong:
            return wrong
        return None


async def _refuse(wrong: WrongPlace, receive: Receive, send: Send) -> None:
    """Answer a WebSocket's opening with the reason as an HTTP response, which clients show."""
    await receive()
    answer = wrong.answer()
    headers = answer.raw_headers
    await send({"type": "websocket.http.response.start", "status": wrong.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": answer.body})
