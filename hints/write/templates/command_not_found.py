"""The command that was probably meant: one that worked before, a module, or a tool."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour import log, shell
from ...transcript.past_turns import PastCall, PastTurn
from ...transcript.tool_schemas import parameters_of
from .kit import call_of, calls_before
from .kit import hint as made

_NAMED = re.compile(
    r"(?:^|: )(?:line \d+: |\d+: )?(?P<a>[\w./+-]+): (?:command )?not found|command not found: (?P<b>[\w./+-]+)"
    r"|'(?P<c>[\w./+-]+)' is not recognized|exec: \"?(?P<d>[\w./+-]+)\"?: executable file not found",
    re.MULTILINE,
)
_MODULES = "pytest pip mypy black isort flake8 pylint ruff coverage unittest venv build tox sphinx".split()
_INSTEAD = {
    "rg": "grep -rn",
    "ag": "grep -rn",
    "ack": "grep -rn",
    "fd": "find . -name",
    "bat": "cat",
    "python3": "python",
    "python": "python3",
    "py": "python",
    "pip3": "python -m pip",
    "py.test": "python -m pytest",
    "tree": "find . -type f",
    "exa": "ls",
    "gsed": "sed",
    "which": "command -v",
    "ll": "ls -l",
}
_BASIC = (
    "cat chmod cp cut diff echo find grep head ls mkdir mv python rm sed sort tail tar touch tr uniq wc xargs".split()
)


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """A command counts as known when it has worked before in this transcript."""
    if error.kind != "command_not_found":
        return None
    call = call_of(error, turns)
    name = _missing(call, error.message)
    if not name:
        return made("command_not_found", "That command does not exist here: use one that has worked before, or a tool.")
    base, start = name.rpartition("/")[2], f"There is no command {name[:60]!r} here"
    worked = _worked(calls_before(error, turns))
    names = list(parameters_of(tools))
    if base in names:
        return made("command_not_found", f"{base} is a tool, not a shell command: call it with its own arguments.")
    near = _nearest(base, worked)
    if near:
        runner = " or the run_tests tool" if near.endswith("pytest") and "run_tests" in names else ""
        return made("command_not_found", f"{start}: use `{near}`{runner}.")
    if worked:
        return made("command_not_found", f"{start}. Commands that worked before: {', '.join(worked[-8:])}.")
    return made("command_not_found", f"{start}: do it with Python or with another tool.")


def _nearest(name: str, worked: Sequence[str]) -> str:
    """What to type instead; '' when nothing comes near."""
    if name in _INSTEAD:
        return _INSTEAD[name]
    known = [*worked, *_BASIC, *_MODULES]
    near = [name] if name in _MODULES else difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    if near and near[0] in _MODULES and near[0] not in worked:
        return f"python -m {near[0]}"
    return near[0] if near else ""


def _missing(call: PastCall | None, message: str) -> str:
    """The command's name, from the shell's own words, else the first program of the command line."""
    for text in (call.body[-4000:] if call is not None else "", message):
        found = list(_NAMED.finditer(text))
        if found:
            return next(group for group in found[-1].groups() if group)
    parts = shell.parse(log.command(call)) if call is not None else ()
    return parts[0].words[0] if parts else ""


def _worked(earlier: Sequence[PastCall]) -> list[str]:
    """Programs of commands that ended well, each once."""
    lines = [log.command(call) for call in earlier if call.status.word == "ok" and log.command(call)]
    programs = dict.fromkeys(part.program for line in lines for part in shell.parse(line))
    return [program for program in programs if re.fullmatch(r"[\w.+-]+", program) and program not in ("cd", "export")]
