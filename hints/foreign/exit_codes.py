"""Exit codes as harnesses write them around a command's output: a line of its own before or after it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .wrappers import bare, inner

_I = re.IGNORECASE
_CODE = (
    r"(?:exit(?:ed)?[ _-]?(?:code|status|value)?|return[ _-]?(?:code|value)|status[ _-]code|status|error code|code|rc)"
)
_WHO = (
    r"(?:the |your |last |previous )?(?:shell |bash |python |external )?"
    r"(?:command|process|program|script|execution|task|job|tool|run|shell|bash|it)"
)
_REPORT = re.compile(
    r"[^\w\n<]{0,6}"
    rf"(?:{_WHO}\b[^\n]{{0,80}}?[\s:(]+)?(?:(?:has |was |is )?(?:failed|exited|completed|finished|terminated|ended"
    rf"|returned|done"
    r"|executed|error|failure"
    r"|success)(?: (?:un)?successfully)?(?: (?:in|after) [\d.]+ ?\w{1,12})?[\s,:(]+)?(?:with )?(?:an? )?(?:error"
    r" )?(?:non-?zero )?(?:its )?"
    rf"{_CODE}(?:\s*[:=]\s*|\s+(?:of |was |is )?)\**`?(?P<code>-?\d{{1,9}})\b`?\**"
    r"(?:\s*\([^\n]{0,80}\)|\s*,[^\n]{0,60}|\s(?:after|in) [\d.]+ ?\w+|\s*(?:-|–|\|)[^\n]{0,60})?[\])}>.!;*]*\s*",
    _I,
)
_CALLED = re.compile(
    r"\W*(?:(?:status|state|result)\W{1,3})?exit(?:ed)?(?:[_ ](?:code"
    r"|status))?\((?P<code>\d{1,3})\)\W*",
    _I,
)
_BARE = re.compile(r"\W*(?:code|status|rc|error code|return value)\b", _I)
_TAGS = r"return_?code|exit[_-]?code|exit[_-]?status|status[_-]?code"
_ELEMENT = re.compile(rf"\s*<(?P<tag>{_TAGS}|exit|rc|status)>\s*(?P<code>-?\d{{1,9}})\s*</(?P=tag)>\s*", _I)
_ATTRIBUTE = re.compile(rf"\s*<\w[\w-]*\b[^>\n]*?\b(?:{_TAGS})\s*=\s*[\"']?(?P<code>-?\d{{1,9}})[\"']?[^>\n]*>.*", _I)
_KEY = re.compile(
    r"(?!(?i:error(?!: \(none)|warn|fatal|fail|info|debug|traceback))[A-Za-z][\w /()-]{0,30}: ?\S.{0,200}"
    r"|<(\w+)>[^<\n]*</\1>\s*"
    r"|(?:The )?(?:[Cc]ommand|[Pp]rocess|[Tt]ool|[Ss]cript)\b.{0,200}\b(?:executed|execution|finished|completed"
    r"|ran)\b.{0,200}[.:]\s*",
    re.ASCII,
)
_OPENS = re.compile(
    r"\W{0,3}(?:command )?(?:output|stdout|stderr|result)s?\b\W{0,3}\s*|<(?:output|stdout|stderr)>.*", _I
)
_AFTER = re.compile(r"\s*(?:\[[^\n]*\]|\([^\n]*\)|</\w+>|<(\w+)>[^<\n]*</\1>|[A-Z][\w ]{0,25}:[^\n]{0,80}|```)\s*")
_OUTPUT = re.compile(r"\s*<(output|stdout)>\n?(.*?)\n?</\1>\s*", re.DOTALL)
_FENCED = re.compile(r"\s*(```)\w*\n(.*?)\n?```\s*", re.DOTALL)
_STREAM = re.compile(
    r"\A\s*\[?(?:(?:code|program|command|execution) )?(?:stderr|stdout|output|result|logs)\]?: ?(?=\S)", _I
)
_BLOCK = re.compile(r"(?s:\ACommand: .*\n)Exit Code: (-?\d{1,9})$", re.MULTILINE)
_HEAD, _TAIL = 9, 7
Found = tuple[int, str, str]
"""Exit code, the result without it, and the lines around it that the harness wrote too."""


def code_in(line: str) -> int | None:
    """The exit code that a whole line reports."""
    if len(line) > 300:
        return None
    found = _ELEMENT.fullmatch(line) or _REPORT.fullmatch(line) or _CALLED.fullmatch(line)
    if found is None or (_BARE.match(line) and found.re is not _CALLED):
        return None
    return int(found["code"])


def sure(line: str) -> bool:
    """Whether a report is no mere ``exit 1``, which a program may print."""
    return re.search(r"code|status|command|process|[\[(<]", line, _I) is not None


def first(content: str) -> Found | None:
    """A report before the output, alone or among lines of ``Key: value``."""
    content = inner(content) if content.lstrip()[:1] == "<" else content
    lines = content[:4000].lstrip("\n").split("\n")[: _HEAD + 1]
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    for number, line in enumerate(lines[start:], start):
        code = code_in(line)
        if code is None and number == start and (opened := _ATTRIBUTE.fullmatch(line)) is not None:
            code = int(opened["code"])
        if code is not None:
            rest = content.lstrip("\n").split("\n", number + 1)
            before = "\n".join(lines[start : number + 1])
            return code, _unwrapped(_after_head(rest[number + 1] if len(rest) > number + 1 else "")), before
        if _OPENS.fullmatch(line) or not _KEY.fullmatch(line):
            return None
    return None


def last(content: str) -> Found | None:
    """A report behind the output, alone or among bracketed lines, closing tags or lines of ``Key: value``."""
    content = inner(content) if content.lstrip()[:1] == "<" else content
    lines = content.rstrip().split("\n")
    for back in range(1, min(_TAIL, len(lines)) + 1):
        code = code_in(lines[-back])
        if code is not None:
            block = lines[len(lines) - back :]
            at = len(lines) - back
            while at > 0 and re.fullmatch(r"\s*\[[^\n]*\]\s*", lines[at - 1]):
                at -= 1
                block.insert(0, lines[at])
            body = "\n".join(lines[:at])
            return code, _unwrapped(bare(body) if body.startswith("Command: ") else body), "\n".join(block)
        if lines[-back].strip() and not _AFTER.fullmatch(lines[-back]):
            return None
    return None


def block(content: str) -> Found | None:
    """A report within a block that begins with ``Command:``."""
    found = _BLOCK.match(content)
    if found is None:
        return None
    said, _, line = found[0].rpartition("\n")
    return int(found[1]), _unwrapped(bare(said)), line


def _after_head(rest: str) -> str:
    """What follows ``Output:``, where lines of ``Key: value`` stand between it and the report."""
    lines = rest.split("\n", 5)
    for number, line in enumerate(lines[:5]):
        if _OPENS.fullmatch(line) and not line.lstrip().startswith("<"):
            return "\n".join(lines[number + 1 :])
        if line.strip() and not _KEY.fullmatch(line):
            break
    return rest


def _unwrapped(body: str) -> str:
    inner = _FENCED.fullmatch(body) or _OUTPUT.fullmatch(body)
    return _STREAM.sub("", inner[2] if inner else body, count=1)


PLACES = (first, last, block)


def used(contents: Sequence[str]) -> list[int]:
    """Which of ``PLACES`` at least half of a tool's results use, the one that most use first."""
    counts = [sum(place(each) is not None for each in contents) for place in PLACES]
    most_first = sorted(range(len(PLACES)), key=lambda number: -counts[number])
    return [number for number in most_first if counts[number] and counts[number] * 2 >= len(contents)]
