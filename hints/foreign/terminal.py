"""What a terminal's text holds beside a command's output: prompts, the command itself, the names of the streams."""

from __future__ import annotations

import re

_PROMPT = re.compile(
    r"(?:\([\w.-]+\) )?(?:[\w.-]+@[\w.-]+:?[^\n$#]{0,80}|(?:ba)?sh-[\d.]+|/[\w/.-]*|~)?[$#](?: |$)"
    r"|(?:PS )?[A-Z]:\\[^\n>]{0,120}> ?"
)
SECTION = re.compile(
    r"\W{0,3}(?:stdout|stderr|output|std_?err|std_?out)\W{0,3}\s*|</?(?:stdout|stderr|output|error|result)>\s*", re.I
)
INLINE = re.compile(
    r"(?:\[?(?:stderr|stdout|STDERR|STDOUT)\]?:? |<(?:stdout|stderr|error|output)>)(?=\S)|(?<=\S)</(?:stdout"
    r"|stderr|error|output)>$"
)
_LONG = 600


def output_lines(content: str, command: str) -> list[str]:
    """Lines with something on them, without a terminal's prompts and what only says which stream follows.

    Where the terminal shows the ``command`` behind a prompt, what follows its last showing.
    """
    lines = [line for line in content.strip("\n").split("\n") if line.strip() and not SECTION.fullmatch(line)]
    while lines and _PROMPT.match(lines[-1]) and not _PROMPT.sub("", lines[-1], count=1).strip():
        lines.pop()
    first = command.strip().partition("\n")[0]
    for number in range(len(lines) - 1, -1, -1) if first else ():
        line = lines[number].rstrip()
        if line.endswith(first) and (found := _PROMPT.match(line)) and line[found.end() :] == first:
            lines = lines[number + 1 :]
            break
    for end in (0, -1) if lines else ():
        lines[end] = INLINE.sub("", lines[end]) if len(lines[end]) < _LONG else lines[end]
    return lines
