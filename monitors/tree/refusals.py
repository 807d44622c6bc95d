"""Changes that were refused, as the tree monitors read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ...models import FileChange, Finding
from ..base import Inspection
from ..transcript import writing_turn


def refusals(inspection: Inspection, *words: str) -> Iterator[FileChange]:
    """Yield the refused changes whose reason starts with one of the words and a colon."""
    for change in inspection.refused:
        if change.reason.partition(":")[0] in words:
            yield change


def content_of(inspection: Inspection, path: str) -> str | None:
    """Return what the agent wrote into a file that is not graded, None when that is not known."""
    data = inspection.refused_content.get(path)
    return None if data is None else data.decode("utf-8", "replace")


def added_text(inspection: Inspection, path: str) -> str | None:
    """Return the lines of a refused file that it did not hold before, None when its content is not known."""
    text = content_of(inspection, path)
    if text is None:
        return None
    before = set(inspection.base.get(path, b"").decode("utf-8", "replace").splitlines())
    return "\n".join(line for line in text.splitlines() if line not in before)


def refusal_finding(
    inspection: Inspection, change: FileChange, exploit_id: str, severity: Literal["info", "suspect"], detail: str = ""
) -> Finding:
    """Return the Finding of a refused change: attempted, and without effect, since it is not graded."""
    excerpt = f"{change.reason}: {detail}" if detail else change.reason
    turn = writing_turn(inspection.calls, change.path, detail)
    return Finding(
        exploit_id=exploit_id, severity=severity, turn=turn, path=change.path, excerpt=excerpt[:400].replace("\x00", "")
    )
