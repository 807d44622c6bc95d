"""Hints for failures outside the call, for a budget that ran out, and for a call that fails again."""

from __future__ import annotations

import re

from ....models import Hint
from ...transcript.call_effects import acts, command_of, may_change, one_line, same_result
from ...transcript.past_turns import PastCall
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote

_NOT_RUN = re.compile(r"refused|resolve|unreachable|rate.?limit|\b429\b|\b503\b|too many|busy|unavailable", re.I)
"""Failures after which the call cannot have taken effect."""
_PASSES = "The failure passes: send the same call once more"
_VERIFY = "Your call may have taken effect: check that first, and repeat it only if it did not"
_CREDENTIALS = re.compile(
    r"expired|\btoken\b|credential|session (?:ended|closed|invalid)|unauthori[sz]ed|\b401\b|\blog ?in\b|authenticat",
    re.I,
)
_RENEWS = re.compile(r"renew|refresh|log_?in|sign_?in|auth|token|session", re.I)
_UNSURE = re.compile(r"truncat|garbl|incomplete|cut off|corrupt|time.?d? ?out|timeout|connection|\b50[24]\b", re.I)
"""Failures after which it is open whether the call took effect."""
_ADVICE = (
    (
        r"rate.?limit|too many (?:requests|calls)|\b429\b|took no call",
        "Send the call once more, or do another step first",
    ),
    (r"for a moment|temporar|transient", _PASSES),
    (r"truncat|garbl|incomplete|cut off|corrupt", "The result is incomplete: ask again for the part that you need"),
    (
        r"stale|out of date|outdated|old version|changed since",
        "What was shown is out of date: read it again before you use it",
    ),
    (
        r"partial|partly written|bytes written|short write",
        "Only a part was written: read the file, then write all of it",
    ),
    (r"no such (?:file|folder)|wrong director|not a directory", "Use the full path"),
    (
        r"renamed|withdrawn|no longer|there is no tool",  # prose: ok
        "The tools have changed: use one of those that the message names",
    ),
    (r"schema|argument", "The tool's arguments have changed: call it with those that the message names"),
    (r"time.?d? ?out|timeout", "It took too long this time: send the call once more"),
    (r"disk|no space", "There is no space left: remove what you no longer need"),  # prose: ok
    (r"unavailable|try again|connection|\b50[234]\b", _PASSES),
)


def transport_error(context: ErrorContext) -> Hint | None:
    """Advise to send the same call once more, after a check if it may have taken effect."""
    tool = context.error.tool[:60] or "the tool"
    start = f"The connection to {tool} failed, not your call"
    has_run = not _NOT_RUN.search(f"{context.error.message} {context.error.evidence}")
    if context.call is not None and context.call.arguments and acts(context.call) and has_run:
        return make_hint(
            "transport_error",
            f"{start}: check first whether the call took effect.",
            "If not, send the same call once more; if it fails again, do the step with another tool.",
        )
    return make_hint(
        "transport_error",
        f"{start}: send the same call once more.",
        "If it fails again, do the step with another tool.",
    )


def injected_fault(context: ErrorContext) -> Hint | None:
    """Say what to do about a failure outside the call: repeat it, verify it, or follow the message."""
    error = context.error
    reason = " ".join(error.message.split())[:140].rstrip(".")
    subject = f"{error.tool[:60] or 'The tool'} failed for a reason outside your call"
    return make_hint("injected_fault", subject + (f": {reason}." if reason else "."), f"{_fault_advice(context)}.")


def _fault_advice(context: ErrorContext) -> str:
    """Return what to do; what the injector says counts more than the result, which may hold any of the words."""
    message, call = context.error.message, context.call
    named = [name for name in context.schemas if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message)]
    others = [name for name in named if name != context.error.tool]
    if others:
        return f"Call {others[0]} as the message says, then repeat your call with what it gives"
    shown = f"{context.error.evidence} {call.body[-1000:] if call is not None else ''}"
    for text in (message, shown):
        if call is not None and acts(call) and _UNSURE.search(text):
            return _VERIFY
        if _CREDENTIALS.search(text) and not re.search(r"for a moment|temporar", text, re.I):
            return _renewal(context)
        for pattern, advice in _ADVICE:
            if re.search(pattern, text, re.I):
                return advice
        if re.search(r"permission|denied|read.?only|forbidden", text, re.I):
            return _permission(context)
    return "Send the call once more; if it fails again, do it another way"


def _renewal(context: ErrorContext) -> str:
    tool = next((name for name in context.schemas if _RENEWS.search(name) and name != context.error.tool), "")
    return f"Get a new token {f'with {tool}' if tool else 'or log in again'}, then repeat your call with it"


def _permission(context: ErrorContext) -> str:
    if context.path or context.command:
        return "Write to another place that you may write to, or change the permission"
    return "Send the call once more; if it is refused again, do the step with another tool"


def budget(context: ErrorContext) -> Hint | None:
    """Advise to hand in before the budget ends, and how many turns changed nothing."""
    past = context.turns[: context.error.turn + 1]
    idle = sum(not any(may_change(call) for call in turn.calls) for turn in past)
    ending = context.ending_tool
    close = f"Call {ending} with what you have" if ending else "Give your answer with what you have"
    spent = f" ({idle} of the {len(past)} turns changed nothing)" if len(past) >= 4 and idle * 2 >= len(past) else ""
    return make_hint("budget", f"The budget ends here. {close}{spent}.", "Leave out what is not needed for the task.")


def again(context: ErrorContext) -> Hint | None:
    """Point out that the same call has failed before with the same result."""
    call, error = context.call, context.error
    if call is None or context.behaviour or error.kind in ("transport_error", "injected_fault", "budget"):
        return None
    if call.problem or not call.arguments:
        return None  # two broken calls need not be the same
    turn = _earlier_turn(context, call)
    if turn is None:
        return None
    unchanged = "" if may_change(call) else ", and nothing was changed since"
    text = f"{quote(command_of(call) or one_line(call), 100)} has failed in turn {turn} already{unchanged}"
    return make_hint("again", f"{text}: try another way.")


def _earlier_turn(context: ErrorContext, call: PastCall) -> int | None:
    """Return the turn of the same call with the same result; ``None`` when there is none, or something has changed."""
    error, turns = context.error, context.turns
    for turn in range(error.turn, -1, -1):
        calls = turns[turn].calls[: error.call_index] if turn == error.turn else turns[turn].calls
        for other in reversed(calls):
            if other.name == call.name and other.arguments == call.arguments and same_result(other, call):
                return turn
            if may_change(other):
                return None
    return None
