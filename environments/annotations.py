"""ErrorTurns of an episode, as its environment and any host make them: from the stored record alone."""

from __future__ import annotations

from typing import Any

from .. import hints
from ..models import Episode, ErrorTurn

UNTOLD = "..."
"""A refused entry of a diff that stands for changes that were not collected."""


class Annotations:
    """A running episode's annotations, made when they are asked for: that takes longer than most turns.

    Its session adds turns, and at the end what is known then, but changes no turn.
    """

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._of: tuple[int, str | None] = (0, None)

    def error_turns(self) -> list[ErrorTurn]:
        episode = self._episode
        now = len(episode.turns), episode.end  # with the end comes the diff, which tells what was changed
        if self._of != now:
            episode.error_turns, self._of = annotated(episode), now
        return episode.error_turns

    def episode(self) -> Episode:
        """A copy, annotated."""
        episode = self._episode
        lists = {"turns": list(episode.turns), "injected": list(episode.injected)}
        return episode.model_copy(update={**lists, "error_turns": list(self.error_turns())})


def annotated(episode: Episode) -> list[ErrorTurn]:
    """The episode's ErrorTurns, with what was injected marked; for a host as well, from a stored episode.

    Every environment annotates with this, so that both agree. Calls are named by place: their ids are the agent's
    choice, and it may use one again. A hint knows the tools as they were where it belongs, not what became of them.
    """
    changes = [fault for fault in episode.injected if fault.tools is not None]
    if not changes:
        return _with(episode, episode.tools)
    versions = [_with(episode, episode.tools), *(_with(episode, fault.tools or []) for fault in changes)]
    found = versions[-1]
    for error in found:
        after = error.turn + (error.site == "recovery")
        version = versions[sum(fault.turn < after for fault in changes)]
        error.hints = next((other.hints for other in version if _place(other) == _place(error)), error.hints)
    return found


def _with(episode: Episode, tools: list[dict[str, Any]]) -> list[ErrorTurn]:
    return hints.annotate(
        hints.transcript(episode),
        tools,
        episode.files,
        {f"{fault.turn}:{fault.call_index}": fault.text for fault in episode.injected},
        changed=changed_paths(episode),
    )


def _place(error: ErrorTurn) -> tuple[int, int | None, str]:
    return error.turn, error.call_index, error.kind


def changed_paths(episode: Episode) -> list[str] | None:
    """What the frozen diff says was changed; ``None`` when there is none, or when it does not tell all."""
    if episode.sandbox is None or episode.end in (None, "closed"):
        return None
    paths = [change.path for change in episode.diff]
    return None if UNTOLD in paths else paths


def tools_now(episode: Episode) -> list[dict[str, Any]]:
    """The tools as the agent has them at the end of the episode: faults may have changed those of the reset."""
    changed = [fault.tools for fault in episode.injected if fault.tools is not None]
    return changed[-1] if changed else episode.tools
