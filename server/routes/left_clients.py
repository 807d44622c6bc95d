"""Clients that leave before the answer that names their session."""

from __future__ import annotations

import asyncio

from fastapi import Request

_MOMENT_S = 0.02
"""Seconds in which the event loop reads the end of a connection that arrived during the request."""


async def has_left(request: Request) -> bool:
    """Return whether the client of a request has closed its connection, so that the answer is not read."""
    await asyncio.sleep(_MOMENT_S)
    return await request.is_disconnected()
