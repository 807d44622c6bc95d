"""The outcome of a tool that reads or searches: an error is what only the harness can have said.

Such a line stands alone or nearly so, and is about this call: about its arguments, its path, its tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .error_sentences import LABELLED, LED, PLAIN, TOOLS_OWN, strength

_MAKES_TEXT = re.compile(r"translat|summar|rewrite|paraphras", re.IGNORECASE)
_UNREADABLE = re.compile(
    r"\bbinary\b|cannot (?:read|open|decode|write|access|display)|(?:permission|access) denied|not a text file"
    r"|unsupported file"
    r"|(?:error|failed to|unable to|could not) (?:read|open|fetch|load|access|list|search|retriev|extract|pars"
    r"|brows|navigat|resolv)"
    r"|blocked|ignored|restricted|excluded|prohibited|not (?:allowed|permitted|running|available|supported"
    r"|authorized|connected|reachable)|outside|forbidden|unauthori[sz]ed"
    r"|escapes|status code|\b40[0-9]\b|denied by|\bnot in the list\b|offset|out of range|beyond|retrieving|reading"
    r"|fetching|searching"
    r"|listing|opening|loading",
    re.IGNORECASE,
)
_TITLED = re.compile(r"[A-Z][\w ]*\b")
_TOOLS_LIMIT = re.compile(
    r"\bbinary\b|denied|outside|not (?:allowed|permitted|supported)|unsupported|forbidden|unauthori[sz]ed|\b40\d\b"
)
_SEARCHES = re.compile(r"search|find|grep|glob|lookup|query|wiki", re.IGNORECASE)
_ABSENT = re.compile(
    r"not (?:be )?found|could not find|couldn't find|cannot find|no \w+(?: \w+)? (?:was |were )?found"
    r"|no (?:matches|results)",
    re.I,
)
_FIRMLY = re.compile(
    r"\W*(?:error|failed|could not|cannot|unable)\b[^\n]{0,40}?\b\w+ing\b|\W*error (?:while|when|in|executing"
    r"|calling)\b",
    re.I,
)
_PATH = re.compile(r"[\w.-]*\w[/.][\w./-]*\w|/\w[\w./-]*")
_ADVICE = re.compile(r"\W*(?:did you mean|please|available|hint|try |use |make sure|check)", re.IGNORECASE)
_SHOWS = re.compile(r"path|file|url|uri|page|href|link|doc", re.IGNORECASE)
_SHOWS_TEXT = re.compile(r"logs?\b|text|transcript|messages?\b|emails?\b|document|article|contents?\b", re.IGNORECASE)
_ADDRESS = re.compile(r"url|uri|href|link", re.IGNORECASE)
_BEFORE_PATH = re.compile(r"\W*(?:(?:error|file|path|the|no such|directory|folder|could not find)\W{1,3})*", re.I)
_GONE = re.compile(
    r"\W{0,3}(?:(?:is |was |does |could |can|has |do)?(?:not|n't) (?:be )?(?:found|exist|present|there|a (?:file"
    r"|directory))|doesn't exist"
    r"|no such (?:file|path|directory)[\w ]*|missing|nonexistent|not found)\b[^\n]{0,80}",
    re.I,
)
_BULLET = re.compile(r"\s*(?:[-*•+]|\d+[.)|:]) ")
_FEW, _MANY, _VALUES = 6, 40, 40


def failed(name: str, arguments: Mapping[str, Any], lines: Sequence[str], said: str, code: str, told: int) -> bool:
    """Whether a result that may be anybody's text is an error: ``told`` is the strength of what it ``said`` first."""
    if len(lines) <= 2 and not_there(arguments, lines[0]):
        return True
    if not told or _echoes(arguments, lines[0]) or (len(lines) > 1 and _BULLET.match(lines[0])):
        return False
    if _MAKES_TEXT.search(name) and code != "tool_not_found" and told < TOOLS_OWN:
        return False
    shows = any(_SHOWS.search(key) for key in arguments) or _shows_text(name)
    advised = len(lines) > 1 and _ADVICE.match(lines[1]) is not None
    if code == "tool_not_found":
        return len(lines) <= 2 and bool(name) and name in said
    if code in ("invalid_args", "malformed_call"):
        return len(lines) <= (_MANY if told == TOOLS_OWN and not shows else _FEW)
    certain = told == TOOLS_OWN or _FIRMLY.match(lines[0]) is not None
    remote = code in ("timeout", "transport_error")
    if len(lines) > 2 + advised and shows and not remote and not certain:
        return False
    if len(lines) > 1 and strength(lines[1]) and said == lines[0].strip():
        return False
    if code == "file_not_found":
        several = sum(strength(line) >= LABELLED for line in lines[:4]) > 1
        return _about(said, arguments) and (len(lines) == 1 or advised or not several)
    if remote:
        local = shows and not any(_ADDRESS.search(key) for key in arguments)
        return len(lines) <= _FEW and (not local or certain or _names(said, arguments) or " server" in said)
    return _otherwise(name, arguments, lines, said, told, shows) if code == "nonzero_exit" else len(lines) <= _FEW


def not_there(arguments: Mapping[str, Any], line: str) -> bool:
    """Whether a line says that a path of the call is not there, and nothing else."""
    return any(_is_not_there(value, line) for value in texts(arguments))


def _is_not_there(value: Any, line: str) -> bool:
    """Whether a line is a path of the call and that there is no such thing, and nothing else."""
    if not isinstance(value, str) or len(value) < 3 or not _PATH.search(value) or value not in line[:600]:
        return False
    before, _, after = line.strip()[:600].partition(value)
    return _BEFORE_PATH.fullmatch(before) is not None and _GONE.fullmatch(after) is not None


def texts(arguments: Mapping[str, Any]) -> list[str]:
    """The texts in the arguments, also those in lists and objects in them."""
    found: list[str] = []
    waiting: list[Any] = list(arguments.values())
    while waiting and len(found) < _VALUES:
        value = waiting.pop(0)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value[:_VALUES])
    return found


def may_be_told(name: str) -> bool:
    """Whether the tool's results are not made by rewriting a text, which may speak of anything."""
    return _MAKES_TEXT.search(name) is None


def _shows_text(name: str) -> bool:
    return _SHOWS_TEXT.search(name.replace("_", " ")) is not None and _SEARCHES.search(name) is None


def _otherwise(
    name: str, arguments: Mapping[str, Any], lines: Sequence[str], said: str, told: int, shows: bool
) -> bool:
    """An error of no known kind, which needs the most signs that it is one."""
    if told < LABELLED and _SEARCHES.search(name) and (told == PLAIN or _ABSENT.search(lines[0])):
        return told == PLAIN and not _ABSENT.search(lines[0]) and " not " in f" {said} "
    if told < LED and not shows and not _TITLED.match(lines[0]):
        return False
    addressed = any(_ADDRESS.search(key) for key in arguments)
    if addressed and (told >= LABELLED and len(lines) == 1 or _names(said, arguments)):
        return told >= LED
    if shows and told < LABELLED and not _names(said, arguments):
        return _TOOLS_LIMIT.search(said) is not None
    firm = _UNREADABLE.search(said) is not None or _FIRMLY.match(said) is not None or not shows
    return firm and (_about(said, arguments) or (not shows and len(lines) <= 3))


def _echoes(arguments: Mapping[str, Any], line: str) -> bool:
    """Whether the line's beginning is what the caller asked about."""
    start = line.strip()[:24].lower()
    return any(
        isinstance(value, str) and len(value) > 8 and start.startswith(value.strip("'\" ").lower()[:24])
        for value in arguments.values()
    )


def _about(said: str, arguments: Mapping[str, Any]) -> bool:
    """Whether an error line names a path of the call, or no path at all."""
    return _names(said, arguments) or not _PATH.search(said.rstrip("."))


def _names(said: str, arguments: Mapping[str, Any]) -> bool:
    values = texts(arguments)
    return any(value in said or value.rstrip("/").rpartition("/")[2] in said for value in values if value.strip("./"))
