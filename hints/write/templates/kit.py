"""What all templates use: hints of bounded length, quotes, nearest names, the tools' schemas, the call in question."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from ....models import ErrorTurn, Hint
from ...transcript.past_turns import PastCall, PastTurn

LONGEST = 400


def hint(template: str, *sentences: str) -> Hint:
    """The sentences as a Hint of at most LONGEST characters: whole sentences from the first on, as many as fit."""
    text = ""
    for sentence in (" ".join(sentence.split()) for sentence in sentences):
        longer = f"{text} {sentence}".strip()
        if len(longer) > LONGEST:
            text = text or longer[: LONGEST - 3] + "..."
            break
        text = longer
    return Hint(text=text, source="template", template=template, role="user")


def quote(text: str, longest: int = 60) -> str:
    """A piece of text on one line, in quotes, cut to ``longest`` characters."""
    line = " ".join(text.split())
    return f"`{line if len(line) <= longest else line[: longest - 3] + '...'}`"


def call_of(error: ErrorTurn, turns: Sequence[PastTurn]) -> PastCall | None:
    """The call that the error is about; ``None`` for a whole turn."""
    if error.call_index is None or not 0 <= error.turn < len(turns):
        return None
    calls = turns[error.turn].calls
    return calls[error.call_index] if 0 <= error.call_index < len(calls) else None


def calls_before(error: ErrorTurn, turns: Sequence[PastTurn]) -> list[PastCall]:
    """Every call before the one in question, in order."""
    earlier = [call for turn in turns[: error.turn] for call in turn.calls]
    if 0 <= error.turn < len(turns):
        earlier.extend(turns[error.turn].calls[: error.call_index or 0])
    return earlier


def listed(names: Iterable[str], room: int = 220) -> str:
    """Names in a row, as many as there is room for, and how many more there are."""
    every = list(names)
    shown: list[str] = []
    for name in every:
        if shown and len(", ".join([*shown, name])) > room:
            return f"{', '.join(shown)} and {len(every) - len(shown)} more"
        shown.append(name[:room])
    return ", ".join(shown)


# Words that tool names use for the same thing.
_SAME = (
    "search grep find rg lookup query glob",
    "read view open cat show display get load fetch retrieve look",
    "write create save put make",
    "edit replace patch modify update change",
    "bash shell run execute exec terminal command console sh cmd",
    "list ls dir tree files",
    "test tests pytest check",
    "submit finish done complete end stop answer",
    "delete remove drop rm",
    "send post message mail",
)
_SPELLED = 0.75
"""How alike two words are when one is the other, mistyped: ``delete`` is no ``date`` (0.6)."""
_GROUPS = {word: number for number, words in enumerate(_SAME) for word in words.split()}


def nearest_name(name: str, known: Sequence[str], cutoff: float = 0.6) -> str:
    """The known name that is spelled most alike, else the one that means most the same; '' when none does.

    What a tool does must be alike, not only what it does it to: ``close_truck`` is no ``weigh_truck``, and no
    ``truck_close`` a ``truck_weigh``.
    """
    for other in difflib.get_close_matches(name, known, n=5, cutoff=cutoff):
        if _alike(name, other):
            return other
    wanted = _meanings(name)
    shared = {other: wanted & _meanings(other) for other in known}
    scored = [(len(same), other) for other, same in shared.items() if any(isinstance(each, int) for each in same)]
    best = max((score for score, _ in scored), default=0)
    return next((other for score, other in scored if score == best), "")


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def _alike(name: str, other: str) -> bool:
    """Whether every word of ``other`` is spelled like one of ``name``, or means the same."""
    words = _words(name)
    groups = {_GROUPS[word] for word in words if word in _GROUPS}
    return all(
        _GROUPS.get(word) in groups or difflib.get_close_matches(word, words, n=1, cutoff=_SPELLED)
        for word in _words(other)
    )


def _meanings(name: str) -> set[str | int]:
    return {_GROUPS.get(word, word) for word in _words(name)}
