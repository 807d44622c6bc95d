"""The fault ``wrong_directory``."""

from __future__ import annotations

from ..fault import Strike, Target

_ELSEWHERE = "/tmp"


def strike(target: Target) -> Strike | None:
    """Run a command in another folder once; relative paths miss, absolute ones work.

    Only a tool that runs commands has a working directory; a tool that takes a path does not.
    """
    command = target.real.arguments.get("command")
    if not isinstance(command, str):
        return None
    return Strike(
        f"{target.call.name!r} ran in the wrong directory once, in {_ELSEWHERE}",
        arguments={**target.real.arguments, "command": f"cd {_ELSEWHERE}\n{command}"},
    )
