"""Candidate texts: JSON lines with ``id`` and ``text``, each for one error turn (``place``) or for all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import RunError
from ...models import Hint
from ..runs.reader import Stored
from ..snapshots.store.cache import write_whole
from .fork_points import every_place
from .hint_policy import arm_of

_FORM = (
    'write {"id": "...", "text": "..."} on each line, each id once; "place" (as in trials.jsonl) makes it a candidate '
    "at that error turn alone"
)


@dataclass(frozen=True)
class Text:
    """A candidate. ``place`` names the error turn that it is for ('': every one)."""

    hint: Hint
    place: str = ""

    @property
    def id(self) -> str:
        """Return the name of the candidate."""
        return arm_of(self.hint)

    def row(self) -> dict[str, str]:
        """Return the fields of its line."""
        return {"id": self.id, "text": self.hint.text, "source": self.hint.source, "place": self.place}


def add_texts(episodes: Sequence[Stored], texts: Iterable[Text]) -> None:
    """Append candidates to the hints of their error turns; an error turn without hints gets its first one.

    Raises RunError for a candidate without an error turn, and for a name that is used twice.
    """
    places = every_place(episodes)
    by_name = {place.name: [place] for place in places}
    for text in texts:
        if text.place and text.place not in by_name:
            raise RunError(f"the text {text.id!r} is for an error turn that the run does not have: {text.place}")
        for place in by_name[text.place] if text.place else places:
            if text.id in place.hints():
                raise RunError(f"{place.name} has a hint named {text.id!r} already; give the text another id")
            place.error.hints.append(text.hint.model_copy())


def read_texts(path: Path) -> list[Text]:
    """Return the candidates in a file. Raises RunError."""
    texts: dict[tuple[str, str], Text] = {}
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}; `etude hints write` makes such a file") from None
    for number, line in enumerate(lines, start=1):
        text = _read(line)
        if text is None or (text.id, text.place) in texts:
            raise RunError(f"{path}:{number}: {_FORM}")
        texts[text.id, text.place] = text
    if not texts:
        raise RunError(f"{path} holds no text; `etude hints write` makes such a file")
    return list(texts.values())


def write_texts(path: Path, texts: Iterable[tuple[Text, dict[str, Any]]]) -> None:
    """Write each text on a line, with the further fields that belong to it."""
    lines = [json.dumps({**text.row(), **about}, ensure_ascii=False) + "\n" for text, about in texts]
    write_whole(path, "".join(lines).encode())


def digest(texts: Iterable[Text]) -> str | None:
    """Return a hash that is the same for the same candidates in any order, None without any."""
    rows = sorted(json.dumps(text.row()) for text in texts)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:12] if rows else None


def _read(line: bytes) -> Text | None:
    """Return the candidate on a line, None for any other line."""
    try:
        row = json.loads(line)
        name, text, place = row["id"], row["text"], row.get("place", "")
        source = row.get("source", "template")
        hint = Hint(text=text, source=source, template="" if name == source else name)
    except (ValueError, KeyError, TypeError, AttributeError):  # pydantic's ValidationError is a ValueError
        return None
    return Text(hint, place) if name and text.strip() and isinstance(place, str) else None
