"""Hints for commands: not known, ended with an exit code other than 0, or not ended in time."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from ....models import Hint
from ...transcript.call_effects import command_of
from ...transcript.past_turns import PastCall
from ...transcript.shell_commands import parse, testing_commands
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote
from .output import missing_module

_MISSING_COMMAND = re.compile(
    r"(?:^|: )(?:line \d+: |\d+: )?(?P<a>[\w./+-]+): (?:command )?not found|command not found: (?P<b>[\w./+-]+)"
    r"|'(?P<c>[\w./+-]+)' is not recognized|exec: \"?(?P<d>[\w./+-]+)\"?: executable file not found",
    re.MULTILINE,
)
_PYTHON_MODULES = "pytest pip mypy black isort flake8 pylint ruff coverage unittest venv build tox sphinx".split()
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
_BASIC_PROGRAMS = (
    "cat chmod cp cut diff echo find grep head ls mkdir mv python rm sed sort tail tar touch tr uniq wc xargs".split()
)
_ERROR_LINE = re.compile(r"(?:[\w./-]+: )?(?:fatal|(?:\w+ )?error|panic)\b[^\n]*: ?\S", re.IGNORECASE)
_EXIT_CODES = {
    126: "the file is not executable: run it with its interpreter",
    130: "it was interrupted",
    134: "it aborted",
    137: "it was killed, as a rule for using too much memory: do less at once",
    139: "it crashed (segmentation fault)",
    143: "it was terminated",
}
_PYTEST_CODES = {
    2: "the run was interrupted: a test file could not be imported",
    3: "pytest itself failed",
    4: "pytest was called wrongly: check the path and the options",
    5: "no test was collected: check the path and the test's name",
}
_LIMIT = re.compile(r"timeout (\d+(?:\.\d+)?)s|(?:after|of|in) (\d+(?:\.\d+)?) ?s")
_SERVES = re.compile(
    r"\b(?:runserver|http\.server|uvicorn|gunicorn|flask run|npm (?:start|run dev)|serve|tail -[fF]|watch)\b"
)
_ASK_FOR_INPUT = frozenset(
    "python python3 ipython node irb psql mysql vi vim nano less more top htop ssh gdb pdb".split()
)
_OWN_LIMITS = ("timeout_s", "timeout", "timeout_seconds", "timeout_sec")
_SHOW, _EDIT = "show the file with `cat` or `sed -n 1,80p`", "change the file with `sed -i` or with a tool that edits"
_SCRIPT, _ONCE = "write the commands into a script, or pass them with -c", "ask once with `ps aux`"
_KEYS = {
    **dict.fromkeys("less more most man".split(), _SHOW),
    **dict.fromkeys("vi vim nvim view nano pico emacs ed ex joe mcedit micro".split(), _EDIT),
    **dict.fromkeys("top htop btop atop iotop".split(), _ONCE),
    **dict.fromkeys("pdb ipdb gdb lldb ipython bpython jdb".split(), _SCRIPT),
    **dict.fromkeys("tmux screen mc ncdu dialog tig lazygit visudo".split(), "use a command that ends by itself"),
}
"""Programs that read the keyboard, and what to do instead."""
_GIT_KEYS = "give the message with -m, and name the paths or commits"
_BATCH = frozenset("-b -bn1 -n1 -es -Es --batch -batch --version --help -c -ex --eval".split())
"""Arguments with which such a program ends by itself."""
_FETCHES = re.compile(r"\b(?:pip3? install|npm install|apt(?:-get)? |curl |wget |git (?:clone|fetch|pull))")
_SEARCHES = re.compile(r"\b(?:find|grep -\w*[rR]\w*|ls -\w*R\w*|du)\b[^|;&]*\s/(?:\s|$|usr|home|etc)")


def command_not_found(context: ErrorContext) -> Hint | None:
    """Name the command, module or tool that was probably meant, or commands that worked before."""
    name = _missing_command(context)
    if not name:
        text = "That command does not exist here: use one that has worked before, or a tool."
        return make_hint("command_not_found", text)
    base, start = name.rpartition("/")[2], f"There is no command {name[:60]!r} here"  # prose: ok
    working = _working_programs(context.earlier_calls)
    if base in context.schemas:
        text = f"{base} is a tool, not a shell command: call it with its own arguments."
        return make_hint("command_not_found", text)
    near = _replacement(base, working)
    if near:
        runner = " or the run_tests tool" if near.endswith("pytest") and "run_tests" in context.schemas else ""
        return make_hint("command_not_found", f"{start}: use `{near}`{runner}.")
    if working:
        return make_hint("command_not_found", f"{start}. Commands that worked before: {', '.join(working[-8:])}.")
    return make_hint("command_not_found", f"{start}: do it with Python or with another tool.")


def _replacement(name: str, working: Sequence[str]) -> str:
    """Return what to type instead; '' when no known command is similar."""
    if name in _INSTEAD:
        return _INSTEAD[name]
    candidates = [*working, *_BASIC_PROGRAMS, *_PYTHON_MODULES]
    near = [name] if name in _PYTHON_MODULES else difflib.get_close_matches(name, candidates, n=1, cutoff=0.7)
    if near and near[0] in _PYTHON_MODULES and near[0] not in working:
        return f"python -m {near[0]}"
    return near[0] if near else ""


def _missing_command(context: ErrorContext) -> str:
    """Return the command's name from the shell's own words, else the first program of the command line."""
    for text in (context.call.body[-4000:] if context.call is not None else "", context.error.message):
        matches = list(_MISSING_COMMAND.finditer(text))
        if matches:
            return next(group for group in matches[-1].groups() if group)
    parts = parse(context.command)
    return parts[0].words[0] if parts else ""


def _working_programs(earlier: Sequence[PastCall]) -> list[str]:
    """Return the programs of commands that ended well, each once."""
    lines = [command_of(call) for call in earlier if call.status.word == "ok"]
    programs = dict.fromkeys(part.program for line in lines if line for part in parse(line))
    return [program for program in programs if re.fullmatch(r"[\w.+-]+", program) and program not in ("cd", "export")]


def nonzero_exit(context: ErrorContext) -> Hint | None:
    """Say what the exit code means, and quote the line that gives the reason."""
    error, call = context.error, context.call
    what = quote(context.command, 80) if context.command else error.tool[:60] or "The call"
    code = call.status.exit_code if call is not None else None
    if call is None or code is None:
        reason = error.message.rstrip(".")[:200]
        return make_hint("nonzero_exit", f"{what} fails: {reason}.", "Fix that before you try it again.")
    missing = missing_module(context, call.body)
    if missing:
        return make_hint("nonzero_exit", missing)
    meaning, reason = _exit_meaning(context, code), _error_line(call.body)
    start = f"{what} ends with exit code {code}" + (f": {meaning}." if meaning else ".")
    silent = "" if meaning else "It prints nothing: ask for more with a verbose option."
    words = f"It says {quote(reason, 140)}." if reason else silent
    return make_hint("nonzero_exit", start, words, "" if meaning else "Fix that first, then run it again.")


def _exit_meaning(context: ErrorContext, code: int) -> str:
    tests = testing_commands(context.command) if context.command else ()
    if code in _PYTEST_CODES and (
        context.error.tool == "run_tests" or any("pytest" in part.words[0] for part in tests)
    ):
        return _PYTEST_CODES[code]
    if code == 1 and tests:
        return "a test fails; read the first failure"
    parts = parse(context.command) if context.command else ()
    if code == 1 and parts and parts[-1].program in ("grep", "rg", "egrep", "fgrep"):
        return "nothing matches, which is an answer and not a failure"
    if code == 1 and parts and parts[-1].program in ("diff", "cmp"):
        return "the files differ, which is an answer and not a failure"
    return _EXIT_CODES.get(code, "")


def _error_line(body: str) -> str:
    """Return the last line that calls itself an error, when usage lines follow it; else the last line."""
    lines = [line.strip() for line in body[-4000:].splitlines() if line.strip()]
    return next(filter(_ERROR_LINE.match, reversed(lines)), lines[-1] if lines else "")


def timeout(context: ErrorContext) -> Hint | None:
    """Say why the command takes so long, and how to do less of it."""
    error = context.error
    limit = _LIMIT.search(f"{error.message} {error.evidence}")
    allowed = _allowed(context, limit[1] or limit[2]) if limit else "the time that a call may take"
    what = quote(context.command, 80) if context.command else error.tool[:60] or "The call"
    return make_hint("timeout", f"{what} does not end within {allowed}.", _timeout_advice(context.command, error.tool))


def _allowed(context: ErrorContext, seconds: str) -> str:
    """Return whose limit the seconds were: the agent's own, if its call asked for fewer than a call may take."""
    arguments = context.call.arguments if context.call is not None else {}
    for name in _OWN_LIMITS:
        requested, rule = arguments.get(name), context.arguments_of(context.error.tool).get(name)
        most = rule.get("maximum") if isinstance(rule, Mapping) else None
        if isinstance(requested, int | float) and requested == float(seconds) and requested != most:
            return f"the {seconds} s that you asked for" + (f" (at most {most})" if most is not None else "")
    return f"the {seconds} s that a call may take"


def _waits_for_keys(line: str) -> str:
    """Return which program of the command line waits for keys, and what to do instead; '' when none does."""
    for part in parse(line) if line else ():
        words = part.words
        is_interactive = re.fullmatch(r"i?python[\d.]*", part.program) and "-i" in words
        advice = _KEYS.get(part.program) or (_KEYS["ipython"] if is_interactive else "")
        if part.program == "git":
            advice = _GIT_KEYS if _asks_in_git(words) else ""
        if advice and part.after != "|" and _BATCH.isdisjoint(words):
            return f"`{part.program}` waits for keys that never come: {advice}."
    return ""


def _asks_in_git(words: Sequence[str]) -> bool:
    """Return whether a git command opens an editor or asks which changes it should take."""
    if words[1:2] == ("commit",):
        return not any(re.match(r"-\w*[mFC]|--(?:message|file|no-edit|fixup|reuse-message)", word) for word in words)
    return not {"-i", "-p", "--interactive", "--patch"}.isdisjoint(words) and words[1] in ("rebase", "add", "checkout")


def _timeout_advice(line: str, tool: str) -> str:
    parts = parse(line) if line else ()
    if any(part.program == "sleep" for part in parts) or "sleep(" in line:
        return "Do not wait: nothing runs between two commands."
    if keys := _waits_for_keys(line):
        return keys
    if _SERVES.search(line):
        return "It never ends by itself: start it with `timeout 5` or test the code without a server."
    if any(
        part.program in _ASK_FOR_INPUT and len(part.words) == 1 and part.after != "|" and not part.redirects
        for part in parts
    ):
        return "It waits for input that never comes: pass a script or use -c."
    if _FETCHES.search(line):
        return "There may be no network: use what is installed."
    if _SEARCHES.search(line):
        return "Search the workspace only, not the whole machine."
    if tool in ("run_tests", "pytest") or testing_commands(line):
        return "Run one test file or one test; if that hangs too, look for an endless loop in the code it calls."
    if any(re.fullmatch(r"python[\d.]*", part.program) for part in parts):
        return "Look for an endless loop, try it on a smaller input, or pipe in what it asks for."
    return "Do less in one call: narrow the paths, or split the work."
