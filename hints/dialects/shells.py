"""What a shell's text alone tells of an outcome, when no exit code is reported.

Only what cannot be somebody else's text counts: the shell's own words about a command of this call, a program's own
last words under its own name, a traceback that ends the output of a program that was run. What ``cat``, ``grep`` and
the like print is never read, except their own complaint about a path that they were given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..behaviour.shell import Simple, command_of, looks, parse
from ..status import Status
from ..tracebacks import ends_with_traceback, is_traceback
from .reports import first_exit

_SHELL = re.compile(r"(?:-?(?:/(?:usr/)?bin/)?(?:ba|z|da|k)?sh(?:: line \d+|:\d+|: \d+)?|sudo|nohup|env): ")
_NOT_FOUND = re.compile(
    r"(?:command not found: (?P<zsh>\S+)|(?P<name>\S+): (?:command not found|not found|No such file or directory))$"
)
_TIMED_OUT = re.compile(
    r"\s*(?:\[|<)?(?:(?:tool |execution )?error: )?(?:the )?"
    r"(?:command|process|execution|bash|tool)?(?: \S+)? ?(?:has )?"
    r"(?:timed out|timeout)\b(?: after|:| \(|$|\])[^\n]{0,80}$"
    r"|\s*the command\b[^\n]{0,200} (?:timed out|took (?:more|longer) than)\b",
    re.IGNORECASE,
)
_COMPLAINT = re.compile(
    r"\b(?:errors?|cannot|can't|no such|not found|invalid|unrecogni[sz]ed|unknown|missing|failed|fatal|denied"
    r"|refused|unable"
    r"|no rule|not recoverable|illegal|could not|not a)\b|\*\*\*|\(\d+\)",
    re.IGNORECASE,
)
_FAILED = re.compile(r"(?:ERROR|error|fatal|Error|npm ERR!|npm error):?(?: |$)")
_ADVICE = re.compile(r"(?:See|Try|Run|Use|Usage|usage|For more|Please|and the|hint|\s)")
_SILENT = frozenset("sleep true false test [ cd export set".split())
_RUNS_PYTHON = re.compile(r"\bpython|\bpytest|\.py\b|\bpip\b")


def verdict(arguments: Mapping[str, Any], content: str) -> Status | None:
    """The outcome of a shell call from its text; ``None``: nothing says that it failed."""
    command = command_of(arguments) or _only_text(arguments)
    lines = [line for line in content.strip("\n").split("\n") if line.strip()]
    if not lines:
        return None
    parts = parse(command)
    shows = bool(parts) and all(looks(part) for part in parts) and not all(part.program in _SILENT for part in parts)
    exited = first_exit(content)
    if exited is not None and exited[0].exit_code:
        rest = exited[1].strip().split("\n")
        if not shows or rest == [""] or _complains(parts, rest[-1]):
            return exited[0]
    if not shows and (_TIMED_OUT.match(lines[0]) or (lines[-1].startswith(("[", "<")) and _TIMED_OUT.match(lines[-1]))):
        return Status("timeout", lines[0][:600], message=lines[0][:600])
    return _shells_own(parts, lines) or _programs_own(parts, lines, content, command, shows)


def _only_text(arguments: Mapping[str, Any]) -> str:
    values = [value for value in arguments.values() if isinstance(value, str)]
    return values[0] if len(values) == 1 else ""


def _shells_own(parts: tuple[Simple, ...], lines: list[str]) -> Status | None:
    """``bash: x: command not found``, first or last, when ``x`` is a command of this call."""
    for line in {lines[0]: None, lines[-1]: None}:
        start = _SHELL.match(line)
        found = _NOT_FOUND.fullmatch(line[start.end() :]) if start else None
        if found is None:
            continue
        name = found["zsh"] or found["name"]
        if any(name == part.words[0] or name == part.program for part in parts):
            return Status("error", line[:600], code="command_not_found", message=line[:600])
    return None


def _programs_own(
    parts: tuple[Simple, ...], lines: list[str], content: str, command: str, shows: bool
) -> Status | None:
    """A program's last words."""
    last = lines[-1]
    if not shows:
        ran_python = _RUNS_PYTHON.search(command) is not None
        if is_traceback(content) or (ran_python and ends_with_traceback(content)):
            return Status("error", last[:600], code="traceback", message=last[:600])
    if shows:
        failed = len(lines) == 1 and _about(parts, last)
    else:
        words = [line for number, line in enumerate(lines) if not number or not _ADVICE.match(line)]
        last = words[-1]
        failed = _complains(parts, last) or (all(map(_FAILED.match, words)) and last not in command)
        failed = failed or (lines[0].lower().startswith("usage:") and _FAILED.match(lines[-1]) is not None)
    return Status("error", last[:600], code="nonzero_exit", message=last[:600]) if failed else None


def _complains(parts: tuple[Simple, ...], line: str) -> bool:
    """Whether the line is a complaint of a program of this call, under its own name."""
    start = _SHELL.match(line)
    said = line[start.end() :] if start else line
    for part in parts:
        name = part.program
        if name and re.match(rf"{re.escape(name)}(?:\[\d+\])?(?: \(\w+\))?: ", said):
            rest = said[len(name) :]
            return _COMPLAINT.search(rest) is not None and not rest.lstrip(": ").lower().startswith("warning")
    return False


def _about(parts: tuple[Simple, ...], line: str) -> bool:
    """Whether a program that shows text complains about something that it was given."""
    return any(
        _complains((part,), line) and any(len(word) > 1 and word.strip("'\"") in line for word in part.words[1:])
        for part in parts
    )
