"""How a harness reports outcomes without status lines: exit codes in a fixed place, or a result object.

A place counts for a tool only when most of the tool's results use it: a file that holds such a line does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from ..roles import PRINTING, role
from ..status import Status
from . import words

Report = Callable[[str], "tuple[Status, str] | None"]

_CODE = r"(?:exit(?:ed)?(?:[ _-](?:code|status))?|return[ _-]?code|code)"
_FIRST = re.compile(
    rf"\s*(?:<(returncode|exit_code|exitcode)>\s*(-?\d+)\s*</\1>|[\[(]?{_CODE}[:= ]+(-?\d+)[\])]?\.?)[ \t]*(?:\n|\Z)",
    re.IGNORECASE,
)
_LAST = re.compile(
    rf"(?:\A|\n)[ \t]*(?:\[[^\n\]]*\b{_CODE}[:= ]+(-?\d+)\.?\]|{_CODE}[:= ]+(-?\d+)|"
    r"(?:the )?(?:command|process)[^\n]{0,30} (?:completed|finished|exited|failed)[^\n]{0,10} code (-?\d+)\.?)\s*\Z",
    re.IGNORECASE,
)
_TRAILER = re.compile(r"(?:(?:\A|\n)[ \t]*\[[^\n]*\][ \t]*)+\s*\Z")
_TIMED_OUT = re.compile(r"^[ \t]*\[[^\n]*\btimed out\b", re.MULTILINE)
_BLOCK = re.compile(r"(?s:\ACommand: .*\n)Exit Code: (-?\d+)$", re.MULTILINE)
_HEADER = re.compile(
    r"(?:EXECUTION )?(?:RESULT|OBSERVATION|OUTPUT)(?: of \[[^\n]*\])?:[ \t]*\n|Command executed\.\s*\nOutput:[ \t]*\n",
    re.IGNORECASE,
)
_OUTPUT = re.compile(r"\s*<output>\n?(.*?)\n?</output>\s*", re.DOTALL)
_CUT = re.compile(
    r"^[^\w\n]{0,20}(?:(?:the |\d[\d,]* )?(?:more )?"
    r"(?:bytes|char(?:acter)?s|lines|tokens|output|response|observation|result)\b"
    r"[^\n]{0,40}\b(?:dropped|truncated|clipped|omitted|elided|not shown)\b[^\n]{0,60}"
    r"|(?:truncated|clipped|response clipped|output truncated)\b[^\n]{0,80})$",
    re.MULTILINE | re.IGNORECASE,
)
_LONG = 2000
_CODES = ("exit_code", "returncode", "return_code", "exitCode", "exit_status", "exitcode", "returnCode")
_NESTED = ("metadata", "meta", "result")
_TEXTS = ("output", "stdout", "stderr", "result", "content", "message", "text")


def unheaded(content: str) -> str:
    """A result without the line that some harnesses put before every one."""
    return _HEADER.sub("", content, count=1) if _HEADER.match(content) else content


def reporters(name: str, contents: Sequence[str]) -> Report:
    """What reads the reports of one tool, given all of its results; ``None`` from it: nothing is reported."""
    printing = role(name) in PRINTING
    objects = [_object(content) is not None for content in contents]
    use_objects = not printing or sum(objects) * 2 > len(objects)
    places = [
        place
        for place in (_FIRST, _LAST, _BLOCK)
        if sum(_at(place, each) is not None for each in contents) * 2 >= len(contents)
    ]

    def report(content: str) -> tuple[Status, str] | None:
        table = _object(content) if use_objects else None
        if table is not None:
            return _from_object(table, name)
        for place in places if printing else ():
            found = _at(place, content)
            if found is not None:
                return _trailed(int(found[0]), content) if place is _LAST else _exited(int(found[0])), found[1]
        return None

    return report


def cut(body: str) -> bool:
    """Whether the harness says that it cut a result: on a line of its own, last or in the middle of a long text."""
    if len(body) < _LONG:
        return False
    size = len(body)
    return any(size / 4 < mark.start() < size * 3 / 4 or mark.end() > size - 3 for mark in _CUT.finditer(body))


def first_exit(content: str) -> tuple[Status, str] | None:
    """An exit code on the first line, whatever the tool's other results look like."""
    found = _at(_FIRST, content)
    return None if found is None else (_exited(int(found[0])), found[1])


def _exited(code: int) -> Status:
    return Status("exit", f"exit {code}", exit_code=code) if code else Status("ok", "exit 0", exit_code=0)


def _trailed(code: int, content: str) -> Status:
    """The outcome that the bracketed lines at the end of a result state."""
    block = _TRAILER.search(content, max(len(content) - 1000, 0))
    if code and block is not None and _TIMED_OUT.search(block[0]):
        return Status("timeout", block[0].strip().partition("\n")[0])
    return _exited(code)


def _at(place: re.Pattern[str], content: str) -> tuple[str, str] | None:
    """(exit code, the rest) where a report stands in its place."""
    found = place.search(content, max(len(content) - 200, 0)) if place is _LAST else place.match(content)
    if found is None:
        return None
    code = next(group for group in found.groups() if group is not None and group.lstrip("-").isdigit())
    if place is _LAST:
        found = _TRAILER.search(content, max(len(content) - 1000, 0)) or found
    if place is _BLOCK:
        return code[:9], content
    rest = content[found.end() :] if place is _FIRST else content[: found.start()]
    inner = _OUTPUT.fullmatch(rest)
    return code[:9], inner[1] if inner else rest


def _object(content: str) -> dict[str, Any] | None:
    text = content.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        table = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def _from_object(table: dict[str, Any], name: str) -> tuple[Status, str] | None:
    """The outcome that a result object states; ``None`` when it states none."""
    body = "\n".join(str(table[key]) for key in _TEXTS if isinstance(table.get(key), str) and table[key])
    if any(table.get(key) is True for key in ("timed_out", "timeout", "timedOut")):
        return Status("timeout", "timed out"), body
    inner = [table, *(table[key] for key in _NESTED if isinstance(table.get(key), dict))]
    code = next((part[key] for part in inner for key in _CODES if type(part.get(key)) is int), None)
    if code is not None:
        return _exited(code), body
    error, status = table.get("error"), table.get("status")
    failed = bool(error) or table.get("success") is False or table.get("ok") is False
    failed = failed or table.get("is_error") is True or table.get("isError") is True
    if failed or (isinstance(status, str) and status.lower() in ("error", "failed", "failure")):
        said = error if isinstance(error, str) else error.get("message") if isinstance(error, dict) else None
        text = " ".join(str(said or table.get("message") or body or status or "failed").split())[:600]
        kind = table.get("type") or table.get("code") or (error.get("type") if isinstance(error, dict) else "")
        return Status("error", text, code=words.classify(text, name, str(kind)), message=text), body
    stated = table.get("success") is True or table.get("ok") is True or table.get("is_error") is False
    return (
        (Status("ok", ""), body)
        if stated or (isinstance(status, str) and status.lower() in ("ok", "success"))
        else None
    )
