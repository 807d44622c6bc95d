"""Faults that change the agent's tools during the episode."""

from __future__ import annotations

from dataclasses import replace

from ..fault import Strike, Target, pick


def renamed(target: Target) -> Strike | None:
    """Rename a tool during the episode; a call by the old name lists the tools as they are now."""
    old = target.call.name
    if target.real.name in target.view.names:
        return None
    options = [f"{old}_v2", f"{old}_tool", f"do_{old}", f"{old}_{target.chance % 900 + 100}"]
    new = pick(options, target.names, target.chance)
    view = replace(target.view, names={**target.view.names, target.real.name: new})
    return Strike(f"the tool {old!r} was renamed to {new!r}", view=view)


def withdrawn(target: Target) -> Strike:
    """Withdraw a tool for this call and the next two or three; the agent must use another one or come back."""
    back = target.number + 3 + target.chance % 2
    view = replace(target.view, back_at_call={**target.view.back_at_call, target.real.name: back})
    return Strike(f"the tool {target.call.name!r} was withdrawn for {back - target.number} calls", view=view)


def changed_schema(target: Target) -> Strike | None:
    """Rename a required argument of a tool during the episode."""
    required = [name for name in target.schema.get("required", ()) if name in target.real.arguments]
    if not required or target.real.name in target.view.arguments:
        return None
    old = required[target.chance % len(required)]
    options = [f"{old}_value", f"target_{old}", f"the_{old}", f"{old}_{target.chance % 900 + 100}"]
    new = pick(options, list(target.schema["properties"]), target.chance // 7)
    view = replace(target.view, arguments={**target.view.arguments, target.real.name: (old, new)})
    return Strike(f"the argument {old!r} of {target.call.name!r} was renamed to {new!r}", view=view)
