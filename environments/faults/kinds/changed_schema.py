"""The fault ``changed_schema``."""

from __future__ import annotations

from dataclasses import replace

from ..fault import Strike, Target, pick


def strike(target: Target) -> Strike | None:
    """Rename a required argument of a tool during the episode."""
    required = [name for name in target.schema.get("required", ()) if name in target.real.arguments]
    if not required or target.real.name in target.view.arguments:
        return None
    old = required[target.chance % len(required)]
    options = [f"{old}_value", f"target_{old}", f"the_{old}", f"{old}_{target.chance % 900 + 100}"]
    new = pick(options, list(target.schema["properties"]), target.chance // 7)
    view = replace(target.view, arguments={**target.view.arguments, target.real.name: (old, new)})
    return Strike(f"the argument {old!r} of {target.call.name!r} was renamed to {new!r}", view=view)
