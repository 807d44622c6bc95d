"""Command lines as monitors read them: simple commands, their here-documents, and what they write. Nothing is run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cached_property, lru_cache

from .shell_expansion import Variables, decoded, executed_by_find

_HEREDOC = re.compile(
    r"(?<!<)<<(?!<)-?[ \t]*(['\"]?)([\w.-]+)\1([^\n]*)\n(.*?)(?:^[ \t]*\2[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_OPERATOR = re.compile(r"[;&|()<>]+")
_LINES = re.compile(r"\n{3,}")
_ENDS_LINE = re.compile(r"[;&|()<>]*\n[;&|()<>\n]*")
_PYTHON = re.compile(r"(?:python|pypy|ipython)[\d.]*")
_SHELLS = ("bash", "sh", "zsh", "dash")
_PREFIXES = frozenset(
    "sudo doas env time nice ionice stdbuf exec builtin command busybox then do else if while until ! { nohup "
    "setsid".split()
)
_WRITERS = frozenset("tee rm touch truncate mkfifo ln chmod unlink cp mv install".split())
_EDITORS = ("sed", "perl")
_EDITS_IN_PLACE = re.compile(r"-[a-zA-Z]*i|--in-place")
_IS_SCRIPT = re.compile(r"/[\w.-]+\.(py|sh)$")
RECURSIVE = re.compile(r"-[a-zA-Z]*[rR][a-zA-Z]*|--(dereference-)?recursive")
"""An option of ``grep`` for whole folders."""
MAX_LENGTH = 100_000
MAX_NESTED = 8
"""Deepest shell within shells whose commands are read."""
_MARK = "\x01"
_ESCAPED = {"\\(": "\x02", "\\)": "\x03", "\\;": "\x04"}
_NO_MARKS = {ord(mark): " " for mark in (_MARK, *_ESCAPED.values())}
"""Placeholders for signs that a backslash turns into words, as in ``find``, while a line is split."""


@dataclass(frozen=True)
class Command:
    """One simple command of a command line."""

    words: tuple[str, ...]
    """The program and its arguments, prefixes such as ``sudo`` included."""
    heredoc: str = ""
    """The here-document that it reads."""
    redirected: tuple[str, ...] = ()
    """Files that its output goes to."""
    read: tuple[str, ...] = ()
    """Files that its input comes from."""
    background: bool = False
    """Whether ``&`` follows it."""

    @cached_property
    def _plain(self) -> tuple[str, ...]:
        """Return the words from the program on, without assignments and prefixes."""
        words = list(self.words)
        while words:
            name = words[0].rpartition("/")[2]
            if name in _PREFIXES or re.fullmatch(r"\w+=.*", words[0], re.DOTALL):
                words = words[1:]
            elif name == "timeout" and len(words) > 2:
                words = words[2:]
            elif name == "xargs" and len(words) > 1:
                words = _without_options(words[1:])
            else:
                break
        return tuple(words)

    @property
    def program(self) -> str:
        """Return the program's name without its folder, '' for an assignment alone."""
        return self._plain[0].rpartition("/")[2] if self._plain else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the program's arguments."""
        return self._plain[1:]

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Return the arguments that are not options."""
        return tuple(word for word in self.arguments if not word.startswith("-"))

    @property
    def edits_in_place(self) -> bool:
        """Return whether the program is ``sed`` or ``perl`` with an option for editing files in place."""
        return self.program in _EDITORS and any(re.match(r"-\w*i|--in-place", word) for word in self.arguments)

    @property
    def text(self) -> str:
        """Return the words with spaces between them."""
        return " ".join(self.words)

    @property
    def is_python(self) -> bool:
        """Return whether the program is a Python interpreter."""
        return _PYTHON.fullmatch(self.program) is not None

    @cached_property
    def scripts(self) -> tuple[str, ...]:
        """Return the code that the command runs or, through a here-document, writes."""
        code = [self.heredoc] if self.heredoc else []
        words = self.arguments
        if self.is_python or self.program in ("perl", "ruby", "node"):
            code += [words[at + 1] for at, word in enumerate(words[:-1]) if re.fullmatch(r"-[a-zA-Z]*[ce]", word)]
        return tuple(code)

    @cached_property
    def python(self) -> tuple[str, ...]:
        """Return the Python code that the command runs: after ``-c``, or from its standard input."""
        if not self.is_python:
            return ()
        words = self.arguments
        code = [words[at + 1] for at, word in enumerate(words[:-1]) if re.fullmatch(r"-[a-zA-Z]*c", word)]
        return (*code, self.heredoc) if self.heredoc and not self.script_path else tuple(code)

    @cached_property
    def script_path(self) -> str:
        """Return the path of the script that the command runs, '' when it runs none."""
        if not (self.is_python or self.program in (*_SHELLS, "source", ".")):
            return self._plain[0] if self._plain and _IS_SCRIPT.search(self._plain[0]) else ""
        words = iter(self.arguments)
        for word in words:
            if word in ("-X", "-W", "-o", "-O"):
                next(words, "")
            elif word == "-" or re.fullmatch(r"-[a-zA-Z]*[cm]", word):
                return ""
            elif not word.startswith("-"):
                return word
        return ""

    @cached_property
    def written(self) -> tuple[str, ...]:
        """Return the files that the command may write or remove."""
        if self.program in _WRITERS:
            return (*self.redirected, *self.operands)
        if self.program in _EDITORS and any(_EDITS_IN_PLACE.fullmatch(word[:12]) for word in self.arguments):
            return (*self.redirected, *self.operands[1:], *self.operands[:1])
        return self.redirected


def _without_options(words: list[str]) -> list[str]:
    """Return the program that ``xargs`` starts, with its arguments."""
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in ("-n", "-I", "-P", "-L", "-d", "-s", "-E") else words[1:]
    return words


@lru_cache(maxsize=4096)
def parse(line: str, depth: int = 0) -> tuple[Command, ...]:
    """Return the simple commands of a command line, in order, those of ``bash -c`` and ``$(...)`` included.

    ``depth`` counts the shells around it.
    """
    documents: list[str] = []

    def cut(match: re.Match[str]) -> str:
        documents.append(match[4])
        return f" {_MARK}{len(documents) - 1}{match[3]}\n"

    text = _HEREDOC.sub(cut, line[:MAX_LENGTH].translate(_NO_MARKS)).replace("\\\n", " ")
    for escaped, mark in _ESCAPED.items():
        text = text.replace(escaped, mark)
    lexer = shlex.shlex(_LINES.sub("\n\n", text), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace_split, lexer.commenters, lexer.whitespace = True, "", " \t\r"
    try:
        tokens = [part for token in lexer for part in _by_lines(token)]
    except ValueError:  # a quote is not closed
        tokens = re.sub(r"([;&|()<>]+)", r" \1 ", text.replace("\n", " ; ")).split()
    commands: list[Command] = []
    words: list[str] = []
    redirected: list[str] = []
    read: list[str] = []
    heredoc, to_file, skip = "", False, ""
    variables = Variables()
    places = {str(number): number for number in range(len(documents))}
    for token in [*map(_unmarked, tokens), ";"]:
        if not _OPERATOR.fullmatch(token):
            if to_file:
                redirected.append(token)
            elif token.startswith(_MARK) and token[1:] in places:
                heredoc = documents[places[token[1:]]]
            elif skip == "<<<":
                heredoc = token
            elif skip == "<":
                read.append(token)
            elif not skip:
                words.append(token)
            to_file, skip = False, ""
        elif ("<" in token or ">" in token) and not token.endswith("("):
            to_file = ">" in token and not token.endswith("&")
            skip = "" if to_file else token
            if words and words[-1].isdigit():
                words.pop()
        else:
            if words or redirected:
                variables.note(words)
                plain, targets = variables.words(words), variables.words(redirected)
                command = Command(tuple(plain), heredoc, tuple(targets), tuple(read), token == "&")
                encoded = _decoded(command, commands)
                commands += [command, *_nested(command, depth), *_run(encoded, text, depth)]
            words, redirected, read, heredoc, to_file, skip = [], [], [], "", False, ""
    return tuple(commands)


def _by_lines(token: str) -> list[str]:
    """Return an operator with ``;`` for each end of a line; an end of a line inside quotes stays in its word."""
    if not _ENDS_LINE.fullmatch(token):
        return [token]
    return [";" if part == "\n" else part for part in re.findall(r"\n|[^\n]+", token)]


def _unmarked(token: str) -> str:
    """Return a token with the signs that stood for escaped ones; a sign alone keeps its backslash."""
    for escaped, mark in _ESCAPED.items():
        token = token.replace(mark, escaped)
    return token


def _nested(command: Command, depth: int) -> tuple[Command, ...]:
    """Return the commands that a shell is given as text, by ``-c`` or by a here-document, and those of ``find``."""
    if depth == MAX_NESTED:
        return ()
    words = command.arguments
    if command.program == "find":
        inner_words = executed_by_find(words)
        inner_command = Command(tuple(inner_words))
        return (inner_command, *_nested(inner_command, depth + 1)) if inner_words else ()
    if command.program == "eval":
        line = " ".join(words)
        return parse(line, depth + 1) if line and len(line) < MAX_LENGTH else ()
    if command.program not in _SHELLS:
        return ()
    inner = next((words[at + 1] for at, word in enumerate(words[:-1]) if re.fullmatch(r"-\w*c", word)), "")
    text = inner or command.heredoc
    return parse(text, depth + 1) if text and len(text) < MAX_LENGTH else ()


def _decoded(command: Command, before: list[Command]) -> str:
    """Return the text that ``base64 -d`` is given by the command before it, or by its own input."""
    if command.program != "base64" or not {"-d", "--decode", "-D"} & set(command.arguments):
        return ""
    printed = before[-1].arguments if before and before[-1].program in ("echo", "printf") else ()
    return decoded((command.heredoc, *printed[-1:]))


def _run(text: str, line: str, depth: int) -> tuple[Command, ...]:
    """Return the commands of a decoded text that the rest of the line may run, as shell or as Python."""
    if not text or depth == MAX_NESTED:
        return ()
    if re.search(r"\|\s*(python|pypy)[\d.]*", line):
        return (Command(("python3",), text),)
    return parse(text, depth + 1)
