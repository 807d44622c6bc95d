"""The fault ``partial_write``."""

from __future__ import annotations

from ..fault import Strike, Target, is_ok


def strike(target: Target) -> Strike | None:
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
