"""Kept episodes, so that others can start from the middle of them.

One store serves all sessions of a process. An episode is kept under its id and the token of the session that played it,
the token that also opens ``/episodes/{id}``: forking an episode of another session takes that token. The least recently
used episode is forgotten first; nothing outlives the process.
"""

from __future__ import annotations

import functools
import logging
import os
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

from ..errors import EpisodeNotKept, SandboxError
from ..models import InjectedFault, Task, Turn
from .faults.injector import Injector
from .sandbox import MIB, SavedLayer
from .wire_values import memory_of

log = logging.getLogger(__name__)

_ENV = "ETUDE_KEEP_MB"
_DEFAULT_MB = 512
_SHARE = 4
"""One episode may take a quarter of the store."""


@dataclass(frozen=True)
class Point:
    """The state before a turn: that of the world (such as a sandbox), and that of the session."""

    silent: int = 0
    """Turns without a call just before."""
    tokens: int = 0
    is_saved: bool = True
    """Whether the state of the world is known; else it is reached by playing the actions again."""
    layer: SavedLayer | None = None
    """The saved writable layer; None where the saved state is a fresh one."""
    injector: Injector | None = None
    """The fault injector as it was then; None in an episode without injected faults."""
    stated: tuple[InjectedFault, ...] = ()
    """The faults that the environment itself has stated so far."""


@dataclass(eq=False)
class KeptEpisode:
    """One episode that others can start from. Only the store changes it."""

    episode_id: str
    token: str
    task: Task
    tools: list[str]
    seed: int
    backend: str = ""
    """Sandbox backend that its layers were saved by; '' without a sandbox."""
    turns: list[Turn] = field(default_factory=list)
    points: list[Point] = field(default_factory=lambda: [Point()])
    """``points[t]`` is the state before turn t."""
    written: int = 0
    """Bytes that it added to the store."""
    full: bool = False
    """Whether it may add no more states."""

    def nearest(self, turn: int, backend: str) -> int:
        """Return the last turn up to ``turn`` before which the state is kept for this sandbox backend; 0 always is."""
        if backend != self.backend:
            return 0
        return next(t for t in range(min(turn, len(self.points) - 1), -1, -1) if self.points[t].is_saved)


class EpisodeStore:
    """Store of kept episodes, at most ``max_bytes`` (default: ETUDE_KEEP_MB, else 512 MiB; 0 keeps none).

    An episode over a quarter of the bytes keeps no further states: forks of it play the rest of the actions again.
    Safe for use by several threads.
    """

    def __init__(self, max_bytes: int | None = None, max_episodes: int = 4096, prefix: str = "") -> None:
        """Make an empty store; the tokens of its sessions begin with ``prefix``. Raises ValueError."""
        self._max_bytes = _bytes_from_environment() if max_bytes is None else max_bytes
        self._max_episodes = max_episodes
        self._prefix = prefix
        self._lock = threading.Lock()
        self._episodes: OrderedDict[tuple[str, str], KeptEpisode] = OrderedDict()
        # Layers by identity: turns that wrote nothing share one, and so do forks.
        self._holders: Counter[int] = Counter()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """Return about how many bytes all kept episodes take."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._episodes)

    def new_token(self) -> str:
        """Return the token of a new session."""
        return self._prefix + secrets.token_hex(16)

    def keeps(self, episode: KeptEpisode) -> bool:
        """Return whether further states of a running episode are worth saving."""
        return not episode.full and self._has(episode)

    def begin(self, episode: KeptEpisode) -> KeptEpisode:
        """Keep a new episode and return it; one of the same id and token is forgotten."""
        with self._lock:
            self._enter(episode)
        return episode

    def fork(self, source: str, source_token: str, turn: int | None, episode_id: str, token: str) -> KeptEpisode:
        """Keep and return a new episode with the past of ``source`` before ``turn`` (None: all of it).

        Raises EpisodeNotKept.
        """
        with self._lock:
            past = self._episodes.get((source, source_token))
            if past is None:
                raise EpisodeNotKept(
                    f"no episode {source[:80]!r} is kept for this token: give token= of the session that played it "
                    f"(its state has it), or, when it is forgotten (see {_ENV}), replay= with its actions"
                )
            self._episodes.move_to_end((source, source_token))
            played = len(past.turns)
            turn = played if turn is None else turn
            if not 0 <= turn <= played:
                raise EpisodeNotKept(f"episode {source[:80]!r} has played {played} turns: turn must be 0 to {played}")
            episode = replace(
                past,
                episode_id=episode_id,
                token=token,
                turns=past.turns[:turn],
                points=past.points[: turn + 1],
                written=0,
                full=False,
            )
            self._enter(episode)
            return episode

    def cut(self, episode: KeptEpisode, turn: int, backend: str) -> None:
        """Drop the past of a new episode from ``turn`` on: its session plays that again, on this sandbox backend."""
        with self._lock:
            turns, points = episode.turns[turn:], episode.points[turn + 1 :]
            del episode.turns[turn:], episode.points[turn + 1 :]
            episode.backend = backend
            if self._has(episode):
                self._release(turns, points)

    def add(self, episode: KeptEpisode, turn: Turn, after: Point | None) -> None:
        """Add a turn, and the state ``after`` it unless the episode is over."""
        with self._lock:
            layer = after.layer if after is not None else None
            if after is not None and layer is not None and id(layer) not in self._holders:
                # The size of a later layer leaves out what it shares with this one, so after a refusal none is kept.
                episode.full = episode.full or episode.written + layer.size > self._max_bytes // _SHARE
                if episode.full or not self._has(episode):
                    layer.close()
                    after = replace(after, is_saved=False, layer=None)
                else:
                    episode.written += layer.size
            if not self._has(episode):
                return
            points = [] if after is None else [after]
            episode.turns.append(turn)
            episode.points += points
            self._hold([turn], points)
            self._episodes.move_to_end((episode.episode_id, episode.token))
            self._shrink()

    async def with_state(
        self, episode: KeptEpisode, point: Point, wrote: bool, save: Callable[[], Awaitable[SavedLayer | None]]
    ) -> Point:
        """Return ``point`` with the state of the world after a turn, as far as it can be kept.

        ``wrote`` says whether the turn may have changed the world; ``save`` saves its state, or returns None where an
        environment cannot. What is not kept is reached by playing the actions again.
        """
        before, unknown = episode.points[-1], replace(point, is_saved=False, layer=None)
        if not self.keeps(episode):
            return unknown
        if before.is_saved and not wrote:
            return replace(point, is_saved=True, layer=before.layer)
        try:
            layer = await save()
        except (ValueError, SandboxError) as error:  # too large, or a failing machine, which the next call reports
            log.debug("no state is kept: %s", error)
            return unknown
        return unknown if layer is None else replace(point, is_saved=True, layer=layer)

    def _has(self, episode: KeptEpisode) -> bool:
        return self._episodes.get((episode.episode_id, episode.token)) is episode

    def _enter(self, episode: KeptEpisode) -> None:
        if self._max_bytes <= 0:
            return
        key = (episode.episode_id, episode.token)
        self._hold(episode.turns, episode.points)
        if key in self._episodes:
            self._forget(key)
        self._episodes[key] = episode
        self._shrink()

    def _shrink(self) -> None:
        while self._episodes and (self._bytes > self._max_bytes or len(self._episodes) > self._max_episodes):
            self._forget(next(iter(self._episodes)))

    def _forget(self, key: tuple[str, str]) -> None:
        episode = self._episodes.pop(key)
        self._release(episode.turns, episode.points)

    def _hold(self, turns: Iterable[Turn], points: Iterable[Point]) -> None:
        self._bytes += sum(map(memory_of, turns))
        for layer in [point.layer for point in points if point.layer is not None]:
            self._bytes += 0 if id(layer) in self._holders else layer.size
            self._holders[id(layer)] += 1

    def _release(self, turns: Iterable[Turn], points: Iterable[Point]) -> None:
        self._bytes -= sum(map(memory_of, turns))
        for layer in [point.layer for point in points if point.layer is not None]:
            self._holders[id(layer)] -= 1
            if not self._holders[id(layer)]:
                del self._holders[id(layer)]
                self._bytes -= layer.size
                layer.close()


@functools.cache
def shared_store() -> EpisodeStore:
    """Return the store of the process, for sessions that were not given one."""
    return EpisodeStore()


def _bytes_from_environment() -> int:
    """Return the size that ETUDE_KEEP_MB sets, in bytes. Raises ValueError."""
    text = os.environ.get(_ENV, str(_DEFAULT_MB))
    if not text.isdigit():
        raise ValueError(f"{_ENV} is {text!r}: give a number of MiB, 0 to keep nothing")
    return int(text) * MIB
