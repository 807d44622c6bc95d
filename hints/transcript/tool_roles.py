"""Roles of tools by their names, in the logs of any harness: which tools print text that existed before the call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

Role = Literal["shell", "code", "tests", "editor", "reader", "other"]

_SHELL = frozenset("bash sh zsh shell terminal console command cmd exec execute powershell".split())
_CODE = frozenset("python ipython jupyter notebook repl interpreter cell kernel javascript js node sandbox".split())
_EDITOR = frozenset("edit editor write replace patch insert apply create".split())
_READER = frozenset(
    "read reader view open cat show get fetch browse search grep find list ls glob lookup query retrieve ask wiki "
    "wikipedia scrape crawl visit extract snapshot screenshot observe inspect translate summarize summarise answer "
    "chat explain".split()
)
_TEXTS = frozenset(
    "page webpage website document doc docs article text content contents file files log logs url wiki readme "
    "snippet transcript email emails mail message messages note notes".split()
)
_DOES = frozenset(
    "send delete remove move rename copy post book cancel submit update set add buy pay transfer start stop "
    "restart deploy upload click type press navigate rerun trigger".split()
)
_COMMANDS = frozenset("command cmd keystrokes".split())
_SOURCES = frozenset("code source python_code cell script snippet".split())
_RUNS = frozenset("run execute exec eval evaluate step code script interpret".split())
_OF_SHEETS = frozenset("set get read update clear format write sheet spreadsheet".split())
_LANGUAGES = ("lang", "language", "kernel")
_SHELLS = frozenset("sh bash shell zsh powershell pwsh ps1 cmd console terminal".split())
_QUERIES = frozenset("sql query queries statement".split())
_CHANGES = frozenset(
    "old old_str old_string old_text oldString search find replace replacement diff patch edits new_str new_string "
    "new_text".split()
)
_PLACES = frozenset("path file_path filepath filePath filename file target_file absolute_path url uri".split())
PRINTING: frozenset[Role] = frozenset(("shell", "code", "tests", "reader"))
"""Roles whose results show text that existed before the call, so that its words are not the outcome of the call."""


def role(name: str, arguments: Iterable[str] = ()) -> Role:
    """Return the role of a tool, by the words of its name and by the names of its arguments.

    A tool called ``run_tests``, ``pytest`` or ``test`` runs tests. A getter of something other than text
    (``get_order``) and a tool that acts (``send_email``) have the role ``other``. A tool with another name that takes a
    command is a shell, and so is one that runs code when the arguments name a shell as its language.
    """
    by_name = _role(name)
    if by_name in ("other", "shell", "code") and not _SOURCES.isdisjoint(arguments) and _COMMANDS.isdisjoint(arguments):
        languages = [arguments.get(key) for key in _LANGUAGES] if isinstance(arguments, Mapping) else []
        if any(isinstance(language, str) and language.lower() in _SHELLS for language in languages):
            return "shell"
        if by_name == "code" or ("code" in arguments and not _RUNS.isdisjoint(name_words(name))):
            return "code"
    keys = set(arguments) if by_name in ("other", "reader") else set()
    if keys & _PLACES and keys & _CHANGES:
        return "editor"
    if keys & _COMMANDS and by_name == "other" and "path" not in keys:
        return "shell"
    return "reader" if by_name == "other" and name.lower().startswith("get") and keys & _PLACES else by_name


@lru_cache(maxsize=1024)
def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name in snake_case or camelCase, in small letters."""
    return tuple(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))


@lru_cache(maxsize=1024)
def _role(name: str) -> Role:
    words = name_words(name)
    if words and words[-1] in ("test", "tests", "pytest"):
        return "tests"
    if _QUERIES.intersection(words) and _RUNS.intersection(words):
        return "reader"
    if "cell" in words and _OF_SHEETS.intersection(words):
        return "other"
    runners: tuple[tuple[Role, frozenset[str]], ...] = (("shell", _SHELL), ("code", _CODE), ("editor", _EDITOR))
    for runner, names in runners:
        if names.intersection(words):
            return runner
    if _DOES.intersection(words):
        return "other"
    reads = _READER.intersection(words)
    return "reader" if reads and (reads != {"get"} or _TEXTS.intersection(words)) else "other"
