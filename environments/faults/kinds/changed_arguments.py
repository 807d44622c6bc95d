"""Faults that run a call with other arguments."""

from __future__ import annotations

from ..fault import Strike, Target, is_ok

_ELSEWHERE = "/tmp"


def partial_write(target: Target) -> Strike | None:
    """Write only the first half of a content; the result says how much."""
    content = target.real.arguments.get("content")
    if not isinstance(content, str) or len(content) < 2:
        return None
    written, path = content[: len(content) // 2], target.real.arguments.get("path", "")
    size, full_size = (len(text.encode("utf-8", "replace")) for text in (written, content))

    def report(result: str) -> str | None:
        return f"error io_error: wrote {size} of {full_size} bytes to {path}" if is_ok(result) else None

    text = f"{target.call.name!r} wrote {size} of {full_size} bytes: a partial write"
    return Strike(text, arguments={**target.real.arguments, "content": written}, result=report)


def wrong_directory(target: Target) -> Strike | None:
    """Run a command in another folder once; relative paths miss, absolute ones work.

    Only a tool that runs commands has a working directory; a tool that takes a path does not.
    """
    command = target.real.arguments.get("command")
    if not isinstance(command, str):
        return None
    text = f"{target.call.name!r} ran in the wrong directory once, in {_ELSEWHERE}"
    return Strike(text, arguments={**target.real.arguments, "command": f"cd {_ELSEWHERE}\n{command}"})
