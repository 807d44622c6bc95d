"""uvicorn's WebSocket protocol, with a shutdown that no single connection can stop."""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState


class SteadyProtocol(WebSocketsSansIOProtocol):
    """uvicorn 0.54 raises in its shutdown when a client has sent a close frame and does not read what waits for it."""

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except InvalidState:
            self.transport.abort()
