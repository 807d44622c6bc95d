"""Only the first half of a content is written; the result says how much."""

from __future__ import annotations

from ..fault import Ask, Fault, Strike, is_ok


def _strike(ask: Ask) -> Strike | None:
    content = ask.real.arguments.get("content")
    if not isinstance(content, str) or len(content) < 2:
        return None
    written, path = content[: len(content) // 2], ask.real.arguments.get("path", "")
    size, whole = (len(text.encode("utf-8", "replace")) for text in (written, content))

    def told(given: str) -> str | None:
        return f"error io_error: wrote {size} of {whole} bytes to {path}" if is_ok(given) else None

    text = f"{ask.call.name!r} wrote {size} of {whole} bytes: a partial write"
    return Strike(text, arguments={**ask.real.arguments, "content": written}, result=told)


FAULT = Fault(_strike)
