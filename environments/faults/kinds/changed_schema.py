"""A required argument of a tool gets another name in mid-episode."""

from __future__ import annotations

from ..fault import Ask, Fault, Strike, pick, renamed_argument


def _strike(ask: Ask) -> Strike | None:
    required = [name for name in ask.schema.get("required", ()) if name in ask.real.arguments]
    if not required or ask.real.name in ask.view.arguments:
        return None
    old = required[ask.chance % len(required)]
    options = [f"{old}_value", f"target_{old}", f"the_{old}", f"{old}_{ask.chance % 900 + 100}"]
    new = pick(options, list(ask.schema["properties"]), ask.chance // 7)
    view = renamed_argument(ask.view, ask.real.name, old, new)
    return Strike(f"the argument {old!r} of {ask.call.name!r} was renamed to {new!r}", view=view)


FAULT = Fault(_strike)
