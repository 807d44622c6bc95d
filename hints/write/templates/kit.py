"""What all templates use: hints of bounded length, quotes, nearest names, the tools' schemas, the call in question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....models import ErrorTurn, Hint
from ....registry import nearest_name as nearest_name
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
