"""A tool gets another name in mid-episode; the old one is not found, and the tools are listed as they are now."""

from __future__ import annotations

from dataclasses import replace

from ..fault import Ask, Fault, Strike, pick


def _strike(ask: Ask) -> Strike | None:
    old = ask.call.name
    if ask.real.name in ask.view.names:
        return None
    new = pick([f"{old}_v2", f"{old}_tool", f"do_{old}", f"{old}_{ask.chance % 900 + 100}"], ask.names, ask.chance)
    view = replace(ask.view, names={**ask.view.names, ask.real.name: new})
    return Strike(f"the tool {old!r} was renamed to {new!r}", view=view)


FAULT = Fault(_strike)
