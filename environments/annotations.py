"""ErrorTurns of an episode, from its stored record alone: every environment and any host make the same ones."""

from __future__ import annotations

from typing import Any

from .. import hints
from ..models import Episode, ErrorTurn
from .grading.collect import UNCOLLECTED


class Annotations:
    """Annotations of a running episode, made on request, because making them takes longer than most turns.

    The session may add turns to the episode and, at its end, the outcome; it never changes a turn.
    """

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._made_at: tuple[int, str | None] = (0, None)

    def error_turns(self) -> list[ErrorTurn]:
        """Return the ErrorTurns of the episode so far."""
        episode = self._episode
        now = len(episode.turns), episode.end  # the end brings the diff, which says what was changed
        if self._made_at != now:
            episode.error_turns, self._made_at = annotated(episode), now
        return episode.error_turns

    def episode(self) -> Episode:
        """Return an annotated copy of the episode."""
        episode = self._episode
        lists = {"turns": list(episode.turns), "injected": list(episode.injected)}
        return episode.model_copy(update={**lists, "error_turns": list(self.error_turns())})


def annotated(episode: Episode) -> list[ErrorTurn]:
    """Return the episode's ErrorTurns, those from injected faults marked.

    Calls are identified by place: their ids are the agent's choice, and it may use one twice. A hint knows the tools as
    they were where it belongs, not as later faults changed them.
    """
    changes = [fault for fault in episode.injected if fault.tools is not None]
    if not changes:
        return _annotated_with(episode, episode.tools)
    versions = [episode.tools, *(fault.tools or [] for fault in changes)]
    annotations = [_annotated_with(episode, tools) for tools in versions]
    for error in annotations[-1]:
        site = error.turn + (error.site == "recovery")
        version = annotations[sum(fault.turn < site for fault in changes)]
        error.hints = next((other.hints for other in version if _place(other) == _place(error)), error.hints)
    return annotations[-1]


def _annotated_with(episode: Episode, tools: list[dict[str, Any]]) -> list[ErrorTurn]:
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
    """Return the paths in the frozen diff, None without a diff and for a diff that lacks some changes."""
    if episode.sandbox is None or episode.end in (None, "closed"):
        return None
    paths = [change.path for change in episode.diff]
    return None if UNCOLLECTED in paths else paths


def tools_now(episode: Episode) -> list[dict[str, Any]]:
    """Return the tools as the agent has them at the end of the episode: faults may have changed those of the reset."""
    changed = [fault.tools for fault in episode.injected if fault.tools is not None]
    return changed[-1] if changed else episode.tools
