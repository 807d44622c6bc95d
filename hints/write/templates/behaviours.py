"""Hints for behaviours (waste, over-long or missing texts, false claims): one function for each behaviour."""

from __future__ import annotations

import re

from ....models import Hint
from ...transcript.call_effects import path_of, writes_by_name
from ...transcript.shell_commands import parse
from ..error_context import ErrorContext
from ..hint_text import listed, make_hint, quote

_SLEEPS = re.compile(r"[\w.]*\bsleep\([\d.]+\)")


def repeat(context: ErrorContext) -> Hint:
    """Name the turn that already holds the result of a repeated call."""
    earlier = re.search(r"turn (\d+)", context.error.message)
    place = f"turn {earlier[1]}" if earlier else "an earlier turn"
    unchanged = " and nothing has changed since" if "nothing was changed" in context.error.message else ""
    return make_hint(
        "repeat",
        f"The result of {quote(context.error.evidence, 100)} is already in {place}{unchanged}: use it.",
        "Take the next step instead: change something, or submit when the work is done.",
    )


def reread(context: ErrorContext) -> Hint:
    """Name the turn that already shows the file."""
    path, _, after = context.detail.partition(" was read in ")
    turn = after.partition(" and ")[0]
    return make_hint(
        "reread",
        f"{quote(path, 120)} is already shown in {turn}, and no call wrote to it since: look there.",
        "Read only lines that you have not seen.",
    )


def sleep(context: ErrorContext) -> Hint:
    """Advise not to wait, because nothing runs between two commands."""
    line = context.error.evidence
    parts = parse(line)
    is_loop = line.lstrip().startswith(("while", "until", "for", "watch"))
    is_polling = is_loop or any(
        part.after == "&" and before.program != "sleep" for before, part in zip(parts, parts[1:], strict=False)
    )
    waits = [" ".join(part.words) for part in parts if part.program == "sleep"] or _SLEEPS.findall(line)
    what = quote(line, 100) if is_loop or not waits else listed(quote(wait, 40) for wait in dict.fromkeys(waits))
    return make_hint(
        "sleep",
        f"Leave out {what}: nothing runs between two commands, so there is nothing to wait for.",
        "Let the command run in the foreground: its result comes when it is done."
        if is_polling
        else "Take the next step at once.",
    )


def pages(context: ErrorContext) -> Hint:
    """Say how to find and show only the lines that are needed."""
    has_range = "start_line" in context.arguments_of("read_file")
    part = "read_file with start_line and end_line" if has_range else "`sed -n 100,160p`"
    return make_hint(
        "pages",
        f"{quote(context.error.evidence, 100)} fills pages.",
        f"Search for the name you need, then show only the lines around it with {part}.",
    )


def effort(context: ErrorContext) -> Hint:
    """Advise to hand in, because the tests passed and nothing has changed since."""
    ending = context.ending_tool
    close = f"call {ending} now" if ending else "give your answer now"
    return make_hint("effort", f"The work is done ({context.detail}): {close} instead of checking again.")


def no_call(context: ErrorContext) -> Hint:
    """Remind the agent that text alone does nothing, and name the tools."""
    ending = context.ending_tool
    close = f" When the work is done, call {ending}." if ending else ""
    start = f"Make a tool call in each turn; text alone does nothing.{close}"
    return make_hint("no_call", start, f"The tools are {listed(context.schemas)}.")


def wordy(context: ErrorContext) -> Hint:
    """Ask for a few sentences, and say how long the text was."""
    return make_hint(
        "wordy",
        f"Say in a few sentences what you do and why; {context.detail} is too much.",
        "Leave out code that is in a file, and what has been said before.",
    )


def silent(context: ErrorContext) -> Hint:
    """Ask for one or two closing sentences, and name the files that were written."""
    calls = [call for turn in context.turns[: context.error.turn + 1] for call in turn.calls]
    paths = dict.fromkeys(path_of(call) for call in calls if writes_by_name(call))
    named = [quote(path, 60) for path in paths if path and not path.startswith("/tmp/")][:3]
    about = f" (you wrote to {listed(named)})" if named else ""
    return make_hint(
        "silent", f"Close with one or two sentences: what you changed{about}, and which tests you ran with what result."
    )


def false_claim(context: ErrorContext) -> Hint:
    """Quote a claim that the log contradicts, and say what to do or to write instead."""
    reason = context.detail.partition(", and ")[2] or context.detail
    claim = quote(context.error.evidence, 120)
    return make_hint("false_claim", f"Do not write {claim}: {reason}.", _instead(context))


def _instead(context: ErrorContext) -> str:
    """Return what to do first, or what to write instead."""
    if context.detail.endswith("failed"):
        return "Fix the failure and run the tests again, or say that they fail."
    if "test" in context.detail:
        run = "Call run_tests" if "run_tests" in context.schemas else "Run the tests"
        return f"{run} first, or say that the tests were not run."
    if "changed" in context.detail:
        return "Make the change first, or say that it is not made."
    return "Run it first, or leave the sentence out."
