"""Blocks of the documentation: where they are, how they are marked, and the commands in them.

A comment on the line above a block of commands or of Python says what becomes of the block:

- ``<!-- run -->``: it is run in the tests, in order, in a folder that the page's earlier blocks have filled.
- ``<!-- run: slow -->``: the same, in the slow tests alone.
- ``<!-- run by tests/PATH.py -->``: another test runs it.
- ``<!-- not run: REASON -->``: it is only checked; ``REASONS`` lists the reasons.

``<!-- all blocks: ... -->`` with one of these says it for each block of a page that has no comment of its own.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.paths import ROOT

REASONS = {
    "a fragment": "it goes on with names that the reader has",
    "needs a cluster": "machines, or a service that rents them",
    "needs a GPU": "one or several",
    "needs a model endpoint": "an OpenAI-compatible server, with a real model",
    "needs a running server": "the page's commands start it in another terminal",
    "needs another framework": "that framework's own installation, and often GPUs",
    "needs files of the reader": "logs, recipes, runs or task sets that nobody else has",
    "needs the Hub": "Hugging Face's, with an account",
    "needs the package index": "downloads, and minutes",
    "serves until it is stopped": "a server in the foreground",
    "takes minutes": "on two busy cores",
}
"""Why a block is not run, and what that means."""
MARKED = ("bash", "python")
"""Languages whose blocks need a comment."""
FENCE = re.compile(
    r"(?:^<!-- (?P<marker>[^\n]+?) -->\n)?^(?P<fence>`{3,}|~{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
WHOLE_PAGE = re.compile(r"^<!-- all blocks: ([^\n]+?) -->$", re.MULTILINE)
SHORT_PAGES = {"README.md": "not run: takes minutes"}
"""What is said here for all blocks of a page, because the words of the page are limited."""
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


@dataclass(frozen=True)
class Block:
    """One fenced block; ``marker`` is the text of its comment, ``line`` that of its fence."""

    page: str
    line: int
    language: str
    marker: str | None
    code: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return the pages whose blocks are checked."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("README.md"))]


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in order; a block inside another is text."""
    text = page.read_text("utf-8")
    whole = WHOLE_PAGE.search(text)
    default = whole[1] if whole else SHORT_PAGES.get(str(page.relative_to(ROOT)))
    return [
        Block(
            page=str(page.relative_to(ROOT)),
            line=text.count("\n", 0, match.start("fence")) + 1,
            language=match["language"].strip(),
            marker=match["marker"] or default,
            code=match["code"],
        )
        for match in FENCE.finditer(text)
    ]


def all_blocks() -> list[Block]:
    """Return the blocks of all pages."""
    return [block for page in pages() for block in blocks_of(page)]


def run_page(page: str, markers: Sequence[str], folder: Path) -> None:
    """Run the blocks of a page that have one of the markers, in order, in one empty folder; each must succeed."""
    command = folder / "bin" / "etude"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m etude.cli "$@"\n')
    command.chmod(0o755)
    work = folder / "work"
    work.mkdir()
    variables = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    for block in blocks_of(ROOT / page):
        if block.marker in markers:
            typed = ["bash", "-euo", "pipefail", "-c", block.code]
            done = subprocess.run(typed, cwd=work, env=variables, capture_output=True, text=True, timeout=900)
            assert done.returncode == 0, f"{block.name}\n{block.code}\n{done.stdout}{done.stderr}"


def problem_of(block: Block) -> str | None:
    """Return what is wrong with the comment of a block, or None."""
    if not block.language:
        return "name the block's language; output is `text`"
    if block.language not in MARKED:
        return None
    if block.marker is None:
        return "say whether it is run: `<!-- run -->`, `<!-- run by tests/... -->` or `<!-- not run: REASON -->`"
    if block.marker in ("run", "run: slow"):
        return None if block.language == "bash" else "only commands can be marked `run`"
    if block.marker.startswith("run by "):
        test = ROOT / block.marker.removeprefix("run by ")
        return None if test.is_file() else f"there is no test {block.marker.removeprefix('run by ')}"
    reason = block.marker.removeprefix("not run: ")
    if reason == block.marker or reason not in REASONS:
        return f"{block.marker!r} is no reason; the reasons are: {', '.join(REASONS)}"
    return None


def commands(code: str) -> Iterator[list[str]]:
    """Yield the words of each command of a shell script, without comments, variables before it, and redirections."""
    lines = iter(code.replace("\\\n", " ").split("\n"))
    for line in lines:
        heredoc = HEREDOC.search(line)
        words = _words(line[: heredoc.start()] if heredoc else line)
        while words is None:  # a quotation goes on in the next line
            line += "\n" + next(lines)
            words = _words(line)
        yield from _commands_of(words)
        while heredoc and next(lines, heredoc[2]).strip() != heredoc[2]:
            pass


def _words(line: str) -> list[str] | None:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return None


def _commands_of(words: Sequence[str]) -> Iterator[list[str]]:
    command: list[str] = []
    skip = False
    for word in [*words, ";"]:
        if word and set(word) <= set("|&;()"):
            if command:
                yield command
            command, skip = [], False
        elif word and set(word) <= set("<>&"):
            skip = True
        elif skip:
            skip = False
        elif command or not re.fullmatch(r"\w+=.*", word, re.DOTALL):
            command.append(word)


def arguments_of_etude(command: Sequence[str]) -> list[str] | None:
    """Return the arguments of a command that starts the command line of Etude, or None for another command."""
    words = list(command)
    while words and words[0] in ("exec", "nohup", "env"):
        del words[0]
    if words and words[0].rpartition("/")[2] == "etude":
        return words[1:]
    for place, pair in enumerate(zip(words, words[1:], strict=False)):
        if pair == ("-m", "etude.cli"):
            return words[place + 2 :]
    return None
