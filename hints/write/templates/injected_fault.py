"""What to do after a failure that the agent could not foresee."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...transcript.past_turns import PastTurn
from .kit import call_of
from .kit import hint as made

_ADVICE = (
    (r"rate.?limit|too many requests|\b429\b", "Wait for no one: send the call once more, or do another step first"),
    (
        r"permission|denied|read.?only|forbidden",
        "Write to another place that you may write to, or change the permission",
    ),
    (r"truncat|garbl|incomplete|cut off|corrupt", "The result is not whole: ask again for the part that you need"),
    (
        r"stale|out of date|outdated|old version|changed since",
        "What was shown is out of date: read it again before you use it",
    ),
    (
        r"partial|partly written|bytes written|short write",
        "Only a part was written: read the file, then write the whole of it",
    ),
    (r"no such (?:file|folder)|wrong director|not a directory", "Check where you are with pwd, then use the full path"),
    (
        r"renamed|withdrawn|no longer|there is no tool",
        "The tools have changed: use one of those that the message names",
    ),
    (r"schema|argument", "The tool's arguments have changed: call it with those that the message names"),
    (r"time.?d? ?out|timeout", "It took too long this time: send the call once more"),
    (r"disk|no space", "There is no space left: remove what you no longer need"),
    (
        r"unavailable|temporar|transient|try again|connection|\b50[234]\b",
        "The failure passes: send the same call once more",
    ),
)


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """For this kind and injected ones of others; what has become of a changed tool says the kind's own hint."""
    if error.kind != "injected_fault" and (not error.injected or error.kind in ("tool_not_found", "invalid_args")):
        return None
    call = call_of(error, turns)
    shown = f"{error.evidence} {call.body[-1000:] if call is not None else ''}"
    # What the injector says comes first: a result may hold any of the words.
    found = (advice for text in (error.message, shown) for pattern, advice in _ADVICE if re.search(pattern, text, re.I))
    advice = next(found, "")
    said = " ".join(error.message.split())[:140].rstrip(".")
    start = f"{error.tool[:60] or 'The tool'} failed for a reason outside your call" + (f": {said}." if said else ".")
    return made(
        "injected_fault", start, f"{advice or 'Send the call once more; if it fails again, do it another way'}."
    )
