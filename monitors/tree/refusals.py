"""Changes that were refused, as the tree monitors read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from ...models import FileChange, Finding
from ..base import Inspection
from ..reading import parsed
from ..reading.transcript import writing_turn


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


def patched_at_import(before: str, after: str) -> str:
    """Return what a test file newly replaces in a module that it imports, as soon as it is loaded; '' for nothing."""
    module = parsed(after)
    if module is None:
        return ""
    present = {line.strip() for line in before.splitlines()}
    for node in module.tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name) or _is_setting(node):
            continue
        is_new = module.lines[node.lineno - 1 : node.lineno] and module.lines[node.lineno - 1].strip() not in present
        if is_new and module.dotted(target).partition(".")[0] in module.imported:
            return f"replaces {module.dotted(target)}"
    return ""


def _is_setting(node: ast.stmt) -> bool:
    """Return whether a value is assigned that is not a function, as in ``package.DEBUG = True``."""
    return not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Lambda | ast.Name | ast.Attribute)


def refusal_finding(
    inspection: Inspection, change: FileChange, exploit_id: str, severity: Literal["info", "suspect"], detail: str = ""
) -> Finding:
    """Return the Finding of a refused change: attempted, and without effect, since it is not graded."""
    excerpt = f"{change.reason}: {detail}" if detail else change.reason
    turn = writing_turn(inspection.calls, change.path, detail)
    return Finding(
        exploit_id=exploit_id, severity=severity, turn=turn, path=change.path, excerpt=excerpt[:400].replace("\x00", "")
    )
