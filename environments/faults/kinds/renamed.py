"""The fault ``renamed``."""

from __future__ import annotations

from dataclasses import replace

from ..fault import Strike, Target, pick


def strike(target: Target) -> Strike | None:
    """Rename a tool during the episode; a call by the old name lists the tools as they are now."""
    old = target.call.name
    if target.real.name in target.view.names:
        return None
    options = [f"{old}_v2", f"{old}_tool", f"do_{old}", f"{old}_{target.chance % 900 + 100}"]
    new = pick(options, target.names, target.chance)
    view = replace(target.view, names={**target.view.names, target.real.name: new})
    return Strike(f"the tool {old!r} was renamed to {new!r}", view=view)
