"""Arguments of ``reset``: one record for every environment and every wire, and the choice of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import SessionError, UnknownName
from ..models import Task
from ..registry import did_you_mean
from .tasks.task_set import Tasks
from .tool_protocol import RESTRICTED
from .wire_values import plain

ANNOTATE = ("state", "observation")
"""Where annotations are shown: in the state alone, or in the agent's observations too."""

_MUST_BE = {
    "seed": "an integer",
    "episode_id": "1 to 255 printable characters",
    "index": "an integer",
    "replay": "a list of actions, each a JSON object",
    "turn": "a number of turns",
    "annotate": "'state' or 'observation'",
    "tools": "a list of tool names, or 'restricted'",
}
_REPLACED_BY_FORK = ("task_id", "split", "index", "seed", "replay", "tools", "faults")


class ResetArgs(BaseModel):
    """Checked arguments of ``reset``: which task is played, from which state, and who sees annotations.

    The task is ``task_id``, or ``index`` in ``split``, or the task of ``fork_of``; else the seed draws one.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    seed: int | None = None
    """Seed of the episode, which also draws the task when none is named; default: random."""
    episode_id: str | None = Field(default=None, pattern=r"^[^\x00-\x1f\x7f]{1,255}$")
    """Id of the episode; default: a random one."""
    task_id: str | None = None
    """Id of the task."""
    split: str | None = None
    """Split that ``index`` counts in, or that the seed draws from."""
    index: int | None = None
    """Number of the task in ``split``, from 0."""
    replay: list[dict[str, Any]] | None = None
    """Actions that are played first; their messages are in the first observation, in order."""
    fork_of: str | None = None
    """Id of a kept episode: start as if its actions had been played, with its task, tools and faults."""
    turn: int | None = None
    """Turn of ``fork_of`` before which the fork starts; default: after its last turn."""
    token: str | None = None
    """Token of the session that played ``fork_of``, when that is another session."""
    annotate: Literal["state", "observation"] | None = None
    """Where annotations are shown; default: the session's setting."""
    tools: list[str] | None = None
    """Names of the tools that the agent gets; default: the session's setting.

    ``restricted``, among them or alone as a text, is a shell without programs such as find (``coding.restricted``).
    """
    faults: str | None = None
    """Schedule of injected faults (see ``faults.schedule``); default: the session's setting."""

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> ResetArgs:
        """Check named arguments; those that are null count as absent. Raises SessionError for the first bad one."""
        for name in arguments:
            if name not in cls.model_fields:
                raise SessionError(f"reset: {did_you_mean('argument', name[:100], cls.model_fields)}")
        present = {name: _as_json(name, value) for name, value in arguments.items() if value is not None}
        try:
            checked = cls.model_validate(plain(present))
        except ValidationError as error:
            name = str(error.errors(include_url=False)[0]["loc"][0])
            shown = repr(arguments[name])
            shown = shown if len(shown) <= 60 else shown[:57] + "..."
            raise SessionError(f"reset: {name} must be {_MUST_BE.get(name, 'a string')}, got {shown}") from None
        checked._check_fork()
        return checked

    def present(self) -> dict[str, Any]:
        """Return the arguments that are not absent, by name."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}

    def _check_fork(self) -> None:
        """Raise SessionError for arguments that contradict each other."""
        if self.fork_of is None:
            for name in ("turn", "token"):
                if getattr(self, name) is not None:
                    raise SessionError(f"reset: {name} needs fork_of=, the id of the episode to fork")
            return
        for name in _REPLACED_BY_FORK:
            if getattr(self, name) is not None:
                raise SessionError(
                    f"reset: give fork_of or {name}, not both: a fork has its episode's task, tools, turns and faults"
                )


def choose_task(tasks: Tasks, arguments: ResetArgs, seed: int) -> Task:
    """Return the task that the arguments name, else one that the seed draws. Raises SessionError."""
    task_id, split, index = arguments.task_id, arguments.split, arguments.index
    try:
        if task_id is not None:
            if split is not None or index is not None:
                raise SessionError("reset: give task_id, or split and index, not both")
            return tasks.by_id(task_id)
        if not len(tasks):
            raise SessionError("the task set is empty; make tasks with `etude generate`, serve them with --tasks")
        if index is None:
            return tasks.draw(split, seed)
        split = split or tasks.default_split
        if split is None:
            raise SessionError(f"reset: index needs a split: give one of {', '.join(tasks.list_splits())}")
        return tasks.get_task(split, index)
    except (UnknownName, IndexError) as error:
        raise SessionError(str(error)) from None


def _as_json(name: str, value: Any) -> Any:
    """Return sequences as lists and mappings as dicts one level deep, as callers in Python may give others."""
    if isinstance(value, tuple):
        value = list(value)
    if value == RESTRICTED and name == "tools":
        return [RESTRICTED]
    if isinstance(value, list):
        return [dict(item) if isinstance(item, Mapping) else item for item in value]
    return value
