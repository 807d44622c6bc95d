"""The connection to a tool breaks once; nothing was run, and the same call works afterwards."""

from __future__ import annotations

from ..fault import Ask, Fault, Strike


def _strike(ask: Ask) -> Strike | None:
    return Strike(
        f"the connection to {ask.call.name!r} broke once",
        content="error transport_error: connection reset by the tool server",
    )


FAULT = Fault(_strike)
