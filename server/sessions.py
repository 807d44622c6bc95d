"""OpenEnv's server with session accounting that never ends a live session, and the archive of finished episodes."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any
from weakref import WeakSet

from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import SessionInfo

from ..environments import openenv as wire
from ..environments.wire_values import LeftBehind
from .admission import Admission, client
from .guard import transport
from .store import GradedStore
from .watched import WatchedEnvironment
from .workers.handover import arrival
from .workers.place import Place

log = logging.getLogger(__name__)

HTTP_IDLE_S = 3600.0
"""Seconds after which an unused session over plain HTTP ends: no socket could show that its client is gone."""


class Archive:
    """Finished episodes, the newest ones, bounded in number and bytes.

    Few of them are ever requested, so an episode's JSON is made on request. One that is larger than a quarter of the
    bytes is not stored, because it would drive out the episodes of all other sessions.
    """

    def __init__(self, max_episodes: int = 4096, max_bytes: int | None = None) -> None:
        """Set up the archive; ``max_bytes``: default ETUDE_ARCHIVE_MB, else 256 MiB. Raises ValueError."""
        self._episodes: OrderedDict[tuple[str, str], LeftBehind] = OrderedDict()
        self._max_episodes = max_episodes
        self._max_bytes = _bytes_from_environment() if max_bytes is None else max_bytes
        self._bytes = 0

    def add(self, episode_id: str, token: str, episode: LeftBehind) -> None:
        """Store an episode under its id and the token of its session; the same key replaces."""
        before = self._episodes.pop((episode_id, token), None)
        self._bytes -= before.size if before is not None else 0
        if episode.size > self._max_bytes // 4:
            return
        self._bytes += episode.size
        self._episodes[(episode_id, token)] = episode
        while len(self._episodes) > self._max_episodes or self._bytes > self._max_bytes:
            self._bytes -= self._episodes.popitem(last=False)[1].size

    def find(self, episode_id: str, token: str) -> bytes | None:
        """Return the JSON of an episode. Clients choose the ids, so only the token distinguishes two sessions."""
        for (stored_id, stored_token), episode in self._episodes.items():
            if stored_id == episode_id and _is_same(stored_token, token):
                return json.dumps(episode.served()).encode()
        return None

    def of_token(self, token: str) -> dict[str, LeftBehind]:
        """Return the episodes of the session with this token by their ids, the oldest first."""
        return {
            stored_id: episode
            for (stored_id, stored_token), episode in self._episodes.items()
            if _is_same(stored_token, token)
        }


def _bytes_from_environment() -> int:
    """Return the size that ETUDE_ARCHIVE_MB sets, in bytes. Raises ValueError."""
    text = os.environ.get("ETUDE_ARCHIVE_MB", "256")
    if not text.isdigit():
        raise ValueError(f"ETUDE_ARCHIVE_MB is {text!r}: give a number of MiB, 0 to keep nothing")
    return int(text) << 20


def _is_same(token: str, other: str) -> bool:
    """Compare two tokens in constant time."""
    return hmac.compare_digest(token.encode(), other.encode("utf-8", "replace"))


class SessionServer(HTTPEnvServer):
    """One environment per session.

    A session over a socket ends with its socket: closed, reset, or silent to pings. Only a session over plain HTTP has
    an idle limit, ``http_idle_s`` seconds. OpenEnv's ``session_timeout`` stays off, because it would also end sessions
    whose socket is alive but idle, such as those of a policy that thinks for minutes.
    """

    def __init__(
        self,
        make: Callable[..., wire.EtudeEnvironment],
        *,
        admission: Admission,
        http_idle_s: float = HTTP_IDLE_S,
        place: Place = Place(),
    ) -> None:
        """Set up the server; ``make`` returns an environment and takes ``admit``, a check before its first session.

        The ids of sessions begin with the prefix of ``place``.
        """
        self._make, self.admission, self.place = make, admission, place
        self.on_closed: Callable[[str], None] = lambda client: None
        """Called with the client of each session that has ended."""
        self._stateless: WeakSet[wire.EtudeEnvironment] = WeakSet()
        self._counted: WeakSet[wire.EtudeEnvironment] = WeakSet()  # those that the front of a worker knows of
        super().__init__(
            self._make_stateless,
            wire.Action,
            wire.Observation,
            max_concurrent_envs=admission.limits.sessions,
            env_name="etude",
            state_cls=wire.State,
        )
        self._http_idle_s = http_idle_s
        self._over_http: dict[str, float] = {}  # last use of each session, on the monotonic clock
        self._closing: set[asyncio.Task[None]] = set()
        self._reaper: asyncio.Task[None] | None = None

    @property
    def active(self) -> int:
        """Return the number of open sessions."""
        return len(self._sessions) + sum(environment.open for environment in self._stateless)

    def why_not_ready(self) -> str:
        """Return why no session can be opened now; empty when one can."""
        if self._reaper is None or self.admission.draining:
            return "stopping"
        return "" if self.active < self.max_concurrent_envs else "every session is in use"

    def check_capacity(self) -> None:
        """Raise ServerBusy, which says how to allow more, when the client of the request may not open a session."""
        name = client.get()
        open_ones = [*self._sessions.values(), *(environment for environment in self._stateless if environment.open)]
        arrived = arrival.get()
        elsewhere, of_client = (0, 0) if arrived is None else (arrived.handover.elsewhere, arrived.handover.of_client)
        of_client += sum(getattr(session, "client", "") == name for session in open_ones)
        self.admission.check(self.active + elsewhere, of_client)

    @property
    def playing(self) -> bool:
        """Return whether a session plays an episode that has not ended, or runs a call."""
        environments = [*self._sessions.values(), *self._stateless]
        return any(isinstance(e, WatchedEnvironment) and (e.busy or e.playing) for e in environments)

    async def open(self) -> tuple[str, wire.EtudeEnvironment]:
        """Open a session for another face of the server; return its id and environment. Raises ServerBusy."""
        session_id, environment = await self._create_session()
        assert isinstance(environment, wire.EtudeEnvironment)
        return session_id, environment

    async def end(self, session_id: str) -> None:
        """End a session and archive its episode. Idempotent."""
        if self.has(session_id):
            await self._destroy_session(session_id)

    def has(self, session_id: str) -> bool:
        """Return whether a session runs."""
        return session_id in self._sessions

    def is_own(self, session_id: str) -> bool:
        """Return whether a running session belongs to the client of the request."""
        return getattr(self._sessions.get(session_id), "client", None) == client.get()

    def use(self, session_id: str) -> wire.EtudeEnvironment | None:
        """Return a running session's environment and restart its idle time; None when the session has ended."""
        environment = self._sessions.get(session_id)
        if not isinstance(environment, wire.EtudeEnvironment):
            return None
        self._update_session_activity(session_id)
        return environment

    def _update_session_activity(self, session_id: str, increment_step: bool = False) -> None:
        """Note the use of a session. OpenEnv's own time is that of the wall clock, which may jump."""
        super()._update_session_activity(session_id, increment_step)
        if session_id in self._over_http:
            self._over_http[session_id] = time.monotonic()

    def _make_stateless(self) -> wire.EtudeEnvironment:
        """Make the environment of one request to OpenEnv's stateless routes; it counts once it has a session."""
        environment = self._make(admit=self.check_capacity)
        self._stateless.add(environment)
        return environment

    async def _create_session(self) -> tuple[str, Environment]:
        # Nothing is awaited between the check and the entry, so a client that leaves at once cannot leak its slot.
        self.check_capacity()
        session_id, now = f"{self.place.prefix}{uuid.uuid4()}", time.time()
        environment = self._make()
        self._sessions[session_id] = environment
        self._session_info[session_id] = SessionInfo(
            session_id=session_id, created_at=now, last_activity_at=now, environment_type=type(environment).__name__
        )
        if transport.get() == "http":
            self._over_http[session_id] = time.monotonic()
        if (arrived := arrival.get()) is not None:
            self._counted.add(environment)
            arrived.opened(client.get())
        return session_id, environment

    async def _destroy_session(self, session_id: str) -> None:
        # A separate task removes the sandbox even when the caller is cancelled.
        self._over_http.pop(session_id, None)
        self.admission.ended()
        task = asyncio.create_task(super()._destroy_session(session_id))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        await asyncio.shield(task)

    async def _cleanup_session_resources(
        self,
        env: Environment | None,
        executor: ThreadPoolExecutor | None,
        stack: AsyncExitStack | None = None,
    ) -> None:
        if isinstance(env, wire.EtudeEnvironment):
            if env in self._counted:
                self._counted.discard(env)
                self.on_closed(getattr(env, "client", ""))
            try:
                await env.close_async()
            except Exception:
                log.exception("a session did not close cleanly")

    async def start(self) -> None:
        """Start to end idle sessions."""
        self._reaper = asyncio.create_task(self._reap())

    async def stop(self) -> None:
        """End every session and wait until their sandboxes are removed."""
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        ends = [self._destroy_session(session_id) for session_id in list(self._sessions)]
        await asyncio.gather(*ends, *self._closing, *wire.closing, return_exceptions=True)
        self._executor.shutdown(wait=False)

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(min(60.0, self._http_idle_s / 4))
            await self.reap_once(time.monotonic())

    async def reap_once(self, now: float) -> None:
        """End the HTTP sessions that were not used since ``now``, on the monotonic clock, minus the limit."""
        for session_id, last_use in list(self._over_http.items()):
            if session_id not in self._session_info:  # OpenEnv has ended it
                self._over_http.pop(session_id, None)
                continue
            environment = self._sessions.get(session_id)
            in_use = session_id in self._session_websocket_attachments or getattr(environment, "busy", False)
            if not in_use and now - last_use > self._http_idle_s:
                await self._destroy_session(session_id)

    async def find_episode(
        self, archive: Archive, store: GradedStore | None, episode_id: str, token: str
    ) -> bytes | None:
        """Return the JSON of an episode of the session with ``token``, running or stored; None when there is none."""
        for environment in self._sessions.values():
            if isinstance(environment, wire.EtudeEnvironment) and _is_same(environment.token, token):
                running = environment.served(episode_id)
                if running is not None:
                    return json.dumps(running).encode()
        stored = None if store is None else await asyncio.to_thread(store.find, episode_id, token)
        return stored or archive.find(episode_id, token)

    def running_episode(self, token: str) -> dict[str, Any] | None:
        """Return the running episode of the session with ``token``; None when there is none."""
        for environment in self._sessions.values():
            if isinstance(environment, wire.EtudeEnvironment) and _is_same(environment.token, token):
                return environment.served(environment.state.episode_id or "")
        return None
