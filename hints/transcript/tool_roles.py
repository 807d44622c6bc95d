"""What kind of tool a name stands for, in anybody's logs: who prints text that it did not write itself."""

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
    "wikipedia "
    "scrape crawl visit extract snapshot screenshot observe inspect translate summarize summarise answer chat "
    "explain".split()
)
_TEXTS = frozenset(
    "page webpage website document doc docs article text content contents file files log logs url wiki readme "
    "snippet transcript "
    "email emails mail message messages note notes".split()
)
_DOES = frozenset(
    "send delete remove move rename copy post book cancel submit update set add buy pay transfer start stop "
    "restart deploy upload "
    "click type press navigate rerun trigger".split()
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
"""Tools whose results are made of text that was there before the call: what it says is no outcome."""


def role(name: str, arguments: Iterable[str] = ()) -> Role:
    """By the words of the name; a tool called ``run_tests``, ``pytest`` or ``test`` runs tests.

    A tool that gets something which is no text (``get_order``) prints none; nor does one that acts (``send_email``).
    Whatever else is given a command, by the names of its ``arguments``, is a shell; what runs code is one when the
    arguments name a shell as its language.
    """
    found = _role(name)
    if found in ("other", "shell", "code") and not _SOURCES.isdisjoint(arguments) and _COMMANDS.isdisjoint(arguments):
        words = _words(name)
        languages = [arguments.get(key) for key in _LANGUAGES] if isinstance(arguments, Mapping) else []
        if any(isinstance(each, str) and each.lower() in _SHELLS for each in languages):
            return "shell"
        if found == "code" or ("code" in arguments and not _RUNS.isdisjoint(words)):
            return "code"
    given = set(arguments) if found in ("other", "reader") else set()
    if given & _PLACES and given & _CHANGES:
        return "editor"
    if given & _COMMANDS and found == "other" and "path" not in given:
        return "shell"
    return "reader" if found == "other" and name.lower().startswith("get") and given & _PLACES else found


@lru_cache(maxsize=1024)
def _words(name: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))


@lru_cache(maxsize=1024)
def _role(name: str) -> Role:
    words = _words(name)
    if words and words[-1] in ("test", "tests", "pytest"):
        return "tests"
    found: tuple[tuple[Role, frozenset[str]], ...] = (("shell", _SHELL), ("code", _CODE), ("editor", _EDITOR))
    if _QUERIES.intersection(words) and _RUNS.intersection(words):
        return "reader"
    if "cell" in words and _OF_SHEETS.intersection(words):
        return "other"
    for each, known in found:
        if known.intersection(words):
            return each
    if _DOES.intersection(words):
        return "other"
    reads = _READER.intersection(words)
    return "reader" if reads and (reads != {"get"} or _TEXTS.intersection(words)) else "other"
