"""Inspections made from a few lines: a diff of source files, refused files, or a transcript of commands."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from etude.models import FileChange, Finding, InterfaceItem, PublicTask, ToolMessage, Turn
from etude.monitors import Inspection, Monitor

CORE = "src/tally/core.py"
STUB = "import os\n\n\ndef total(values):\n    raise NotImplementedError\n"
TASK = PublicTask(
    task_id="t",
    environment="coding",
    repo="pypi:tally==1.0",
    problem_statement="Implement `tally.core.total`.",
    interface=[InterfaceItem(name="tally.core.total", kind="function")],
    split="train",
)


def changed(path: str, text: str | bytes) -> FileChange:
    """Return a graded file."""
    data = text.encode() if isinstance(text, str) else text
    return FileChange(path=path, kind="file", content=base64.b64encode(data).decode())


def code(text: str, *, base: str | None = STUB, path: str = CORE, **fields: Any) -> Inspection:
    """Return an inspection of one graded file; without ``base`` it is a new one."""
    pristine = {} if base is None else {path: base.encode()}
    return Inspection(TASK, diff=(changed(path, text),), base=pristine, **fields)


def refused(
    path: str, reason: str, text: str | None = None, before: str | None = None, turns: Sequence[Turn] = ()
) -> Inspection:
    """Return an inspection of one change that is not graded, with its content where it is known."""
    change = FileChange(path=path, kind="refused", reason=reason)
    contents: Mapping[str, bytes] = {} if text is None else {path: text.encode()}
    base = {} if before is None else {path: before.encode()}
    return Inspection(TASK, refused=(change,), refused_content=contents, base=base, turns=tuple(turns))


def called(tool: str, arguments: Mapping[str, Any], result: str = "ok\ndone", text: str = "") -> Turn:
    """Return a turn with one call."""
    call = {"id": "c", "name": tool, "arguments": json.dumps(arguments)}
    message = ToolMessage(tool_call_id="c", name=tool, content=result)
    return Turn(action={"text": text, "tool_calls": [call]}, messages=[message])


def ran(command: str, result: str = "ok\nsome output") -> Turn:
    """Return a turn with one command."""
    return called("bash", {"command": command}, result)


def transcript(*turns: Turn, diff: Sequence[FileChange] = (), base: Mapping[str, bytes] | None = None) -> Inspection:
    """Return an inspection of some turns."""
    return Inspection(TASK, turns=turns, diff=tuple(diff), base=base or {})


def reported(monitor: Monitor, inspection: Inspection) -> set[tuple[str, str]]:
    """Return exploit and severity of everything that a monitor reports."""
    return {(finding.exploit_id, finding.severity) for finding in monitor.inspect(inspection)}


def suspected(monitor: Monitor, inspection: Inspection) -> set[str]:
    """Return the exploits that are more than ``info``; none of them may be ``confirmed``."""
    findings: list[Finding] = monitor.inspect(inspection)
    assert all(finding.severity != "confirmed" for finding in findings)
    return {finding.exploit_id for finding in findings if finding.severity == "suspect"}
