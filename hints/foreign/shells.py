"""What a shell's text alone tells of an outcome, when no exit code is reported.

Only what cannot be somebody else's text counts: the shell's own words about a command of this call, a program's own
last words under its own name, those of a tool chain that was run, a traceback that ends the output of a program.
What ``cat``, ``grep`` and the like print is never read, except their own complaint about a path that they were given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..detect.behaviour.shell import Simple, command_of, looks, parse, parts_that_test
from ..transcript.status_line import Status
from ..transcript.tracebacks import ends_with_traceback, is_traceback
from . import exit_codes as exits
from . import limits, toolchains
from .error_kind_patterns import classify
from .error_sentences import TOOLS_OWN, strength
from .labels import unlabelled
from .programs import ASKS, FILES, OF_CMD, SILENT, quotes
from .reports import stopped
from .terminal import INLINE, SECTION, output_lines
from .unknown_format import in_english
from .wrappers import bare

_SHELL = re.compile(
    r"(?:-?(?:/(?:usr/)?bin/)?(?:ba|z|da|k|a|fi|c)?sh(?:: line \d+|:\d+|: \d+)?|sudo|nohup|(?:/usr/bin/)?env|exec"
    r"|xargs|time): "
)
_NOT_FOUND = re.compile(
    r"(?:command not found: (?P<zsh>\S+)|Unknown command: (?P<fish>\S+)|['‘`\"]?(?P<name>[^\s'’‘`\"]+)['’`\"]?: "
    r"(?:command not found|not found|No such file or directory|executable file not found in \S+))[.]?$"
)
_NOT_FOUND_BARE = re.compile(
    r"(?:(?P<a>\S+) ?: The term '\S+' is not recognized as|'(?P<b>[^']+)' is not recognized as an internal or external"
    r"|Command '(?P<c>\S+)' (?:not found|is not installed)|(?:exec: )?\"(?P<d>[^\"]+)\": executable file not found"
    r"|command not found: (?P<e>\S+)$|(?P<f>\S+): command not found$|No such command: (?P<g>\S+)$)"
)
_COMPLAINT = re.compile(
    r"\b(?:errors?|cannot|can't|no such|not found|invalid|unrecogni[sz]ed|unknown|missing|failed|fatal|denied"
    r"|refused|unable|no rule|not recoverable|illegal|could not|couldn't|not a|does not exist|doesn't exist"
    r"|not permitted|no match(?:es)?"
    r"|unterminated|unmatched|undefined|extra|parse|unclosed|wrong|incorrect|insufficient|not allowed|not known"
    r"|rejected|aborted|exited"
    r"|unsupported|unexpected|unbound|too many|ambiguous|bad|exists|is a directory|not installed|no space"
    r"|unreachable|expected"
    r"|required?|requires|syntax|failure|timed out|not exist|conflict\w*|already|must|not empty|did not"
    r"|no \w+ specified)\b"
    r"|\*\*\*|\(\d+\)",
    re.IGNORECASE,
)
_NAMELESS = re.compile(
    r"The system cannot find the (?:file|path|drive|batch label)\b.{0,30}|Access is denied\.|File Not Found"
    r"|The syntax of the command is incorrect\.|Could Not Find .{1,200}|The filename, .{0,80} syntax is incorrect\.",
    re.I,
)
"""What the commands of Windows' cmd say without their name before it."""
_RUNS_PYTHON = re.compile(r"\bpython|\bpytest|\.py\b|\bpip\b|\bmanage\b|^\s*\./|\bflask\b|\bdjango")
_REFUSED = re.compile(
    r"\W{0,6}(?:error\W+)?(?:(?:permission to use|the user|user|this command|command|tool use|execution"
    r"|request)\b[^\n]{0,60}?\b"
    r"(?:(?:was |is |has been |been )?(?:denied|rejected|blocked|declined|disallowed|forbidden|refused)"
    r"|not (?:allowed|permitted)"
    r"|doesn't want to|requires approval))\b",
    re.IGNORECASE,
)


def verdict(arguments: Mapping[str, Any], content: str, name: str = "") -> Status | None:
    """The outcome of a shell call from its text; ``None``: nothing says that it failed."""
    said = unlabelled(content)
    logged = "\nTraceback (most" in said and not said.startswith("Traceback (most")
    told = _verdict(arguments, said, name) if said is not content and not logged else None
    return told or _verdict(arguments, content, name)


def _verdict(arguments: Mapping[str, Any], content: str, name: str) -> Status | None:
    command = command_in(arguments)
    lines = output_lines(bare(content), command)
    lines = [in_english(line) if number < 2 or number > len(lines) - 4 else line for number, line in enumerate(lines)]
    if not lines:
        return None
    lines[0] = lines[0].lstrip() if not lines[0].lstrip().startswith("File ") else lines[0]
    harness = _harness(arguments, command, lines, name)
    if harness is not None:
        return harness
    every = parse(command)
    parts = _speakers(every)
    looking = bool(parts) and all(looks(part) for part in parts) and not all(part.program in SILENT for part in parts)
    looking = looking or (bool(parts) and all(quotes(part) for part in parts))
    found = exits.first(content) or exits.last(content)
    if found is not None and found[0] and exits.sure(found[2]):
        rest = [line for line in found[1].strip().split("\n") if not SECTION.fullmatch(line)] or [""]
        empty = all(re.fullmatch(r"0?|\S+:0|\W*no output\W*", line.strip()) for line in rest)
        if not any(quotes(part) for part in parts) or empty or _complains(every, INLINE.sub("", rest[-1])):
            return stopped(found)
    ends = (lines[0], lines[-1], content.strip().partition("\n")[0])
    late = next((line for line in ends if limits.timed_out(line)), None)
    alone = len(lines) == 1 and late is not None and (late.lstrip()[:1] in "[(<" or not any(map(quotes, parts)))
    if late is not None and (not looking or alone) and late not in command and not ends_with_traceback(content):
        return _failed("timeout", late)
    own = _shells_own(every, lines)
    return own or _programs_own(parts, lines, _from_first(content, lines), command, looking)


def _from_first(content: str, lines: Sequence[str]) -> str:
    """The text from the first line that counts to the last, with the empty lines between them."""
    start, end = content.find(lines[0]), content.rfind(lines[-1])
    return content[start : end + len(lines[-1])] if 0 <= start <= end else "\n".join(lines)


def shows(arguments: Mapping[str, Any]) -> bool:
    """Whether a part of the command shows text that was there before it."""
    return _quotes_any(command_in(arguments))


def kind_of(text: str, arguments: Mapping[str, Any]) -> str:
    """What kind of failure it was that a shell call is known to be."""
    text = bare(unlabelled(text))
    lines = output_lines(text, "")
    found = exits.first(text) or exits.last(text)
    if any(limits.timed_out(line) for line in (*lines[:1], *lines[-1:])):
        return "timeout"
    own = _shells_own(parse(command_in(arguments)), [in_english(line) for line in lines]) if lines else None
    if own is not None or (found is not None and found[0] == 127):
        return own.code if own is not None else "command_not_found"
    if ends_with_traceback(found[1] if found is not None else text):
        return "traceback"
    return "nonzero_exit" if command_in(arguments) or found is not None else classify(text, "", dict(arguments))


def _failed(code: str, line: str) -> Status:
    return Status("timeout" if code == "timeout" else "error", line[:600], code=code, message=line[:600])


def command_in(arguments: Mapping[str, Any]) -> str:
    """The command of a shell call, whatever the argument is called that holds it."""
    return command_of(arguments) or next(
        (arguments[key] for key in ("code", "keystrokes", "input") if isinstance(arguments.get(key), str)),
        _only_text(arguments),
    )


def _only_text(arguments: Mapping[str, Any]) -> str:
    values = [value for value in arguments.values() if isinstance(value, str)]
    return values[0] if len(values) == 1 else ""


def _harness(arguments: Mapping[str, Any], command: str, lines: Sequence[str], name: str) -> Status | None:
    """What the harness said instead of running anything."""
    if _REFUSED.match(lines[0]) and len(lines) <= 3 and lines[0] not in command:
        return _failed("nonzero_exit", lines[0])
    told = strength("\n".join(lines))
    if not told or len(lines) > 6:
        return None
    code = classify("\n".join(lines), name, dict(arguments))
    if not command and told:
        return _failed(code, lines[0])
    if code == "tool_not_found" and told == TOOLS_OWN and name and name in lines[0] and not _quotes_any(command):
        return _failed(code, lines[0])
    own = code in ("invalid_args", "malformed_call") and re.search(
        r"\b(?:arguments?|param(?:eter)?s?|tool|input)\b", lines[0], re.I
    )
    return (
        _failed(code, lines[0])
        if own and told == TOOLS_OWN and not _quotes_any(command) and not _ran(command, lines)
        else None
    )


def _ran(command: str, lines: Sequence[str]) -> bool:
    """Whether a program of the command speaks in the first line."""
    return any(part.program in lines[0] for part in parse(command)) or ".py" in command


def _quotes_any(command: str) -> bool:
    return any(map(quotes, parse(command)))


def _speakers(parts: tuple[Simple, ...]) -> tuple[Simple, ...]:
    """The commands that can have said the last words: the last one, its pipeline, and what had to work before it."""
    start = len(parts)
    while start > 0:
        start -= 1
        if not parts[start].after.startswith(("|", "&&")) or parts[start].after == "||":
            break
    found = parts[start:]
    if len(found) > 1 and found[-1].after == "&&" and found[-1].program == "cd":
        return parts
    return found


def _shells_own(parts: tuple[Simple, ...], lines: Sequence[str]) -> Status | None:
    """``bash: x: command not found``, first or last, when ``x`` is a command of this call."""
    for line in {lines[0]: None, lines[-1]: None}:
        line = unlabelled(line).strip().rstrip(".!…")
        start = _SHELL.match(line)
        found = (_NOT_FOUND.fullmatch(line[start.end() :]) if start else None) or _NOT_FOUND_BARE.match(line)
        name = next((group for group in found.groups() if group), "") if found else ""
        if name and any(name in (part.words[0], part.program, *part.words[1:2]) for part in parts):
            if start and line.endswith("No such file or directory") and name not in [part.words[0] for part in parts]:
                continue
            return _failed("command_not_found", line)
    return None


def _programs_own(
    parts: tuple[Simple, ...], lines: Sequence[str], text: str, command: str, looking: bool
) -> Status | None:
    """A program's last words."""
    if looking:
        own = any(part.program in ASKS for part in parts)
        line = lines[-1] if own and not any(part.program == "git" for part in parts) else lines[0]
        single = (
            len(lines) == 1
            or lines[-1].startswith("    + FullyQualifiedErrorId")
            or (own and len(toolchains.meaningful(lines)) <= 3)
        )
        return (
            _failed("nonzero_exit", line)
            if single and (_about(parts, line) or (_SHELL.match(line) and _scripts_own(parts, line)))
            else None
        )
    ran_python = _RUNS_PYTHON.search(command) is not None
    if is_traceback(text) or (ran_python and ends_with_traceback(text)):
        return _failed("traceback", lines[-1])
    judges = any(toolchains.lints(part.program, part.words) for part in parts) or bool(parts_that_test(command))
    kept = toolchains.meaningful(lines)
    if _complains(parts, kept[-1]) or any(_scripts_own(parts, line) for line in kept[-2:]):
        return _failed("nonzero_exit", kept[-1])
    if judges:
        missing = next((line for line in lines if re.match(r"ERROR: (?:file or directory )?not found", line)), "")
        return _failed("nonzero_exit", missing) if missing else None
    said = toolchains.failed(lines, command) or toolchains.diagnosed([part.words for part in parts], kept[-1])
    usage = lines[0].lower().startswith("usage:") and re.match(r"\w*[Ee]rror\b", lines[-1])
    if not said and not usage and len(kept) <= 2 and strength(kept[-1]) and kept[-1] not in command:
        said = kept[-1] if not _quotes_any(command) and "echo" not in command and "print" not in command else ""
    return _failed("nonzero_exit", said or lines[-1]) if said or usage else None


def _complains(parts: tuple[Simple, ...], line: str) -> bool:
    """Whether the line is a complaint of a program of this call, under its own name."""
    start = _SHELL.match(line)
    said = line[start.end() :] if start else line
    for part in parts:
        for name in {part.program, part.words[0]}:
            if name and re.match(rf"{re.escape(name)} (?:was unable|could not|cannot|failed to) ", said, re.I):
                return True
            if name and re.match(rf"(?:/\S+/)?{re.escape(name)}(?:\[\d+\])?(?: \(\w+\))? ?: ", said):
                rest = said[said.index(name) + len(name) :]
                return _COMPLAINT.search(rest) is not None and not rest.lstrip(": ").lower().startswith("warning")
    return False


def _scripts_own(parts: tuple[Simple, ...], line: str) -> bool:
    """Whether a shell complains about the command line, or about a script that it ran."""
    start = _SHELL.match(line)
    if start is not None and _COMPLAINT.search(line[start.end() :]):
        rest = line[start.end() :]
        return "syntax error" in rest or any(len(word) > 1 and word in rest for part in parts for word in part.words)
    found = re.match(r"(?P<script>[\w./-]+): (?:line )?\d+: ", line)
    return (
        found is not None
        and any(
            found["script"].rpartition("/")[2] == word.rpartition("/")[2] for part in parts for word in part.words[:3]
        )
        and _COMPLAINT.search(line) is not None
    )


def _about(parts: tuple[Simple, ...], line: str) -> bool:
    """Whether a program that shows text complains about something that it was given."""
    if _NAMELESS.fullmatch(line) and any(part.program.lower() in OF_CMD for part in parts):
        return True
    return any(
        (
            _complains((part,), line)
            or (part.program in ASKS and re.match(r"fatal: |error: |Error (?:from server|response from daemon)", line))
        )
        and (
            part.program not in FILES
            or any((len(word) > 1 or f"{word}:" in line) and word.strip("'\"") in line for word in part.words[1:])
        )
        for part in parts
    )
