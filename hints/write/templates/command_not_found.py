"""Hint for a command that the shell does not know."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from ....models import Hint
from ...transcript.call_effects import command_of
from ...transcript.past_turns import PastCall
from ...transcript.shell_commands import parse
from ..error_context import ErrorContext
from ..hint_text import make_hint

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


def hint(context: ErrorContext) -> Hint | None:
    """Name the command, module or tool that was probably meant, or commands that worked before."""
    name = _missing(context)
    if not name:
        text = "That command does not exist here: use one that has worked before, or a tool."
        return make_hint("command_not_found", text)
    base, start = name.rpartition("/")[2], f"There is no command {name[:60]!r} here"
    working = _working(context.earlier_calls)
    if base in context.schemas:
        text = f"{base} is a tool, not a shell command: call it with its own arguments."
        return make_hint("command_not_found", text)
    near = _nearest(base, working)
    if near:
        runner = " or the run_tests tool" if near.endswith("pytest") and "run_tests" in context.schemas else ""
        return make_hint("command_not_found", f"{start}: use `{near}`{runner}.")
    if working:
        return make_hint("command_not_found", f"{start}. Commands that worked before: {', '.join(working[-8:])}.")
    return make_hint("command_not_found", f"{start}: do it with Python or with another tool.")


def _nearest(name: str, working: Sequence[str]) -> str:
    """Return what to type instead; '' when no known command is similar."""
    if name in _INSTEAD:
        return _INSTEAD[name]
    known = [*working, *_BASIC, *_MODULES]
    near = [name] if name in _MODULES else difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    if near and near[0] in _MODULES and near[0] not in working:
        return f"python -m {near[0]}"
    return near[0] if near else ""


def _missing(context: ErrorContext) -> str:
    """Return the command's name from the shell's own words, else the first program of the command line."""
    for text in (context.call.body[-4000:] if context.call is not None else "", context.error.message):
        matches = list(_NAMED.finditer(text))
        if matches:
            return next(group for group in matches[-1].groups() if group)
    parts = parse(context.command)
    return parts[0].words[0] if parts else ""


def _working(earlier: Sequence[PastCall]) -> list[str]:
    """Return the programs of commands that ended well, each once."""
    lines = [command_of(call) for call in earlier if call.status.word == "ok"]
    programs = dict.fromkeys(part.program for line in lines if line for part in parse(line))
    return [program for program in programs if re.fullmatch(r"[\w.+-]+", program) and program not in ("cd", "export")]
