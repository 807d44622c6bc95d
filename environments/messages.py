"""What every environment answers in the same words."""

from __future__ import annotations

from collections.abc import Sequence

from ..registry import nearest_name

NOT_RUN = "not run: episode ended"
NO_CALL = (
    "No tool call in this turn. Call a tool; call submit when you are done. A second turn without one ends the episode."
)


def unknown_tool(name: str, names: Sequence[str]) -> str:
    """The nearest name that does the same, and all that there are."""
    near = nearest_name(name, names)
    guess = f"; did you mean {near!r}?" if near else "."
    return f"there is no tool {name!r}{guess} The tools are: {', '.join(names)}"
