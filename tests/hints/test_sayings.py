"""One call, one result, one kind: what harnesses, shells and tools say (see tests/data/transcripts/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from etude.hints import annotate

BEHAVIOURS = {"wasteful", "style", "false_claim"}


def kind_of(tool: str, arguments: dict[str, Any], content: str) -> str | None:
    """Return the kind of error that a log of this one call has."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "a", "content": content},
    ]
    return next((error.kind for error in annotate(messages, []) if error.kind not in BEHAVIOURS), None)


def test_a_result_that_only_looks_like_a_failure_is_not_an_error(root: Path) -> None:
    harmless = [row for row in sayings(root) if row[3] is None]
    assert len(harmless) > 60
    assert [row for row in harmless if kind_of(*row[:3]) is not None] == []


def test_a_failure_that_is_reported_has_its_kind(root: Path) -> None:
    """Most of these have words alone, of which only the commonest are read."""
    failures = [row for row in sayings(root) if row[3] is not None]
    kinds = [(kind_of(*row[:3]), row[3]) for row in failures]
    reported = [(kind, expected) for kind, expected in kinds if kind is not None]
    right = sum(kind == expected for kind, expected in reported)
    print(f"{len(failures)} failures, {len(reported)} reported, {right} with the right kind")
    assert right >= 0.95 * len(reported) and right >= 0.4 * len(failures)


def sayings(root: Path) -> list[Any]:
    lines = (root / "tests" / "data" / "transcripts" / "sayings.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
