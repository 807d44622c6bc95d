"""Prose check of ``make lint``: vague names, docstrings without a verb, and private turns of phrase in product code.

    python tests/helpers/prose_check.py [FOLDER]

Each finding is printed as ``file:line: what is wrong; what to write instead``. The exit code is 1 when there is one. A
line that ends with ``# prose: ok`` is left out: quote, do not imitate.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

NOT_PRODUCT = frozenset("tests benchmarks research .venv build dist .git node_modules packages".split())
ALLOWED = "# prose: ok"

VAGUE_NAMES = {
    "found": "what was found: candidates, matches, paths",
    "told": "status_text, reported",
    "said": "text, message, output",
    "kept": "retained, archived",
    "left": "remaining, skipped",
    "seen": "visited, observed",
    "given": "arguments, settings",
    "mine": "student, own_result",
    "theirs": "teacher, other_result",
    "each": "the thing itself: task, row",
    "made": "built, created",
    "asked": "requested, questions",
    "wanted": "required, expected",
    "taken": "used, chosen",
    "known": "registered, expected",
    "rest": "remaining, suffix",
    "own": "own_files, package_files",
    "how": "method, mode",
    "who": "agent, owner",
    "whose": "owner",
    "lost": "dropped, missing",
}
FRAGMENT = re.compile(
    r"(What|How|Where|Who|Which|Why|Whose|Whether|When|Of|As|By|For|None|Those|That|This|The|A|An|It|Its|In|From|At|On|With|"
    r"Over|All|Around|Beside|And|Or|Not|Never|No|Whatever|Whoever|Until|Since|If|To be|One|Every|Each)\b"
)
PHRASES = {
    r"tell|tells|telling|told": "say, says or report",
    r"mend|mends|mended|mending": "fix",
    r"anew": "again",
    r"beforehand": "in advance",
    r"reckon\w*": "calculate, expect",
    r"nobody|anybody|somebody": "no one, any user, or name the party",
    r"whoever|whosoever": "the caller, the user, or name the party",
    r"goes on|go on|went on|going on": "continue or resume",
    r"lend|lends|lent|lending": "lease or check out",
    r"at hand": "available",
    r"whole or not": "atomically",
    r"a person": "a user",
    r"(?<!there )(?<!There )(?:is|are) no (?!longer|such)[a-z]+|are none": "is not a ..., must be a ...",
    r"what holds|what stands|stands twice": "name the thing",
}
PATTERNS = [(re.compile(rf"\b(?:{phrase})\b"), instead) for phrase, instead in PHRASES.items()]


def product_files(folder: Path) -> list[Path]:
    """Return the Python files that the check reads, sorted."""
    return sorted(path for path in folder.rglob("*.py") if not set(path.relative_to(folder).parts[:-1]) & NOT_PRODUCT)


def vague_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and message for each assigned name or parameter that says nothing about its value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        else:
            continue
        if name.lstrip("_") in VAGUE_NAMES:
            yield node.lineno, f"vague name {name!r}; name the thing ({VAGUE_NAMES[name.lstrip('_')]})"


def fragments(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and message for each function docstring that does not start with a verb."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if FRAGMENT.match(text):
                opening = " ".join(text.split()[:3])
                yield node.body[0].lineno, f"docstring of {node.name} opens with {opening!r}; start with a verb"


def phrases(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield line and message for each private turn of phrase."""
    for number, line in enumerate(lines, start=1):
        for pattern, instead in PATTERNS:
            for match in pattern.finditer(line):
                yield number, f"{match.group(0)!r}; write {instead}"


def check(path: Path, place: str) -> list[str]:
    """Return the findings of one file as ``place:line: message``, in line order."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    tree = ast.parse(text)
    findings = sorted([*vague_names(tree), *fragments(tree), *phrases(lines)])
    return [f"{place}:{number}: {message}" for number, message in findings if ALLOWED not in lines[number - 1]]


def main() -> int:
    """Print every finding below a folder (default: the current one) and return 1 when there is one."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    files = product_files(folder)
    findings = [line for path in files for line in check(path, str(path.relative_to(folder)))]
    print("\n".join([*findings, f"prose: {len(findings)} findings in {len(files)} files"]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
