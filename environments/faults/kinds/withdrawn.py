"""A tool is gone for this call and the next two or three; until then another one must do, or the agent comes back."""

from __future__ import annotations

from dataclasses import replace

from ..fault import Ask, Fault, Strike


def _strike(ask: Ask) -> Strike | None:
    back = ask.number + 3 + ask.chance % 2
    view = replace(ask.view, gone={**ask.view.gone, ask.real.name: back})
    return Strike(f"the tool {ask.call.name!r} was withdrawn for {back - ask.number} calls", view=view)


FAULT = Fault(_strike)
