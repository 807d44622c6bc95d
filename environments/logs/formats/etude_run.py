"""Runs of Etude: the ``episodes.jsonl`` of ``etude run``, and of ``etude annotate`` itself."""

from __future__ import annotations

from collections.abc import Iterator

from ...runs.reader import stored_of
from ..log_file import LogFile
from ..record import LogEpisode, LogFormat, mapping


def matches(log: LogFile) -> bool:
    """Return whether the lines are episodes of Etude."""
    return any({"episode_id", "task_id", "turns", "prompt"} <= set(mapping(value)) for value in log.sample())


def episodes(log: LogFile) -> Iterator[LogEpisode]:
    """Yield the stored episodes. A line that is not an episode is added to ``log.broken``."""
    for entry in log.entries():
        stored = stored_of(entry.value) if isinstance(entry.value, dict) else None
        if stored is None:
            log.broken.append(f"{log.path}:{entry.place.removeprefix('line ')} is not an episode")
        else:
            yield LogEpisode([], entry.place, stored=stored)


FORMAT = LogFormat(matches, episodes)
