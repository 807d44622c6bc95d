"""What a shell command does, as far as its text says: whether it only looks, runs tests, shows files or waits.

Nothing is executed. Quotes and here-documents are understood; what an unknown program does is not guessed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import dropwhile
from typing import Any

_COMMANDS = dict.fromkeys(("command", "cmd", "script", "bash", "shell")).keys()
LOOKS = frozenset(
    "ls cat head tail less more bat nl tac wc grep egrep fgrep rg ag find fd tree stat file pwd cd echo printf which "
    "whereis type command true false test [ [[ diff cmp sort uniq cut tr awk sed jq date env printenv id whoami uname "
    "du df ps history sleep set export seq basename dirname realpath readlink column xxd od strings git for while "
    "until if fi done elif } case esac".split()
)
_PREFIXES = frozenset("time nice nohup sudo exec builtin stdbuf ionice then do else ! {".split())
_GIT_LOOKS = frozenset("status diff log show blame grep ls-files ls-tree branch rev-parse describe".split())
_RUNNERS = {"uv": "run", "poetry": "run", "pipenv": "run", "hatch": "run", "pdm": "run", "npx": "", "bundle": "exec"}
_TEST_PROGRAMS = frozenset("pytest py.test unittest nose nose2 tox nox ctest doctest trial stestr jest vitest".split())
_TEST_TARGETS = frozenset("make npm yarn pnpm go cargo mvn gradle bazel dotnet mix rake just task hatch".split())
_TEST_FILE = re.compile(r"(^|[/_.-])(run_?)?tests?([/_.-]|$)", re.IGNORECASE)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?(?:^\s*\2[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_SEPARATOR = re.compile(r"[;&|()<>\n]+")
_LINES = re.compile(r"(\d+)(?:,(\d+|\$))?p")


@dataclass(frozen=True)
class SimpleCommand:
    """One command of a command line, without the operators around it."""

    words: tuple[str, ...]
    """The program and its arguments."""
    redirects: bool = False
    """Whether its output goes to a file."""
    after: str = ""
    """The operator before it: ``|`` when it reads another command's output."""

    @property
    def program(self) -> str:
        """Return the program's name without its folder."""
        return self.words[0].rpartition("/")[2]


def command_of(arguments: Mapping[str, Any]) -> str:
    """Return the command line among a call's arguments, whatever the tool calls it; '' when there is none."""
    if _COMMANDS.isdisjoint(arguments) or "path" in arguments:  # an editor's ``command`` is not a command line
        return ""
    for name in _COMMANDS:
        value = arguments.get(name)
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return shlex.join(value)
        if isinstance(value, str):
            return value
    return ""


@lru_cache(maxsize=2048)
def parse(command: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands of a command line, in order; here-documents are left out."""
    text = _HEREDOC.sub(lambda match: f" {match[3]}\n", _COMMENT.sub("", command)).replace("\\\n", " ")
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    commands: list[SimpleCommand] = []
    words: list[str] = []
    redirects, after, skip = False, "", False
    try:
        tokens = list(lexer)
    except ValueError:  # a quote is not closed: split at spaces
        tokens = text.split()
    for token in [*tokens, ";"]:
        if not _SEPARATOR.fullmatch(token):
            if not skip:
                words.append(token)
            skip = False
        elif "<" in token or ">" in token:
            skip = not token.endswith(("(", ")"))
            if words and words[-1].isdigit():
                words.pop()
            redirects = redirects or (">" in token and not token.endswith("&"))
        else:
            plain = _without_prefix(words)
            if len(plain) == 3 and plain[0] in ("bash", "sh") and re.fullmatch(r"-\w*c", plain[1]):
                commands.extend(parse(plain[2]))
            elif plain:
                commands.append(SimpleCommand(tuple(plain), redirects, after))
            words, redirects, after, skip = [], False, token, False
    return tuple(commands)


def _without_prefix(words: list[str]) -> list[str]:
    """Return the words from the program on, without assignments, ``timeout 9``, ``uv run`` and ``python -m``."""
    words = list(words)
    while words:
        first = words[0].rpartition("/")[2]
        if first in _PREFIXES or re.fullmatch(r"\w+=.*", words[0], re.DOTALL):
            words = words[1:]
        elif first == "timeout":
            words = list(dropwhile(re.compile(r"-.*|[\d.]+[smhd]?$").match, words[1:]))
        elif first in _RUNNERS and len(words) > 1 and (not _RUNNERS[first] or words[1] == _RUNNERS[first]):
            words = words[2 if _RUNNERS[first] else 1 :]
        elif re.fullmatch(r"(python|py)[\d.]*", first) and len(words) > 2 and words[1] == "-m":
            words = words[2:]
        else:
            break
    return words


@lru_cache(maxsize=2048)
def looks_only(command: str) -> bool:
    """Return whether no part of the command can have changed a file."""
    return all(looks(part) for part in parse(command))


def looks(part: SimpleCommand) -> bool:
    """Return whether a simple command cannot have changed a file."""
    words = part.words
    if part.redirects or part.program not in LOOKS:
        return False
    if part.program == "git":
        return len(words) > 1 and words[1] in _GIT_LOOKS
    if part.program == "sed":
        return not any(word.startswith(("-i", "--in-place")) for word in words)
    if part.program == "find":
        return not {"-exec", "-delete", "-execdir", "-ok", "-fprint"} & set(words)
    return True


@lru_cache(maxsize=2048)
def testing_commands(command: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands that run tests."""
    return tuple(part for part in parse(command) if runs_tests(part))


def runs_tests(part: SimpleCommand) -> bool:
    """Return whether a simple command runs tests."""
    program, arguments = part.program, part.words[1:]
    if program in _TEST_PROGRAMS:
        return True
    if program in _TEST_TARGETS:
        return any(re.search(r"\b(test|tests|check)\b", word) for word in arguments[:3])
    if re.fullmatch(r"(python|py)[\d.]*|bash|sh|node|ruby", program):
        return any(_TEST_FILE.search(word.rpartition("/")[2]) or "pytest.main" in word for word in arguments)
    if program not in LOOKS and "install" not in arguments and not _TEST_PROGRAMS.isdisjoint(arguments):
        return True  # in a container, an environment, under coverage
    return bool(part.words[0].startswith(("./", "scripts/", "bin/")) and _TEST_FILE.search(program))


@dataclass(frozen=True)
class ShownFile:
    """A file that a command shows, and the lines of it."""

    path: str
    first: float
    last: float
    """The last line; infinity for the whole file."""
    is_fresh: bool = False
    """Whether an earlier part of the same command may have written files."""


def shown_files(command: str) -> Iterator[ShownFile]:
    """Yield the files that the command shows; text that goes into a pipe is not shown."""
    parts, is_fresh = parse(command), False
    for number, part in enumerate(parts):
        following = parts[number + 1].after if number + 1 < len(parts) else ""
        is_piped = following.startswith("|") and following != "||"
        if not (is_piped or part.redirects or part.after == "|"):
            yield from (ShownFile(*lines, is_fresh) for lines in _shown_lines(part))
        is_fresh = is_fresh or not looks(part)


def _shown_lines(part: SimpleCommand) -> Iterator[tuple[str, float, float]]:
    paths = [word for word in part.words[1:] if not word.startswith("-")]
    if part.program in ("cat", "nl", "bat", "less", "more"):
        yield from ((path, 1, float("inf")) for path in paths)
    elif part.program == "sed" and "-n" in part.words and len(paths) == 2:
        lines = _LINES.fullmatch(paths[0])
        if lines:
            last = float(lines[1]) if lines[2] is None else float("inf") if lines[2] == "$" else float(lines[2])
            yield paths[1], float(lines[1]), last
    elif part.program == "head":
        match = re.fullmatch(r"(?:-n ?|--lines=|-)?(\d+)? ?([^-\s]\S*)", " ".join(part.words[1:]))
        if match:
            yield match[2], 1, float(match[1] or 10)


@lru_cache(maxsize=2048)
def seconds_slept(command: str) -> tuple[float, bool]:
    """Return the seconds that the command waits in ``sleep``, without repetitions, and whether it waits in a loop."""
    total, parts = 0.0, parse(command)
    for part in parts:
        if part.program == "sleep":
            units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
            for word in part.words[1:]:
                if match := re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", word):
                    total += float(match[1]) * units[match[2] or "s"]
        elif re.fullmatch(r"(python|py)[\d.]*", part.program) and "-c" in part.words:
            code = " ".join(part.words)
            total += sum(float(number) for number in re.findall(r"\bsleep\((\d+(?:\.\d+)?)\)", code))
    loops = any(part.words[0] in ("while", "until", "for") or part.program == "watch" for part in parts)
    return total, loops and (total > 0 or any(part.program == "watch" for part in parts))
