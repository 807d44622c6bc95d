"""Result objects: JSON (or ``key: value`` XML-free text of it) in which a harness or a tool states an outcome."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..transcript.parsing import clean
from ..transcript.status_line import Status
from ..transcript.tool_roles import role
from ..transcript.tracebacks import ends_with_traceback
from . import interpreter_outcome as cells
from .error_kind_patterns import classify
from .error_sentences import strength
from .limits import timed_out

_CODES = ("exit_code", "returncode", "return_code", "exitCode", "exit_status", "exitcode", "returnCode", "exitStatus")
_NESTED = ("metadata", "meta", "result", "data", "response", "output", "observation", "body", "payload", "execution")
_TEXTS = ("output", "stdout", "out", "stderr", "result", "content", "message", "text", "traceback")
_BAD = frozenset(
    "error errored failed failure fail invalid denied rejected unauthorized forbidden aborted exception not_found "
    "bad_request "
    "tool_error execution_failed unsuccessful".split()
)
_GOOD = frozenset("ok success succeeded successful completed complete done".split())
_LATE = frozenset("timeout timed_out timedout time_out".split())
_LATE_CODES = frozenset((124, 137, 143, -1, -9, -15))
_CUT = re.compile(r"(?:is_|was_|output_|stdout_|stderr_)?truncated|(?:elided|truncated|omitted|dropped)_\w+", re.I)
_RAISES = re.compile(r"[a-z_]{1,20}exception|err|fault|failure|error_?info|problem", re.I)
_FLAGS = ("success", "ok", "successful", "succeeded")
_RAISED = ("is_error", "isError", "failed", "has_error", "error_occurred")
_REASONS = (
    "error_message errorMessage message reason detail details description error_description stderr msg value text "
    "title hint "
    "content exception_info failure_reason traceback"
).split()
_TOLD = frozenset(
    [*_CODES, *_FLAGS, *_RAISED, *_REASONS, *_TEXTS, *_NESTED]
    + "error errors status state code type error_code errorCode error_type status_code statusCode "
    "documentation_url documentation "
    "suggestion suggestions available available_tools tool tool_name name path request_id requestId timestamp "
    "retryable retry_after "
    "help field fields param params path instance value expected received traceback stack exception logs query id ok "
    "duration duration_ms elapsed cwd command timed_out".split()
)
_LARGE, _LITTLE = 20_000, 5
_BAD_CODE = re.compile(
    r"error|invalid|denied|fail|not_?found|missing|forbidden|exceeded|timeout|unavailable|conflict|unauthor"
    r"|E[A-Z]{4,}$",
    re.I,
)
_IDENTITY = re.compile(r"(?:^|_|[a-z](?=I))(?:id|Id|number|uuid|sha|name)$")
_ABOUT_A_THING = re.compile(
    r"(?:^|[_-])(?:get|list|fetch|show|describe|query|find|read|inspect|check|status|search|view|validate)", re.I
)


def parsed(content: str) -> dict[str, Any] | None:
    """The JSON object that a result is; ``None`` when it is none."""
    text = content.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        table = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        table = _as_python(text)
    return table if isinstance(table, dict) else None


def blamed(content: str) -> str:
    """The words for what went wrong, of an object that holds nothing else; '' when it is none.

    Of a tool that prints what was there before, such an object alone proves nothing, but its words may.
    """
    table = parsed(content) if content[:1] == "{" and len(content) < _LARGE else None
    if table is None or len(table) > _LITTLE or any(table.get(key) for key in ("data", "output", "stdout", "result")):
        return ""
    found = [value for key in ("error", "message", "detail") if isinstance(value := table.get(key), str) and value]
    said = found[0] if found and not set(table) - _TOLD else ""
    return said if table.get("error") or any(table.get(key) is False for key in _FLAGS) else ""


def _as_python(text: str) -> Any:
    """The dict that a result is when it was written by ``repr``."""
    if not text.startswith("{'") or len(text) > 20_000:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def outcome(table: Mapping[str, Any], name: str, given: Mapping[str, Any] | None = None) -> tuple[Status, str] | None:
    """The outcome that a result object states, and its text; ``None`` when it states none."""
    table = _opened(table)
    body = clean("\n".join(str(table[key]) for key in _TEXTS if isinstance(table.get(key), str) and table[key]))
    status = _word(table.get("status")) or _word(table.get("outcome")) or _word(table.get("result"))
    if any(table.get(key) is True for key in ("timed_out", "timeout", "timedOut")) or (
        status in _LATE and len(table) < 4
    ):
        return Status("timeout", "timed out"), body
    inner = [table, *(table[key] for key in _NESTED if isinstance(table.get(key), dict))]
    shells = {"stdout", "stderr", "out", "err", "output"} & table.keys()
    keys = (*_CODES, "code", "status", "exit", "rc") if shells else _CODES
    code = next((part[key] for part in inner for key in keys if type(part.get(key)) is int), None)
    if code is not None:
        late = code != 0 and _late(table, code, body)
        return (Status("timeout", "timed out") if late else _whole(exited(code), inner)), body
    if _failed(table, name, status, given):
        return _error(table, name, given, body), body
    good = any(table.get(key) is True for key in _FLAGS) or any(table.get(key) is False for key in _RAISED)
    told = _whole(Status("ok", ""), inner)
    return (told, body) if good or status in _GOOD or told.code else None


def _opened(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object in which the outcome stands: a single one inside this one; what was raised, as its ``error``."""
    keys = [
        key for key in table if isinstance(key, str) and key != "exception" and _RAISES.fullmatch(key) and table[key]
    ]
    if keys and "error" not in table and not isinstance(table[keys[0]], bool):
        return {**table, "error": table[keys[0]]}
    inner = [value for key, value in table.items() if key in ("observation", "tool_result", "result", "response")]
    if len(inner) == 1 and isinstance(inner[0], Mapping) and not table.keys() & {*_CODES, *_FLAGS, "error", "status"}:
        return inner[0]
    return table


def _late(table: Mapping[str, Any], code: int, body: str) -> bool:
    """Whether the time was up: the harness says so beside the output, or the output does, and the code agrees."""
    keys = (key for key in ("error", "exception", *_REASONS) if key not in _TEXTS)
    beside = [table[key] for key in keys if isinstance(table.get(key), str)]
    last = body.strip().rpartition("\n")[2]
    return any(each and classify(each) == "timeout" for each in beside) or (
        code in _LATE_CODES and (timed_out(last) or (bool(strength(last)) and classify(last) == "timeout"))
    )


def _whole(status: Status, parts: list[Mapping[str, Any]]) -> Status:
    """The status of a call that worked, told from one whose result was cut."""
    cut = any(value and _CUT.fullmatch(key) for part in parts for key, value in part.items() if isinstance(key, str))
    return replace(status, code="output_limit") if cut and not status.exit_code else status


def exited(code: int) -> Status:
    return Status("exit", f"exit {code}", exit_code=code) if code else Status("ok", "exit 0", exit_code=0)


def _failed(table: Mapping[str, Any], name: str, status: str, given: Mapping[str, Any] | None) -> bool:
    if any(table.get(key) is False for key in _FLAGS) or any(table.get(key) is True for key in _RAISED[:2]):
        return True
    if any(table.get(key) is True for key in _FLAGS) or any(table.get(key) is False for key in _RAISED[:2]):
        return False
    kind = table.get("type")
    if isinstance(kind, str) and re.search(r"(?:^|[_-])error(?:[_-]|$)", kind) and len(table) < 6:
        return True
    if _is_a_thing(table, name, given or {}):
        return False
    if set(table) == {"detail"}:  # what FastAPI answers
        listed = table["detail"]
        if isinstance(listed, list):
            return bool(listed) and isinstance(listed[0], Mapping) and "loc" in listed[0]
        return bool(strength(str(table["detail"])))
    if table.get("error") or table.get("exception") or table.get("error_message") or table.get("error_code"):
        return True
    listed = table.get("errors")
    if listed and isinstance(listed, list | dict | str) and not _ABOUT_A_THING.search(name) and not _yields(table):
        return True
    word = next((table[key] for key in ("code", "error_code", "errorCode") if isinstance(table.get(key), str)), "")
    if len(table) < 6 and _BAD_CODE.search(word):
        return True
    number = next(
        (table[key] for key in ("status", "code", "statusCode", "status_code") if _is_http_error(table.get(key))), None
    )
    return status in _BAD or number is not None


def _is_a_thing(table: Mapping[str, Any], name: str, given: Mapping[str, Any]) -> bool:
    """Whether this is what was asked for (a run, an order), whose state happens to be an error.

    An outcome holds little but itself; what has three fields more is the thing.
    """
    filled = [key for key, value in table.items() if value not in (None, "", [], {})]
    named = any(_IDENTITY.search(key) for key in filled)
    own = [key for key in filled if key not in _TOLD and not _IDENTITY.search(key)]
    asked = any(_IDENTITY.search(key) and table[key] in given.values() for key in filled)
    if asked and own and _ABOUT_A_THING.search(name):
        return True
    if len(own) >= 3 or _ABOUT_A_THING.search(name) is None:
        return len(own) >= 3
    return len(own) >= 2 or (named and not any(table.get(key) for key in ("error", "message", "errors", "reason")))


def _yields(table: Mapping[str, Any]) -> bool:
    """Whether there is a result beside the errors."""
    return any(table.get(key) for key in ("data", "result", "results", "rows", "items", "output"))


def _is_http_error(value: Any) -> bool:
    if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value):
        value = int(value)
    return type(value) is int and 400 <= value < 600


def _word(value: Any) -> str:
    return value.lower().replace("-", "_").replace(" ", "_") if isinstance(value, str) else ""


def _said(table: Mapping[str, Any], body: str) -> str:
    """The words for what went wrong."""
    error = table.get("error") or table.get("errors") or table.get("exception")
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, Mapping):
        error = next((error[key] for key in (*_REASONS, "type", "code") if isinstance(error.get(key), str)), None)
    told = error if isinstance(error, str) and error else None
    words = (table.get(key) for key in _REASONS)
    told = told or next((word for word in words if isinstance(word, str) and word), None)
    return clean(" ".join(str(told or body or table.get("status") or "failed").split())[:600])


def _error(table: Mapping[str, Any], name: str, given: Mapping[str, Any] | None, body: str) -> Status:
    error, text = table.get("error"), _said(table, body)
    kinds = [
        table.get(key)
        for key in ("type", "code", "error_code", "errorCode", "error_type", "status", "statusCode", "status_code")
    ]
    kinds += [error.get(key) for key in ("type", "code", "kind", "name")] if isinstance(error, Mapping) else []
    words = [str(kind) for kind in kinds if (isinstance(kind, str) or _is_http_error(kind)) and _word(kind) not in _BAD]
    code = next((word for word in words if word in _KINDS), "") or classify(text, name, given)
    if code == "nonzero_exit" and words:
        code = classify(f"{' '.join(words).replace('_', ' ')}: {text}", name, given)
    errors = table.get("errors") or table.get("detail")
    if (
        code == "nonzero_exit"
        and isinstance(errors, list)
        and isinstance(errors[0] if errors else None, Mapping)
        and ({"field", "loc"} & errors[0].keys())
    ):
        code = "invalid_args"
    if role(name, given or ()) == "code":
        code = cells.kind_of(text, code=code)
    if role(name, given or ()) in ("shell", "code") and any(
        ends_with_traceback(str(table.get(key) or "")) for key in ("stderr", "traceback", "error")
    ):
        code = "traceback"
    return Status("error", text, code=code, message=text)


_KINDS = frozenset(
    "tool_not_found invalid_args malformed_call file_not_found edit_failed command_not_found timeout output_limit "
    "transport_error "
    "traceback".split()
)
