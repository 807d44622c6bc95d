"""The fault ``withdrawn``."""

from __future__ import annotations

from dataclasses import replace

from ..fault import Strike, Target


def strike(target: Target) -> Strike | None:
    """Withdraw a tool for this call and the next two or three; the agent must use another one or come back."""
    back = target.number + 3 + target.chance % 2
    view = replace(target.view, gone={**target.view.gone, target.real.name: back})
    return Strike(f"the tool {target.call.name!r} was withdrawn for {back - target.number} calls", view=view)
