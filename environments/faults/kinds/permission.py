"""A tool is refused once, as if rights had not been granted yet."""

from __future__ import annotations

from ..fault import Ask, Fault, Strike


def _strike(ask: Ask) -> Strike | None:
    return Strike(
        f"{ask.call.name!r} was refused for a moment, a temporary lack of rights",
        content="error permission_denied: permission denied",
    )


FAULT = Fault(_strike)
