"""An episode as a format's reader returns it, the interface of a format, and safe access to untrusted JSON values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...hints.transcript.parsing import clean
from ..runs.reader import Stored
from .log_file import LogFile

Message = dict[str, Any]
"""A message in OpenAI's shape; a ``tool`` message may carry ``is_error``."""


@dataclass
class LogEpisode:
    """One episode of a log."""

    messages: list[Message]
    """The whole conversation, in order."""
    place: str
    """Place in the file, such as ``line 3``."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    """Schemas of the agent's tools; empty when the log has none."""
    task_id: str = ""
    """The log's name of the task; empty when it has none."""
    episode_id: str = ""
    """The log's id of the episode; empty when it has none."""
    agent: str = ""
    """The model or the agent."""
    reward: float | None = None
    """The log's reward or score; None when it has none."""
    scores: dict[str, float] = field(default_factory=dict)
    """Parts of the reward by name."""
    end: str = ""
    """The log's word for how the episode ended; empty when it has none."""
    is_cut_by_limit: bool = False
    """Whether a limit of turns, tokens or time ended the episode."""
    seconds: float = 0.0
    stored: Stored | None = None
    """The record, where the log is a run of Etude."""


@dataclass(frozen=True)
class LogFormat:
    """A format of logs; the docstring of its module describes it in `etude list log-formats`."""

    matches: Callable[[LogFile], bool]
    """Function that says, from the content alone, whether a file has this format."""
    episodes: Callable[[LogFile], Iterable[LogEpisode]]
    """Function that reads the episodes of a file; values of unexpected types are skipped, never an error."""
    companions: Callable[[Path], list[Path]] = lambda path: []
    """Function that returns other files of the same log, such as those of sub-agents."""


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value when it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list; an empty list for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def string(value: Any) -> str:
    """Return a string or a number as text without lone surrogates; empty for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return clean(value) if isinstance(value, str) else str(value)


def number(value: Any) -> float | None:
    """Return a finite number; a boolean is 1 or 0; None for anything else."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def numbers(value: Any) -> dict[str, float]:
    """Return the entries of an object whose values are finite numbers."""
    return {string(name): as_number for name, item in mapping(value).items() if (as_number := number(item)) is not None}


def tool_schemas(value: Any) -> list[dict[str, Any]]:
    """Return the tools in a list of schemas, in any of the shapes that ``hints`` reads."""
    return [dict(tool) for tool in objects(value)]


def rows(log: LogFile) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a file with their places: its lines, or the items of its one list."""
    for entry in log.entries():
        if isinstance(entry.value, list):
            for index, item in enumerate(entry.value):
                if isinstance(item, Mapping):
                    yield f"item {index}", item
        elif isinstance(entry.value, Mapping):
            yield entry.place, entry.value
