"""How an episode starts: the arguments of ``reset``, checked, before anything is touched."""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import EpisodeNotKept, SessionError, UnknownName
from ..models import Task
from ..registry import did_you_mean
from .coding.tools import TOOLS
from .forks import EpisodeStore, KeptEpisode
from .sandbox import WORKSPACE
from .tasks.task_set import Tasks

HOWS = ("state", "observation")
"""Where annotations are told: to whoever asks for the state, or to the agent too."""


@dataclass(frozen=True)
class Start:
    """A checked reset: the episode as the store keeps it, with the past of a fork, and the actions to play first."""

    episode: KeptEpisode
    annotate: str
    actions: list[dict[str, Any]] = field(default_factory=list)
    fork_of: str | None = None


@dataclass(frozen=True)
class Defaults:
    """What a session says where ``reset`` does not."""

    annotate: str
    tools: list[str]
    token: str


def start(tasks: Tasks, store: EpisodeStore, defaults: Defaults, given: Mapping[str, Any]) -> Start:
    """Check what ``reset`` was given. Raises SessionError for the first thing that makes no sense."""
    how = given.get("annotate") or defaults.annotate
    if how not in HOWS:
        raise SessionError(f"annotate must be 'state' or 'observation', got {how!r}")
    episode_id = given.get("episode_id")
    if episode_id is not None and not re.fullmatch(r"[^\x00-\x1f\x7f]{1,255}", episode_id):
        raise SessionError("episode_id must be 1 to 255 printable characters")
    episode_id = episode_id or uuid.uuid4().hex
    if given.get("fork_of") is not None:
        return _fork(store, defaults, episode_id, how, given)
    for name in ("turn", "token"):
        if given.get(name) is not None:
            raise SessionError(f"{name} needs fork_of=, the episode to fork")
    names = defaults.tools if given.get("tools") is None else tool_names(given["tools"])
    actions = _actions(given.get("replay"))
    seed = secrets.randbits(32) if given.get("seed") is None else given["seed"]
    task = choose(tasks, given.get("task_id"), given.get("split"), given.get("index"), seed)
    return Start(store.begin(KeptEpisode(episode_id, defaults.token, task, names, seed)), how, actions)


def _fork(store: EpisodeStore, defaults: Defaults, episode_id: str, how: str, given: Mapping[str, Any]) -> Start:
    for name in ("task_id", "split", "index", "seed", "replay", "tools"):
        if given.get(name) is not None:
            raise SessionError(f"give fork_of or {name}, not both: a fork has its episode's task, tools and turns")
    source, token, turn = given["fork_of"], given.get("token"), given.get("turn")
    if turn is not None and (not isinstance(turn, int) or isinstance(turn, bool)):
        raise SessionError(f"turn must be a number of turns, got {turn!r}")
    try:
        kept = store.fork(source, defaults.token if token is None else token, turn, episode_id, defaults.token)
    except EpisodeNotKept as error:
        raise SessionError(str(error)) from None
    return Start(kept, how, fork_of=source)


def choose(tasks: Tasks, task_id: str | None, split: str | None, index: int | None, seed: int) -> Task:
    """The task that was asked for. Raises SessionError."""
    try:
        if task_id is not None:
            if split is not None or index is not None:
                raise SessionError("give task_id, or split and index, not both")
            return tasks.by_id(task_id)
        if not len(tasks):
            raise SessionError("there are no tasks: make some with `etude generate`, serve them with --tasks")
        splits = tasks.list_splits()
        if index is not None:
            if split is None and len(splits) > 1:
                raise SessionError(f"index needs a split: one of {', '.join(splits)}")
            return tasks.get_task(split or splits[0], index)
        return tasks.draw(split, seed)
    except (UnknownName, IndexError) as error:
        raise SessionError(str(error)) from None


def tool_names(names: Sequence[str] | None) -> list[str]:
    """The tools' names in their own order (None: all). Raises SessionError for an unknown one."""
    if names is None:
        return list(TOOLS)
    for name in names:
        if name not in TOOLS:
            raise SessionError(did_you_mean("tool", str(name), TOOLS))
    return [name for name in TOOLS if name in names]


def _actions(replay: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    if replay is None:
        return []
    if isinstance(replay, (str, bytes)) or not all(isinstance(action, Mapping) for action in replay):
        raise SessionError("replay must be a list of actions, each a JSON object")
    return [dict(action) for action in replay]


def prompt(task: Task, names: Sequence[str]) -> str:
    """The statement and the rules, all that the agent is told."""
    submit = "When you are done, call submit: it ends the episode, and hidden tests grade the workspace as it is then."
    rules = [
        f"Your workspace is {WORKSPACE}; paths are relative to it. There is no network, and pip cannot install.",
        f"You have the tools {', '.join(names)}. Each result starts with a status line: ok, exit N, timeout or error.",
        "Change source files only. Tests and configuration are graded as they were, whatever you do to them.",
        submit if "submit" in names else "A turn without a tool call, twice in a row, ends the episode.",
    ]
    return task.problem_statement.rstrip() + "\n\n---\n\n" + "\n".join(f"- {rule}" for rule in rules) + "\n"
