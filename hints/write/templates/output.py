"""Hints for what a call printed: a traceback, or more than a result holds."""

from __future__ import annotations

import re

from ....models import Hint
from ...transcript.call_effects import is_test_tool, shown_files, workspace_path
from ...transcript.shell_commands import parse, testing_commands
from ..error_context import ErrorContext
from ..hint_text import listed, make_hint, quote
from ..path_guesses import known_paths

_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^[ \t|]*File "([^"\n]+)", line (\d{1,9})(?:, in (\S+))?', re.MULTILINE)
_PYTEST_FRAME = re.compile(r"^((?:[\w.@+-]+/)*[\w.@+-]+\.py):(\d{1,9}): (?:in (\S+)|(\w[\w.]*))", re.MULTILINE)
_RAISED = re.compile(
    r"^(?:E   +|[ |+-]*)?((?:\w+\.)*\w*(?:Error|Exception|Warning|Interrupt|Exit|Failed))(?:: (.*))?$", re.MULTILINE
)
_NO_MODULE = re.compile(r"No module named '?(\w+)'?$", re.MULTILINE)
_ELSEWHERE = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python[\d.]*|python[\d.]+/lib)/|^<|^/usr/|^/opt/")
_DROPPED = re.compile(r"(\d+) bytes dropped")
_NARROWING = (
    "start_line end_line view_range offset limit max_results max_lines head_limit page path include glob file_type "
    "selector pattern query"
).split()
"""Arguments with which tools show less."""


def traceback(context: ErrorContext) -> Hint | None:
    """Name the exception and the line of the innermost frame in the workspace."""
    body = context.call.body if context.call is not None and context.call.body else context.error.evidence
    raised = _raised(body) or _raised(context.error.message)
    missing = missing_module(context, body)
    if missing:
        return make_hint("traceback", missing)
    frame = _frame(body)
    what = f"{raised[0]}: {raised[1]}".rstrip(": ") if raised else "an exception"
    if frame is None:
        return make_hint("traceback", f"It raises {quote(what, 140)}.", "Find the cause before you run it again.")
    path, line, function = frame
    inside = f" (in {function})" if function and function != "<module>" else ""
    return make_hint(
        "traceback",
        f"{quote(what, 140)} comes from line {line} of {quote(workspace_path(path), 120)}{inside}.",
        "Read that line and fix the cause there, before you run it again.",
    )


def missing_module(context: ErrorContext, text: str) -> str:
    """Return the advice for a module that is not installed; '' for one of the workspace and for any other text."""
    modules = _NO_MODULE.findall(text[-4000:])
    if not modules or text.rstrip().rpartition("\n")[2].find("No module named") < 0:
        return ""
    name = modules[-1]
    paths = known_paths(context.earlier_calls, context.files)
    if any(name in (part.removesuffix(".py") for part in path.split("/")) for path in paths):
        return ""
    advice = "use the standard library and what is installed"
    return f"ModuleNotFoundError: {quote(name)} is not installed and cannot be installed; {advice}."


def _raised(body: str) -> tuple[str, str] | None:
    """Return the last exception's name and message."""
    matches = _RAISED.findall(body[-20_000:])
    return (matches[-1][0], matches[-1][1]) if matches else None


def _frame(body: str) -> tuple[str, int, str] | None:
    """Return path, line and function of the innermost frame in the workspace.

    Of chained tracebacks the last one counts; frames of the standard library and installed packages are skipped.
    """
    last = body.rpartition(_TRACEBACK)[2] if _TRACEBACK in body else body
    frames = [(path, int(line), function) for path, line, function in _FRAME.findall(last)]
    frames += [(path, int(line), function) for path, line, function, _ in _PYTEST_FRAME.findall(last)]
    ours = [frame for frame in frames if not _ELSEWHERE.search(frame[0]) and frame[0] not in ("-c", "stdin")]
    return ours[-1] if ours else None


def output_limit(context: ErrorContext) -> Hint | None:
    """Say how to ask for less output, with the arguments that the tool has."""
    error, call = context.error, context.call
    dropped = _DROPPED.search(call.body) if call is not None else None
    what = quote(context.command, 80) if context.command else error.tool[:60] or "The call"
    lost_text = f": {dropped[1]} bytes of it are lost" if dropped else ""
    start = f"{what} prints more than a result holds{lost_text}."
    return make_hint(
        "output_limit", start, _advice_for_command(context) if context.command else _advice_for_tool(context)
    )


def _advice_for_command(context: ErrorContext) -> str:
    programs = {part.program for part in parse(context.command)}
    if (context.call is not None and shown_files(context.call)) or programs & {"cat", "nl", "bat"}:
        return _show_lines(context)
    if programs & {"grep", "rg", "egrep", "find", "ls", "tree", "ag"}:
        return "Search in one folder, list file names only (`grep -l`), or add `| head -50`."
    if testing_commands(context.command):
        return "Run one test with `-q --tb=short`, or add `| tail -40`."
    return "Keep the part that matters with `| head -50`, `| tail -50` or `| grep`."


def _advice_for_tool(context: ErrorContext) -> str:
    """Return the advice for a tool that does not run a command: a pipe is of no use there."""
    arguments = context.arguments_of(context.error.tool)
    narrowing = [name for name in _NARROWING if name in arguments]
    if context.call is not None and shown_files(context.call) and "start_line" in arguments:
        return "Search for what you need, then show those lines alone with start_line and end_line."
    if context.call is not None and is_test_tool(context.call) and narrowing:
        return f"Run one file or one test: limit it with {listed(narrowing)}."
    if "pattern" in narrowing or "query" in narrowing:
        where = [name for name in narrowing if name not in ("pattern", "query")]
        limited = f" and limit it with {listed(where)}" if where else ""
        return f"Search for something more specific{limited}."
    if narrowing:
        return f"Ask for a smaller part: limit it with {listed(narrowing)}."
    return "Ask for a smaller part, or do the step with a tool that can select it."


def _show_lines(context: ErrorContext) -> str:
    has_range = "start_line" in context.arguments_of("read_file")
    part = "read_file with start_line and end_line" if has_range else "`sed -n '1,100p'`"
    return f"Search for what you need, then show those lines alone with {part}."
