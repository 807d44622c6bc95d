"""Hint for a file that is read a second time without a change."""

from __future__ import annotations

from ....models import Hint
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote


def hint(context: ErrorContext) -> Hint | None:
    """Name the turn that already shows the file."""
    if context.behaviour != "reread":
        return None
    path, _, after = context.detail.partition(" was read in ")
    turn = after.partition(" and ")[0]
    return make_hint(
        "reread",
        f"{quote(path, 120)} is already shown in {turn}, and no call wrote to it since: look there.",
        "Read only lines that you have not seen.",
    )
