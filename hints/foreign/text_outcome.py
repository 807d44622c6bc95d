"""The outcome of a call that reports none, from a result of text alone.

A tool that acts or computes answers with its own words: an error sentence there is its error. A tool that prints (a
reader, an interpreter, a test run) answers with other people's words: there only what the harness can have said
counts, which is short, about this call, and not in the call's own arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..transcript.status_line import Status
from ..transcript.tool_roles import PRINTING, Role, role
from ..transcript.tracebacks import is_traceback
from . import interpreter_outcome as cells
from . import limits, shells, wrappers
from . import reader_tools as readers
from .error_kind_patterns import classify
from .error_sentences import LABELLED, TOOLS_OWN, strength
from .labels import unlabelled, unsigned

_WRAPPED = re.compile(
    r"(?P<lead>[^\n<]{0,80}\berror:?\s*\n)?\s*<(?P<tag>(?:\w+_)?error(?:_details)?)>(?P<said>.*?)</(?P=tag)>\s*"
    r"|<(?P<own>system|status|tool_status|harness)>\s*(?P<words>(?:error|failed)\b[^\n<]*)</(?P=own)>(?:\s*|\n.*)",
    re.DOTALL | re.IGNORECASE,
)
_MARKED = re.compile(
    r"<(?P<tag>\w[\w-]{0,30})\b[^<>\n]{0,200}?\b(?:(?:status|state|type|outcome|result)=[\"']?(?:error|failed|failure|fail)\b"
    r"|(?:is_?)?error=[\"']?true|(?:success|ok)=[\"']?false)[^<>\n]{0,200}>(?P<said>.*?)(?:</(?P=tag)>\s*)?",
    re.DOTALL | re.IGNORECASE,
)
_STATED = re.compile(
    r"\s*(?:status|result|outcome)[\"']?\s*[:=]\s*[\"']?(error|failed|failure)[\"']?\s*(?:\n|[,;.]|\Z)", re.IGNORECASE
)
_STATED_WHY = re.compile(r"^(?:error|message|reason|details?)[ \t]*:\s*(\S[^\n]*)", re.IGNORECASE | re.MULTILINE)
_ERROR_IN = re.compile(r"<(?P<tag>error(?:_message)?|failure|exception)>(?P<said>[^<]+)</(?P=tag)>", re.IGNORECASE)
_BRINGS = re.compile(r"<(?:content|contents|output|stdout|result|data|text)\b[^>]*>\s*[^<\s]", re.IGNORECASE)
_MARKUP = 2000
_FEW = 6
_MANY = 40
_LONG = 500
_DONE = re.compile(
    r"\W*(?:the file|file|edited|wrote|updated|created|success\w*|applied|here's|done|ok|saved|replaced|inserted"
    r"|patched)\b",
    re.IGNORECASE,
)
_CHANGED = re.compile(r"\b(?:replaced|updated|changed|edited|applied|written|saved|modified)\b", re.IGNORECASE)
_NOT_DONE = re.compile(
    r"\bnot\b|n't\b|\bno (?:changes|edits|replacements?)\b|\bcannot\b|\bfail|already exists|exceeds", re.I
)
_REPR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:\([^\n]*\)|: [^\n]*|)\s*")


def wrapped(name: str, content: str, arguments: Mapping[str, Any]) -> str:
    """What stands between error tags that are all of a result; '' when it is no such result.

    A bare ``<error>`` from a tool that prints text may be anybody's.
    """
    if "<" not in content[:300]:
        return ""
    content = content.strip()
    marked = _MARKED.fullmatch(content) if content[:1] == "<" and len(content) < 20_000 else None
    if marked is not None:
        return marked["said"].strip() or "failed"
    found = _WRAPPED.fullmatch(content) if len(content) < 20_000 else None
    if found is None:
        return _nested(content, arguments)
    if found["words"]:
        return found["words"]
    if role(name) in PRINTING and not found["lead"] and found["tag"].lower() == "error":
        return ""
    return found["said"].strip()


def _nested(content: str, arguments: Mapping[str, Any]) -> str:
    """The ``<error>`` of markup that is all of a result, names what the call asked for and brings nothing else."""
    if content[:1] != "<" or content[-1:] != ">" or len(content) > _MARKUP or _BRINGS.search(content):
        return ""
    found = _ERROR_IN.search(content)
    asked = (value for value in readers.texts(arguments) if len(value) > 2)
    return found["said"].strip() if found is not None and any(f">{value}<" in content for value in asked) else ""


def verdict(name: str, kind: Role, arguments: Mapping[str, Any], content: str, *, known: bool) -> Status | None:
    """The outcome of a tool that is no shell; ``None``: nothing says that it failed.

    ``known``: the log's schemas have this tool, so nobody can have missed it.
    """
    content = unsigned(wrappers.bare(content)) if kind != "tests" else wrappers.bare(content)
    if kind == "code" and (said := unlabelled(content)) is not content:
        told = _verdict(name, kind, arguments, said, known=known)
        return told or _verdict(name, kind, arguments, content, known=known)
    return _verdict(name, kind, arguments, content, known=known)


def _verdict(name: str, kind: Role, arguments: Mapping[str, Any], content: str, *, known: bool) -> Status | None:
    lines = [line for line in content.strip().splitlines() if line.strip()]
    if not lines:
        return None
    if kind == "code" and (magic := cells.command(arguments)):
        return shells.verdict({"command": magic}, content)
    if kind != "tests" and (stated := _STATED.match(content)) is not None:
        reason = _STATED_WHY.search(content)
        why = reason[1] if reason else content[stated.end() :].strip()
        return Status("error", lines[0][:600], code=kind_of(name, arguments, why), message=why[:600])
    told = strength(_unnamed(name, content.lstrip()))
    said = _first_words(lines)
    code = classify(_without_own(said, arguments), name, dict(arguments), known=known) if told else ""
    if kind == "code":
        return cells.verdict(arguments, content, lines, told, code)
    if kind == "tests":
        late = code == "timeout" and (name in said or limits.timed_out(said))
        wrong = len(lines) == 1 and (
            late or (told == TOOLS_OWN and code in ("tool_not_found", "invalid_args", "malformed_call"))
        )
    elif kind == "reader":
        wrong = readers.failed(name, arguments, lines, said, code, told)
    else:
        wrong = _did(name, kind, arguments, lines, told, code)
    few = 1 if kind == "reader" else _FEW
    if not wrong and kind != "tests" and len(lines) <= few and readers.may_be_told(name) and limits.timed_out(lines[0]):
        wrong, code = True, "timeout"
    if kind != "tests" and len(lines) <= 2 and readers.may_be_told(name) and limits.spent(lines[0]):
        wrong, code = True, "budget"
    if wrong:
        code = code or classify(_without_own(said, arguments), name, dict(arguments), known=known)
        if kind != "code" and is_traceback(wrappers.announced(content)):
            code = "traceback"
        return Status("timeout" if code == "timeout" else "error", lines[0][:600], code=code, message=said[:600])
    if (kind == "other" and is_traceback(content)) or (kind != "tests" and is_traceback(wrappers.announced(content))):
        return Status("error", lines[-1][:600], code="traceback", message=lines[-1][:600])
    return None


def _unnamed(name: str, content: str) -> str:
    """A result without the tool's name before its words."""
    found = re.match(rf"\W{{0,2}}{re.escape(name)}\W{{0,3}}(?:: | - |\] )", content) if name else None
    found = found or re.match(r"-32\d{3}(?:: | - )", content)
    return content[found.end() :] if found else content


def kind_of(name: str, arguments: Mapping[str, Any], content: str) -> str:
    """What kind of failure it was that a call is known to be, from all of its words."""
    content = wrappers.bare(content)
    if role(name, arguments) == "code":
        return cells.kind_of(content)
    if is_traceback(content) or is_traceback(wrappers.announced(content)):
        return "traceback"
    lines = [line for line in content.strip().splitlines() if line.strip()] or [""]
    if _REPR.match(lines[0]) is None and limits.timed_out(lines[0]):
        return "timeout"
    return classify(_without_own(_first_words(lines), arguments), name, dict(arguments))


def _first_words(lines: Sequence[str]) -> str:
    """The first line, or more where that one only announces what comes."""
    first = lines[0].strip()
    if first.endswith((":", "[", "{", "!")) or len(first) < 40:
        return " ".join(line.strip() for line in lines[:_FEW])[:600]
    return f"{first} {lines[1].strip()[:200] if len(lines) > 1 else ''}"[:600]


def _without_own(said: str, arguments: Mapping[str, Any]) -> str:
    """The words without long texts that the caller gave."""
    for key, value in arguments.items():
        if key != "error" and isinstance(value, str) and len(value) > 30 and "/" not in value[:4]:
            said = said.replace(value, "...")
    return said


def _did(name: str, kind: Role, arguments: Mapping[str, Any], lines: Sequence[str], told: int, code: str) -> bool:
    """Whether a tool that acts or computes says that it failed."""
    if name and f"{name} is not a valid tool" in lines[0]:
        return True
    if kind == "editor" and len(lines) <= 2 and readers.not_there(arguments, lines[0]):
        return True
    if (
        kind == "editor"
        and len(lines) <= _MANY
        and len(lines[0]) < _LONG
        and not _DONE.match(lines[0])
        and not (_CHANGED.search(lines[0]) and not _NOT_DONE.search(lines[0]))
        and classify(lines[0], name) == "edit_failed"
    ):
        return True
    if not told or len(lines) > (_MANY if told >= LABELLED or kind == "editor" else _FEW):
        return False
    return not (kind == "editor" and told < LABELLED and _DONE.match(lines[0]) and not _NOT_DONE.search(lines[0]))
