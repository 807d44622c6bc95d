"""ErrorTurns of an episode in which the environment itself made calls fail."""

from __future__ import annotations

from typing import Any

from .. import hints
from ..models import Episode, ErrorTurn


def annotated(episode: Episode) -> list[ErrorTurn]:
    """The episode's ErrorTurns, with what was injected marked; for a host as well, from a stored episode.

    Calls are named by place: their ids are the agent's choice, and it may use one again.
    """
    injected = {f"{fault.turn}:{fault.call_index}": fault.text for fault in episode.injected}
    return hints.annotate(hints.transcript(episode), tools_now(episode), injected=injected)


def tools_now(episode: Episode) -> list[dict[str, Any]]:
    """The tools as the agent has them at the end of the episode: faults may have changed those of the reset."""
    changed = [fault.tools for fault in episode.injected if fault.tools is not None]
    return changed[-1] if changed else episode.tools
