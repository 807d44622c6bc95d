"""Result objects: JSON in which a harness or a tool states how a call went."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..transcript.parsing import clean
from ..transcript.status_line import Status
from ..transcript.tool_roles import role
from ..transcript.tracebacks import ends_with_traceback
from .error_patterns import classify

_EXIT_CODES = "rc exit_code returncode return_code exitCode exit_status exitcode returnCode exitStatus".split()
_INNER = "metadata meta result data response output observation tool_result body payload execution".split()
_OUTPUTS = "output stdout out stderr result content message text traceback".split()
_SUCCESS_FLAGS = ("success", "ok", "successful", "succeeded")
_FAILURE_FLAGS = ("is_error", "isError", "has_error")
_BAD = frozenset("error errored failed failure fail invalid denied rejected unauthorized forbidden exception".split())
_GOOD = frozenset("ok success succeeded successful completed complete done".split())
_LATE = frozenset("timeout timed_out timedout".split())
KILLED = frozenset((124, 137, 143, -1, -9, -15))
"""Exit codes of commands that were killed."""
_TRUNCATED = re.compile(r"(?:is_|was_|output_|stdout_)?truncated|(?:elided|truncated|omitted|dropped)_\w+", re.I)
_REASONS = "message error_message errorMessage reason detail details description stderr msg text title hint".split()
_LABELS = "type kind name code error_code errorCode error_type status_code statusCode status".split()
_OUTCOME_KEYS = frozenset(
    [*_EXIT_CODES, *_SUCCESS_FLAGS, *_FAILURE_FLAGS, *_REASONS, *_OUTPUTS, *_LABELS]
    + "error errors response documentation_url suggestion suggestions available available_tools tool tool_name path "
    "request_id timestamp retryable retry_after help field param value expected received exception query".split()
)


def parse_object(content: str) -> dict[str, Any] | None:
    """Return the object that a result is, ``None`` for any other text."""
    text = content.strip()
    if not (text.startswith("{") and text.endswith("}")) or len(text) > 1_000_000:
        return None
    try:
        table = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def stated_outcome(table: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> tuple[Status, str] | None:
    """Return the status that a result object states, and its text; ``None`` when it states no outcome."""
    parts = [table, *(table[key] for key in _INNER if isinstance(table.get(key), dict))]
    texts = (part[key] for part in parts for key in _OUTPUTS if isinstance(part.get(key), str))
    body = clean("\n".join(text for text in texts if text))
    state = _word(table.get("status")) or _word(table.get("result"))
    if any(table.get(key) is True for key in ("timed_out", "timeout", "timedOut")) or state in _LATE:
        return Status("timeout", "timed out"), body
    code = next((part[key] for part in parts for key in _EXIT_CODES if type(part.get(key)) is int), None)
    if code is not None:
        late = code in KILLED and classify(_reason(table, body)) == "timeout"
        return (Status("timeout", "timed out") if late else _if_truncated(exit_status(code), parts)), body
    flags = [table[key] for key in _SUCCESS_FLAGS if isinstance(table.get(key), bool)]
    flags += [not table[key] for key in _FAILURE_FLAGS if isinstance(table.get(key), bool)]
    if not all(flags) or (not flags and _is_failure(table, state)):
        return _failure(table, name, arguments, body), body
    status = _if_truncated(Status("ok", ""), parts)
    return (status, body) if flags or state in _GOOD or status.code else None


def exit_status(code: int) -> Status:
    """Return the Status of a reported exit code."""
    return Status("exit", f"exit {code}", exit_code=code) if code else Status("ok", "exit 0", exit_code=0)


def _if_truncated(status: Status, parts: list[Mapping[str, Any]]) -> Status:
    """Return the status, marked ``output_limit`` when the call worked and a key says that its output was cut."""
    cut = any(value and _TRUNCATED.fullmatch(key) for part in parts for key, value in part.items())
    return replace(status, code="output_limit") if cut and not status.exit_code else status


def _is_failure(table: Mapping[str, Any], state: str) -> bool:
    """Return whether an object without a flag says that the call failed.

    An object with any other field is the thing that was asked for (a run, an order), whose state may be an error.
    """
    filled = {key for key, value in table.items() if value not in (None, "", [], {})}
    if filled - _OUTCOME_KEYS and "jsonrpc" not in table:
        return False
    numbers = (table.get(key) for key in ("status", "code", "status_code", "statusCode"))
    refused = any(type(number) is int and 400 <= number < 600 for number in numbers)
    return bool(table.get("error") or table.get("errors") or table.get("exception")) or state in _BAD or refused


def _word(value: Any) -> str:
    return value.lower().replace("-", "_").replace(" ", "_") if isinstance(value, str) else ""


def _reason(table: Mapping[str, Any], body: str) -> str:
    """Return the words that say what went wrong."""
    error = table.get("error") or table.get("errors") or table.get("exception")
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, Mapping):
        error = next((error[key] for key in (*_REASONS, "type", "code") if isinstance(error.get(key), str)), None)
    texts = [error, *(table.get(key) for key in _REASONS), body, table.get("status")]
    text = next((text for text in texts if isinstance(text, str) and text), "") or json.dumps(dict(table), default=str)
    return clean(" ".join(text.split())[:600])


def _failure(table: Mapping[str, Any], name: str, arguments: Mapping[str, Any], body: str) -> Status:
    error, text = table.get("error"), _reason(table, body)
    code = classify(text, name, arguments)
    if code == "nonzero_exit":
        labelled = [table, *([error] if isinstance(error, Mapping) else [])]
        labels = " ".join(str(part[key]) for part in labelled for key in _LABELS if key in part)
        code = classify(labels.replace("_", " "), name, arguments)
    if role(name, arguments) in ("shell", "code"):
        raised = any(ends_with_traceback(str(table.get(key) or "")) for key in ("stderr", "traceback", "error"))
        code = "traceback" if raised else code
    return Status("error", text, code=code, message=text)
