"""Failures that a result of words alone shows, where no flag, exit code or object reports an outcome.

Only words that are unlikely to be quoted text count: an error sentence that is all of a short answer, a shell's or a
program's complaint about its own command, a traceback at the end of what an interpreter ran, and the harness's note
that time was up or that the output was cut. What a tool shows of files, pages and records is not searched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..transcript.shell_commands import SimpleCommand, command_of, parse, runs_tests
from ..transcript.status_line import Status
from ..transcript.tool_roles import Role
from ..transcript.tracebacks import ends_with_traceback, is_traceback
from .error_patterns import classify
from .exit_codes import report_after

_I = re.IGNORECASE
_MARKS = r"[^\w{\"']{0,6}"
_LABELLED = re.compile(
    rf"{_MARKS}(?:\w+[ _]){{0,2}}(?:error|exception|failed|failure)\b[^\n:.{{\"]{{0,60}}:(?:\s|\Z)"
    rf"|{_MARKS}(?:an )?error (?:executing|running|calling|while|in|occurred)\b|[\w.]*[a-z](?:Error|Exception)[:(]"
    r"|\[Errno \d+\] [A-Z]",
    _I,
)
_HTTP_FAILURE = re.compile(r"\s*(?:internal server error|bad gateway|service unavailable|gateway time-?out)\.?\s*", _I)
_SENTENCE = re.compile(
    rf"{_MARKS}(?:(?:failed to|could(?: not|n't)|cannot|can't|unable to|unknown|unsupported|no such|invalid|missing"
    r"|(?:got )?unexpected|refusing|(?:we are |i'm )?sorry|permission denied|access (?:is )?denied)\b[^\n]*"
    r"|(?:(?![.:] )[^\n\"\[]){0,80}\b(?:not found|cannot be|n(?:o|')t exist|is not (?:defined|enabled|available|a valid"
    r"|one of)|is required|already exists|rate limit|unavailable|not unique|(?:did|does|do) not (?:match|appear))\b"
    r"[^\n]{0,200})",
    _I,
)
_TIMED_OUT = re.compile(
    r"\W{0,6}(?:error\W{1,3}|\[[\w ]{0,20}: )?(?:[\w.' -]{0,60}? )?"
    r"(?:timed[ -]?out|time-?out|(?:exceed\w* |over )(?:the )?(?:time|\d+ ?s)\w*)\b[^\n]{0,120}",
    _I,
)
_NOT_FOUND = re.compile(r"(?:.*: )?([\w./+-]+): (?:command )?not found\.?|.*command not found: ([\w./+-]+)")
_PROGRAM_FAILED = re.compile(
    r"(?:fatal|error|ERROR)(?:\[\w+\])?: \S|g?make(?:\[\d+\])?: \*\*\*|npm (?:ERR!|error)|Segmentation fault|Aborted"
    r"|panic: |Exception in thread |compilation terminated|collect2: error|Execution halted"
)
_ADVICE = re.compile(r"\s|hint:|See |Try |Run |Use |usage|make: Leaving|npm (?:ERR!|error) A complete|exit status \d")
_HARMLESS = re.compile(r"up to date|nothing to be done|warning", _I)
_SHELL_STATE = re.compile(r"\[[\w ]+: [^\]\n]*\]|\S{0,60}[$#]|(?:Current terminal state|New Terminal Output):")
_CUT = re.compile(
    r"\W*(?:[\w ,.]{0,60}\b)?(?:truncated|clipped|omitted|elided|cut off|was cut)\b[^\n]{0,120}"
    r"|\W*<(?:elided|truncated|omitted)_\w+>.*",
    _I,
)
_SHOWING = frozenset(("git log", "git diff", "git show", "git blame", "git grep")) | frozenset(
    "cat head tail less more grep egrep fgrep rg ag sed awk jq echo printf cut tr sort uniq strings curl wget gh "
    "docker kubectl journalctl tee env history type find xargs".split()
)
_READS = re.compile(r"\bopen\(|\.read\(|read_text|readlines|\bcat\b|\.stdout|\.text\b")
_SHORT, _FEW = 300, 4


def failure(name: str, kind: Role, arguments: Mapping[str, Any], content: str) -> Status | None:
    """Return the failure that a result's words show; ``None`` when they show none.

    ``kind`` is the tool's role; see ``tool_roles.role``.
    """
    lines = [line for line in content.strip().splitlines() if line.strip()]
    if not lines:
        return None
    shows = kind == "reader" or shows_text(arguments)
    if len(lines) <= 2 and not shows and _TIMED_OUT.fullmatch(lines[-1]):
        return _status("timeout", lines[-1])
    if kind == "shell":
        return _shell_failure(parse(command_of(arguments)), shows, content, lines)
    if kind == "code":
        return _code_failure(arguments, content, lines[-1])
    return None if kind == "tests" else _tool_failure(name, kind, arguments, lines)


def was_cut(body: str) -> bool:
    """Return whether the harness says, on a separate line, that it cut the result."""
    lines = [line for line in body.strip().splitlines() if line.strip()]
    if len(lines) < 2:
        return False
    middle = lines[1:-1] if len(body) > 2000 else []
    return any(len(line) < _SHORT and _CUT.fullmatch(line) for line in (lines[-1], lines[0], *middle))


def _tool_failure(name: str, kind: Role, arguments: Mapping[str, Any], lines: Sequence[str]) -> Status | None:
    """Return the failure of a tool that acts, edits or reads, when a short answer is an error sentence."""
    if len(lines) == 1 and _HTTP_FAILURE.fullmatch(lines[0]):
        return _status("transport_error", lines[0])
    if len(lines) > _FEW or len(lines[0]) > _SHORT or not (_LABELLED.match(lines[0]) or _SENTENCE.fullmatch(lines[0])):
        return None
    code = classify(" ".join(lines), name, arguments)
    is_about_call = kind != "reader" or (len(lines) == 1 and _is_about_call(code, lines[0], name, arguments))
    return _status(code, lines[0]) if is_about_call else None


def _is_about_call(code: str, line: str, name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a reader's error sentence is about this call, and not text that the tool shows."""
    if code in ("nonzero_exit", "tool_not_found"):
        return code == "tool_not_found" and name in line
    if any(isinstance(value, str) and len(value) > 2 and value in line for value in arguments.values()):
        return line.startswith("[Errno ") or not line.startswith(tuple("#/-*["))
    return _LABELLED.match(line) is not None and code in ("invalid_args", "transport_error", "budget", "timeout")


def _code_failure(arguments: Mapping[str, Any], content: str, last: str) -> Status | None:
    source = "\n".join(value for value in arguments.values() if isinstance(value, str))
    failed = (ends_with_traceback(content) or is_traceback(content)) and not _READS.search(source)
    return _status("traceback", last) if failed else None


def _shell_failure(parts: Sequence[SimpleCommand], shows: bool, content: str, lines: Sequence[str]) -> Status | None:
    """Return the failure of a command, from its shell's or its program's last words.

    ``shows`` says that the command prints text that was there before it; then the last words must name its own words.
    """
    lines = [line for line in lines if not _SHELL_STATE.fullmatch(line)]
    last = next((line for line in reversed(lines) if not _ADVICE.match(line)), "").strip()[:600]
    missing = _NOT_FOUND.fullmatch(last)
    if missing is not None and any(part.words[0] in missing.groups() for part in parts):
        return _status("command_not_found", last)
    if not parts or not last:
        return None
    speakers = [part for part in parts if not shows or any(word in last for word in part.words[1:])]
    if any(last.startswith(f"{part.program}: ") for part in speakers) and not _HARMLESS.search(last):
        return _status("nonzero_exit", last)
    if shows:
        return None
    if ends_with_traceback(content):
        return _status("traceback", last)
    report = report_after("\n".join(lines))
    reported = report is not None and report.code != 0 and re.search("code|status|with", report.lines, _I) is not None
    if reported or (_PROGRAM_FAILED.match(last) and not any(map(runs_tests, parts))):
        return _status("nonzero_exit", last)
    return None


def shows_text(arguments: Mapping[str, Any]) -> bool:
    """Return whether the call runs a command that prints text which was there before it."""
    parts = parse(command_of(arguments))
    return any(part.program in _SHOWING or " ".join((part.program, *part.words[1:2])) in _SHOWING for part in parts)


def _status(code: str, line: str) -> Status:
    return Status("timeout" if code == "timeout" else "error", line[:600], code=code, message=line[:600])
