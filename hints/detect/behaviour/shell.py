"""What a shell command does, as far as its text says: whether it only looks, runs tests, shows files, waits.

Nothing is executed. Quotes and here-documents are understood; what an opaque program does is not guessed.
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
class Simple:
    """One simple command: its words (the program first), and whether it writes its output to a file.

    ``after`` is the operator before it: ``|`` when it reads another command's output.
    """

    words: tuple[str, ...]
    redirects: bool = False
    after: str = ""

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2]


def command_of(arguments: Mapping[str, Any]) -> str:
    """The command line among a call's arguments, whatever the tool calls it; '' when there is none."""
    if _COMMANDS.isdisjoint(arguments) or "path" in arguments:  # an editor's ``command`` is no shell's
        return ""
    for name in _COMMANDS:
        value = arguments.get(name)
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return shlex.join(value)
        if isinstance(value, str):
            return value
    return ""


@lru_cache(maxsize=2048)
def parse(command: str) -> tuple[Simple, ...]:
    """The simple commands of a command line, in order; here-documents are left out."""
    text = _HEREDOC.sub(lambda match: f" {match[3]}\n", _COMMENT.sub("", command)).replace("\\\n", " ")
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[Simple] = []
    words: list[str] = []
    redirects, after, skip = False, "", False
    try:
        tokens = list(lexer)
    except ValueError:  # an open quote: as far as spaces tell
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
                found.extend(parse(plain[2]))
            elif plain:
                found.append(Simple(tuple(plain), redirects, after))
            words, redirects, after, skip = [], False, token, False
    return tuple(found)


def _without_prefix(words: list[str]) -> list[str]:
    """The words from the program on: assignments, ``timeout 9``, ``uv run`` and ``python -m`` left out."""
    rest = list(words)
    while rest:
        first = rest[0].rpartition("/")[2]
        if first in _PREFIXES or re.fullmatch(r"\w+=.*", rest[0], re.DOTALL):
            rest = rest[1:]
        elif first == "timeout":
            rest = list(dropwhile(re.compile(r"-.*|[\d.]+[smhd]?$").match, rest[1:]))
        elif first in _RUNNERS and len(rest) > 1 and (not _RUNNERS[first] or rest[1] == _RUNNERS[first]):
            rest = rest[2 if _RUNNERS[first] else 1 :]
        elif re.fullmatch(r"(python|py)[\d.]*", first) and len(rest) > 2 and rest[1] == "-m":
            rest = rest[2:]
        else:
            break
    return rest


@lru_cache(maxsize=2048)
def looks_only(command: str) -> bool:
    """Whether no part of the command can have changed a file."""
    return all(looks(part) for part in parse(command))


def looks(part: Simple) -> bool:
    """Whether a simple command cannot have changed a file."""
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
def parts_that_test(command: str) -> tuple[Simple, ...]:
    """The simple commands that run tests."""
    return tuple(part for part in parse(command) if runs_tests(part))


def runs_tests(part: Simple) -> bool:
    """Return whether a simple command runs tests."""
    program, rest = part.program, part.words[1:]
    if program in _TEST_PROGRAMS:
        return True
    if program in _TEST_TARGETS:
        return any(re.search(r"\b(test|tests|check)\b", word) for word in rest[:3])
    if re.fullmatch(r"(python|py)[\d.]*|bash|sh|node|ruby", program):
        return any(_TEST_FILE.search(word.rpartition("/")[2]) or "pytest.main" in word for word in rest)
    if program not in LOOKS and "install" not in rest and not _TEST_PROGRAMS.isdisjoint(rest):
        return True  # in a container, an environment, under coverage
    return bool(part.words[0].startswith(("./", "scripts/", "bin/")) and _TEST_FILE.search(program))


def reads(command: str) -> Iterator[tuple[str, float, float]]:
    """(path, first line, last line) of each file that the command shows; what goes into a pipe is not shown."""
    parts = parse(command)
    for number, part in enumerate(parts):
        piped = number + 1 < len(parts) and parts[number + 1].after.startswith("|") and parts[number + 1].after != "||"
        if piped or part.redirects or part.after == "|":
            continue
        paths = [word for word in part.words[1:] if not word.startswith("-")]
        if part.program in ("cat", "nl", "bat", "less", "more"):
            yield from ((path, 1, float("inf")) for path in paths)
        elif part.program == "sed" and "-n" in part.words and len(paths) == 2:
            lines = _LINES.fullmatch(paths[0])
            if lines:
                last = float(lines[1]) if lines[2] is None else float("inf") if lines[2] == "$" else float(lines[2])
                yield paths[1], float(lines[1]), last
        elif part.program == "head":
            yield from _head(part.words[1:])


def _head(words: tuple[str, ...]) -> Iterator[tuple[str, float, float]]:
    match = re.fullmatch(r"(?:-n ?|--lines=|-)?(\d+)? ?([^-\s]\S*)", " ".join(words))
    if match:
        yield match[2], 1, float(match[1] or 10)


@lru_cache(maxsize=2048)
def seconds_slept(command: str) -> tuple[float, bool]:
    """Seconds that the command waits in ``sleep`` (once through), and whether it does so in a loop."""
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
