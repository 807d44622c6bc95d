"""Exit codes as harnesses report them around a command's output: on a line of their own before or after it.

A place counts for a tool only when at least half of the tool's results use it, because a file may hold such a line too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_REPORT = re.compile(
    r"(?!\W*(?:code|rc|error code)\b)[^\w\n<]{0,6}(?:[a-z][\w' ]{0,60}?[\s:(]+)?"
    r"(?:exit(?:ed)?[ _-]?(?:code|status|value)?|return[ _-]?(?:code|value)|returned|(?:error|status)[ _-]code|code)\b"
    r"\W{0,4}(?:(?:of|was|is|with|non-?zero|exit|code|status)\b\W{0,3})*(?P<code>-?\d{1,9})\b(?![.:/]\d)[^\n]{0,100}",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"\s*<(?P<tag>return_?code|exit[_-]?(?:code|status)|rc|exit)>\s*(?P<code>-?\d{1,9})\s*</(?P=tag)>\s*", re.IGNORECASE
)
_HEADER = re.compile(r"(?!error|warn|fatal|fail|traceback)[a-z][\w /()-]{0,30}: ?\S.{0,200}|<\w+>[^<]*</\w+>\s*", re.I)
_FOOTER = re.compile(r"\s*(?:\[.*\]|\(.*\)|</\w+>|<\w+>[^<]*</\w+>|[A-Z][\w ]{0,25}:.{0,80}|```|-{3,})\s*")
_STREAM = re.compile(
    r"\W{0,3}(?:(?:command )?output|stdout|stderr|result)s?\W{0,3}\s*|<(?:output|stdout|stderr)>", re.I
)
_STREAM_LABEL = re.compile(r"\A\s*\[?(?:(?:code|command) )?(?:stderr|stdout|output)\]?:\s*(?=\S)", re.IGNORECASE)
_OUTPUT_TAG = re.compile(
    r"\s*(?:<(?P<tag>output|stdout)>|```\w*)\n?(?P<output>.*?)\n?(?(tag)</(?P=tag)>|```)\s*", re.DOTALL
)
_HEAD_LINES, _TAIL_LINES = 9, 7


@dataclass(frozen=True)
class ExitReport:
    """A reported exit code, the output without the report, and the lines of the report."""

    code: int
    output: str
    lines: str


Reader = Callable[[str], ExitReport | None]


def code_in_line(line: str) -> int | None:
    """Return the exit code that a whole line reports; ``None`` for any other line."""
    if len(line) > 300:
        return None
    match = _TAG.fullmatch(line) or _REPORT.fullmatch(line)
    return int(match["code"]) if match is not None and abs(int(match["code"])) <= 255 else None


def report_before(content: str) -> ExitReport | None:
    """Return the report before the output, alone or among lines of ``Key: value``."""
    lines = content.lstrip("\n").split("\n")
    for number, line in enumerate(lines[: _HEAD_LINES + 1]):
        code = code_in_line(line)
        if code is not None:
            return ExitReport(code, _output("\n".join(lines[number + 1 :])), "\n".join(lines[: number + 1]))
        if _STREAM.fullmatch(line) or (line.strip() and not _HEADER.fullmatch(line)):
            return None
    return None


def report_after(content: str) -> ExitReport | None:
    """Return the report after the output, alone or among bracketed lines, closing tags or lines of ``Key: value``."""
    lines = content.rstrip().split("\n")
    for back in range(1, min(_TAIL_LINES, len(lines)) + 1):
        code = code_in_line(lines[-back])
        if code is not None:
            start = len(lines) - back
            while start > 0 and re.fullmatch(r"\s*\[.*\]\s*", lines[start - 1]):
                start -= 1
            return ExitReport(code, _output("\n".join(lines[:start])), "\n".join(lines[start:]))
        if lines[-back].strip() and not _FOOTER.fullmatch(lines[-back]):
            return None
    return None


def used_readers(contents: Sequence[str]) -> list[Reader]:
    """Return the readers that find a report in at least half of a tool's results, the most successful one first."""
    readers: tuple[Reader, ...] = (report_before, report_after)
    counts = [(sum(reader(content) is not None for content in contents), reader) for reader in readers]
    counts.sort(key=lambda pair: -pair[0])
    return [reader for count, reader in counts if count and count * 2 >= len(contents)]


def _output(text: str) -> str:
    """Return the output without ``Output:`` before it, and without the tag or fence around it."""
    text = _STREAM_LABEL.sub("", text, count=1)
    tagged = _OUTPUT_TAG.fullmatch(text)
    return _STREAM_LABEL.sub("", tagged["output"], count=1) if tagged else text
