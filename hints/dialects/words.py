"""A harness's own error lines: how they begin, and what kind of error they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..roles import PRINTING, Role, role
from ..status import Status
from ..tracebacks import is_traceback

_PREFIX = re.compile(
    r"\s*(?:\[?(?:tool |function )?error\]?(?: (?:executing|calling|running|in)(?: tool| function)? ?\S*)?:"
    r"|(?:MCP |RPC |API )error (?:-?\d+)?:|(?:\w+\.)*\w*(?:Error|Exception)(?::|(?=\([^\n]*\)\s*\Z)))\s*",
    re.IGNORECASE,
)
_WRAPPED = re.compile(
    r"\s*(?P<lead>[^\n<]{0,80}\berror:?\s*\n)?\s*<(?P<tag>(?:\w+_)?error)>\s*(?P<said>.*?)\s*</(?P=tag)>\s*",
    re.DOTALL | re.IGNORECASE,
)
_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (code, re.compile(pattern, re.IGNORECASE))
    for code, pattern in (
        (
            "malformed_call",
            r"invalid json|not (?:a )?valid json|jsondecodeerror|(?:could not|cannot|can't|failed to|unable to) parse\b"
            r"|invalid format: missing|malformed|arguments as json",
        ),
        (
            "tool_not_found",
            r"\b(?:unknown|no such|unrecognized|invalid|nonexistent) (?:tool|function)\b"
            r"|\bno (?:tool|function) (?:named|called)\b"
            r"|there is no (?:tool|function)\b|not a valid (?:tool|function)\b"
            r"|\b(?:tool|function)\b.{0,60}?\b(?:not found|does not exist|is not available|doesn't exist)",
        ),
        (
            "invalid_args",
            r"\bmissing (?:\d+ )?(?:required )?(?:positional |keyword(?:-only)? )?(?:arguments?|parameters?|fields?)\b"
            r"|\bunexpected (?:keyword )?argument|\bis required\b"
            r"|\brequired (?:property|parameter|argument)\b|\bfield required\b"
            r"|\binvalid (?:arguments?|parameters?|regular expression|pattern)\b"
            r"|validation errors?\b|\bmust be (?:an?|of type|one of|true|at least|at most|less|greater|between)\b"
            r"|\bis not an? (?:integer|number|string|boolean|list|object)\b"
            r"|needs the argument|has no argument|\binvalid_args\b",
        ),
        (
            "edit_failed",
            r"no replacement was performed|\bold_?str\w*\b|\b(?:string|text|snippet) to replace\b"
            r"|did not appear verbatim"
            r"|\boccurs \d+ times|\b(?:multiple|\d+) (?:occurrences|matches)\b"
            r"|hunk\b.*\bfail|patch (?:failed|does not apply)"
            r"|\bdoes not match anything\b|\bold is (?:not in|empty)\b|\bedit_failed\b|string not found",
        ),
        (
            "file_not_found",
            r"no such file|\b(?:file|path|directory|folder)\b.*\b(?:(?:does not|doesn't) exist|not found\b)"
            r"|\bis a (?:directory|folder)\b"
            r"|filenotfounderror|\benoent\b|\bnot a directory\b|\bfile_not_found\b|cannot find (?:the )?(?:file|path)",
        ),
        (
            "transport_error",
            r"\b(?:429|500|502|503|504)\b|rate.?limit|too many requests|service unavailable|bad gateway"
            r"|internal server error"
            r"|connection (?:error|refused|reset|aborted|closed)|\beconn\w+|temporarily unavailable"
            r"|network (?:error|is unreachable)"
            r"|\btransport_error\b",
        ),
        ("timeout", r"\btimed out\b|\btime-?out\b|took (?:longer|more) than|deadline exceeded|timeouterror"),
    )
)
_UNREADABLE = re.compile(
    r"\bis a binary file|cannot (?:read|open|decode|write)|permission denied|not a text file", re.IGNORECASE
)
_DONE = re.compile(
    r"\s*(?:the file|file|edited|wrote|updated|created|successfully|applied|here's|success|done|ok)\b", re.IGNORECASE
)
_ALONE = re.compile(
    r"\s*(?:failed to|could not|unable to|found \d+ matches of|invalid format: missing"
    r"|no replacement was performed|(?:string|text) to replace\b|unknown (?:tool|function)\b"
    r"|invalid (?:tool|function)\b|no such (?:tool|function)\b|(?:tool|function) "
    r"(?:not found|\S+ (?:not found|does not exist))"
    r"|(?:file|path|the path|the file)\b[^\n]*\b(?:does not exist|not found)|no such file)",
    re.IGNORECASE,
)
_PATH = re.compile(r"[\w.-]*[/.][\w./-]*\w")
_FEW = 6


def wrapped(name: str, content: str) -> str:
    """What stands between error tags that are all of a result; '' when it is no such result.

    A bare ``<error>`` from a tool that prints text may be anybody's.
    """
    found = _WRAPPED.fullmatch(content) if len(content) < 20_000 else None
    if found is None or (role(name) in PRINTING and not found["lead"] and found["tag"].lower() == "error"):
        return ""
    return found["said"]


def classify(text: str, name: str = "", kind: str = "") -> str:
    """The code of an error that a harness states in words; ``kind`` is a code that it gave along."""
    known, text = {code for code, _ in _WORDS}, text[:600]
    if kind in known:
        return kind
    editor = role(name) == "editor"
    for code, pattern in _WORDS:
        if (code != "edit_failed" or editor) and pattern.search(text):
            return code
    return "nonzero_exit"


def verdict(name: str, kind: Role, arguments: Mapping[str, Any], content: str, *, known: bool) -> Status | None:
    """The outcome of a tool that is no shell, from a result of text alone; ``None``: nothing says that it failed.

    ``known``: the log's schemas have this tool, so nobody can have missed it.
    """
    lines = content.strip().splitlines()
    if not lines:
        return None
    prefix = _PREFIX.match(content)
    said = content[prefix.end() :].strip().partition("\n")[0] if prefix else lines[0]
    code = classify(said, name)
    if kind in PRINTING:
        wrong = _printed(name, kind, arguments, lines, said, code, bool(prefix))
    else:
        names_no_tool = f"{name} is not a valid tool" in lines[0] if name else False
        wrong = len(lines) <= _FEW and (bool(prefix) or names_no_tool or bool(_ALONE.match(lines[0])))
        wrong = wrong and not (kind == "editor" and not prefix and _DONE.match(lines[0]) and not _ALONE.match(lines[0]))
    if wrong and code == "tool_not_found" and known:
        wrong = False
    if wrong:
        return Status("error", lines[0][:600], code=code, message=said[:600])
    if kind == "other" and is_traceback(content):
        return Status("error", lines[-1][:600], code="traceback", message=lines[-1][:600])
    return None


def _printed(
    name: str, kind: Role, arguments: Mapping[str, Any], lines: list[str], said: str, code: str, prefixed: bool
) -> bool:
    """Whether a result that may be anybody's text is the harness's error: one line, of known kind, about this call."""
    if len(lines) > 1 + (not said or said != lines[0].strip() and said == lines[-1].strip()):
        return False
    if code == "tool_not_found":
        return bool(name) and name in said
    if not prefixed and not _ALONE.match(lines[0]):
        return False
    if code == "file_not_found":
        return kind != "tests" and _about(said, arguments)
    if code == "nonzero_exit":
        return _UNREADABLE.search(said) is not None and _about(said, arguments)
    return True


def _about(said: str, arguments: Mapping[str, Any]) -> bool:
    """Whether an error line names a path of the call, or no path at all."""
    values = [value for value in arguments.values() if isinstance(value, str) and value]
    named = any(value in said or value.rpartition("/")[2] in said for value in values if value.strip("./"))
    return named or not _PATH.search(said.rstrip("."))
