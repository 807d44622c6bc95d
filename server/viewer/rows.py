"""Rows of the viewer's list: what is known of an episode before it is opened, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ...environments.runs.reader import Stored
from ...environments.tasks.static_features import TaskFeatures
from .safe_text import one_line
from .views import EpisodeView

MARKS = {"ok": "o", "error": "e", "fault": "f"}
"""Letters of the strip that shows the course of an episode: one for each turn."""
MAX_FINDINGS = 20
SEARCHED = 240
"""Characters of the prompt, and of each error's message, that the search of the list looks at."""
_ROOM = 100_000


@dataclass(frozen=True)
class Origin:
    """Place of an episode in the viewer: the number of its run, and its number there; both count from 0."""

    run: int
    number: int
    features: TaskFeatures | None = None
    """Features of the task, where the run recorded them."""

    @property
    def id(self) -> str:
        """Return the episode's id in the viewer, which deep links hold."""
        return f"{self.run}.{self.number}"


def row_of(stored: Stored, origin: Origin) -> dict[str, Any]:
    """Return the row of an episode."""
    episode = stored.episode
    view = EpisodeView(origin.number, "", stored, None, _ROOM)
    return {
        "id": origin.id,
        "run": origin.run,
        "number": origin.number,
        "agent": view.agent,
        "model": _model(stored),
        "task": view.task,
        "generator": "" if origin.features is None else one_line(origin.features.generator, 60),
        "sample": stored.sample,
        "value": view.value,
        "void": view.is_void,
        "turns": len(episode.turns),
        "strip": "".join(MARKS[mark] for mark in view.marks),
        "kinds": view.kinds,
        "errors": len(episode.error_turns),
        "recovered": view.recovered,
        "hints": sum(len(error.hints) for error in episode.error_turns),
        "faults": len(episode.injected),
        "findings": [[one_line(f.exploit_id, 60), f.severity] for f in episode.findings[:MAX_FINDINGS]],
        "end": view.end,
        "running": episode.end is None and stored.log is None and episode.reward is None,
        "seconds": round(episode.seconds, 3) if view.has_time else None,
        "tokens": _tokens(stored.usage),
        "usd": _amount(stored.usage.get("usd")),
        "step": _step(stored.settings),
        "fork": None if episode.fork is None else [one_line(episode.fork.episode_id, 80), episode.fork.turn],
        "with": one_line(str(stored.settings.get("hint") or ""), 200),
        "episode": one_line(episode.episode_id, 80),
        "text": _searched(stored),
    }


def _model(stored: Stored) -> str:
    """Return the model that played; empty for a scripted agent."""
    name = stored.settings.get("model") or (stored.agent.partition(":")[2] if ":" in stored.agent else "")
    return one_line(str(name), 80)


def _tokens(usage: Mapping[str, Any]) -> list[float] | None:
    """Return the tokens that the agent's model read and wrote; None where no model was asked."""
    read, wrote = (_amount(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    return None if read is None or wrote is None else [read, wrote]


def _amount(value: Any) -> float | None:
    """Return a number of a run's file that is one, and may be added; None for anything else."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) and value >= 0
    return float(value) if number else None


def _step(settings: Mapping[str, Any]) -> int | None:
    """Return the step of the training run that played the episode."""
    step = settings.get("step")
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def _searched(stored: Stored) -> str:
    """Return text that the search finds, besides what the row shows."""
    episode = stored.episode
    errors = [one_line(error.message, SEARCHED) for error in episode.error_turns[:4]]
    return " ".join([one_line(episode.prompt, SEARCHED), *errors, one_line(stored.cause, SEARCHED)]).strip()
