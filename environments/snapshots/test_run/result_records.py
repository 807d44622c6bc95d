"""Records of a run: signed, numbered lines of JSON, accepted in sequence and in the shapes that the plugins write."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

OutcomeName = Literal["passed", "failed", "skipped", "xfailed", "xpassed", "error"]
FORGED = "forged or damaged result record"
RUN_SHAPES: dict[str, dict[str, type]] = {
    "modules": {"files": dict},
    "plan": {"count": int},
    "start": {"id": str},
    "result": {"id": str, "outcome": str, "when": str, "message": str, "exception": str, "where": str},
    "collect": {"id": str, "message": str},
    "cover": {"id": str, "files": dict},
    "crossing": {"id": str, "record": dict},
    "end": {"status": int, "cause": str, "ran": int, "selected": int, "violations": list},
}
"""Fields of each kind of record of a test run, with their types."""
Shapes = Mapping[str, Mapping[str, type]]
"""Kinds of records with their fields and the types of these."""


def verified(channel: bytes, key: bytes, shapes: Shapes = RUN_SHAPES) -> tuple[list[dict[str, Any]], str]:
    """Return the records in sequence with a right MAC, and the error of the first that is not (empty without one).

    Only kinds of ``shapes`` are accepted. A last line without its newline is a run that was cut off, not a forgery. A
    record that is signed and has another shape is one: code that reads the key can sign whatever it likes.
    """
    records: list[dict[str, Any]] = []
    for number, line in enumerate(channel.split(b"\n")[:-1]):
        sequence, mac, body = (line.split(b" ", 2) + [b"", b""])[:3]
        expected = hmac.new(key, b"%d %s" % (number, body), hashlib.sha256).hexdigest().encode()
        if sequence != b"%d" % number or not hmac.compare_digest(mac, expected):
            return records, f"{FORGED} at position {number}"
        try:
            record = json.loads(body)
        except (ValueError, RecursionError):
            record = None
        if not _has_shape(record, shapes):
            return records, f"{FORGED} at position {number}"
        records.append(record)
    return records, ""


def _has_shape(record: Any, shapes: Shapes) -> bool:
    """Return whether a record is one that a plugin writes."""
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        return False
    fields = shapes.get(record["kind"])
    if fields is None or not all(isinstance(record.get(name), kind) for name, kind in fields.items()):
        return False
    if record["kind"] == "result":
        return record["outcome"] in get_args(OutcomeName)
    if record["kind"] == "start":
        return isinstance(record.get("doc", ""), str)
    if record["kind"] == "modules":
        return all(isinstance(path, str) for path in record["files"].values())
    if record["kind"] == "cover":
        return all(_are(lines, int) for lines in record["files"].values())
    if record["kind"] == "crossing":
        return _are(record["record"].get("calls", []), dict)
    return record["kind"] != "end" or _are(record["violations"], str)


def _are(items: Any, kind: type) -> bool:
    return isinstance(items, list) and all(isinstance(item, kind) for item in items)
