"""What every environment answers in the same words."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

NOT_RUN = "not run: episode ended"
NO_CALL = (
    "No tool call in this turn. Call a tool; call submit when you are done. A second turn without one ends the episode."
)


def unknown_tool(name: str, names: Sequence[str]) -> str:
    """The nearest name, and all that there are."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    guess = f"; did you mean {near[0]!r}?" if near else "."
    return f"there is no tool {name!r}{guess} The tools are: {', '.join(names)}"
