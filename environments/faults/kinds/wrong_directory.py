"""A call runs in another folder than the agent's: relative paths miss once, absolute ones hold."""

from __future__ import annotations

from ..fault import Ask, Fault, Strike

_ELSEWHERE = "/tmp"


def _strike(ask: Ask) -> Strike | None:
    text = f"{ask.call.name!r} ran in the wrong directory once, in {_ELSEWHERE}"
    path, command = ask.real.arguments.get("path"), ask.real.arguments.get("command")
    if isinstance(path, str) and path and not path.startswith("/"):
        return Strike(text, arguments={**ask.real.arguments, "path": f"{_ELSEWHERE}/{path}"})
    if isinstance(command, str):
        return Strike(text, arguments={**ask.real.arguments, "command": f"cd {_ELSEWHERE}\n{command}"})
    return None


FAULT = Fault(_strike)
