"""OpenEnv's server with session accounting that never ends a live session, and the archive of finished episodes."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from weakref import WeakSet

from openenv.core.env_server.exceptions import SessionCapacityError
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import SessionInfo

from ..environments import openenv as wire
from ..environments.wire_values import LeftBehind
from .guard import transport

log = logging.getLogger(__name__)

HTTP_IDLE_S = 3600.0
"""A session opened over plain HTTP has no socket that could show its client dead; unused this long, it ends."""
_SHARE = 4


class Archive:
    """Episodes that were left behind, newest kept; bounded in number and bytes. Few are ever asked for: what is served
    is made then. One over a quarter of the bytes is not kept, or it would drive out everybody else's.
    """

    def __init__(self, max_episodes: int = 4096, max_bytes: int = 256 << 20) -> None:
        self._episodes: OrderedDict[tuple[str, str], LeftBehind] = OrderedDict()
        self._max_episodes = max_episodes
        self._max_bytes = max_bytes
        self._bytes = 0

    def add(self, episode_id: str, token: str, episode: LeftBehind) -> None:
        before = self._episodes.pop((episode_id, token), None)
        self._bytes -= before.size if before is not None else 0
        if episode.size > self._max_bytes // _SHARE:
            return
        self._bytes += episode.size
        self._episodes[(episode_id, token)] = episode
        while len(self._episodes) > self._max_episodes or self._bytes > self._max_bytes:
            self._bytes -= self._episodes.popitem(last=False)[1].size

    def find(self, episode_id: str, token: str) -> bytes | None:
        """Ids are the client's choice, so several sessions may share one; the token tells them apart."""
        left = [(known, episode) for (name, known), episode in self._episodes.items() if name == episode_id]
        found = next((episode for known, episode in left if same_token(known, token)), None)
        return json.dumps(found.served()).encode() if found is not None else None


def same_token(known: str, given: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "replace"))


class SessionServer(HTTPEnvServer):
    """One environment per session.

    OpenEnv's own ``session_timeout`` also ends sessions whose socket is alive but idle (a policy that thinks for long);
    it stays off. A socket's session ends with its socket: closed, reset, or silent to pings. Only sessions opened over
    plain HTTP have an idle limit, ``http_idle_s`` seconds.
    """

    def __init__(
        self,
        make: Callable[..., wire.EtudeEnvironment],
        *,
        max_sessions: int,
        http_idle_s: float = HTTP_IDLE_S,
    ) -> None:
        """``make`` makes an environment and takes ``admit``."""
        self._make = make
        self._loose: WeakSet[wire.EtudeEnvironment] = WeakSet()
        super().__init__(
            self._make_loose,
            wire.Action,
            wire.Observation,
            max_concurrent_envs=max_sessions,
            env_name="etude",
            state_cls=wire.State,
        )
        self._http_idle_s = http_idle_s
        self._over_http: set[str] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._reaper: asyncio.Task[None] | None = None

    def check_capacity(self) -> None:
        """Raises SessionCapacityError that says how to allow more."""
        active = len(self._sessions) + sum(environment.open for environment in self._loose)
        most = self.max_concurrent_envs
        if active >= most:
            raise SessionCapacityError(active, most, f"{active}/{most} sessions in use, set MAX_CONCURRENT_ENVS")

    def environments(self) -> list[wire.EtudeEnvironment]:
        return [env for env in self._sessions.values() if isinstance(env, wire.EtudeEnvironment)]

    async def open(self) -> tuple[str, wire.EtudeEnvironment]:
        """A session for a face of ours, and its id. Raises SessionCapacityError."""
        session_id, environment = await self._create_session()
        assert isinstance(environment, wire.EtudeEnvironment)
        return session_id, environment

    async def end(self, session_id: str) -> None:
        """End a session; its episode goes to the archive. Safe to repeat."""
        if self.has(session_id):
            await self._destroy_session(session_id)

    def has(self, session_id: str) -> bool:
        return session_id in self._sessions

    def use(self, session_id: str) -> wire.EtudeEnvironment | None:
        """A running session's environment, whose idle time starts anew; ``None`` when it has ended."""
        environment = self._sessions.get(session_id)
        if not isinstance(environment, wire.EtudeEnvironment):
            return None
        self._session_info[session_id].last_activity_at = time.time()
        return environment

    def _make_loose(self) -> wire.EtudeEnvironment:
        """For OpenEnv's stateless routes: one environment per request, counted from the moment it holds a session."""
        environment = self._make(admit=self.check_capacity)
        self._loose.add(environment)
        return environment

    async def _create_session(self) -> tuple[str, Environment]:
        # Nothing is awaited between the check and the entry, so a client that leaves at once cannot leak its slot.
        self.check_capacity()
        session_id, now = str(uuid.uuid4()), time.time()
        environment = self._make()
        self._sessions[session_id] = environment
        self._session_info[session_id] = SessionInfo(
            session_id=session_id, created_at=now, last_activity_at=now, environment_type=type(environment).__name__
        )
        if transport.get() == "http":
            self._over_http.add(session_id)
        return session_id, environment

    async def _destroy_session(self, session_id: str) -> None:
        # In a task of its own: the caller may be cancelled, the sandbox must go all the same.
        self._over_http.discard(session_id)
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
            try:
                await env.close_async()
            except Exception:
                log.exception("a session did not close cleanly")

    async def start(self) -> None:
        self._reaper = asyncio.create_task(self._reap())

    async def stop(self) -> None:
        """End every session and wait until their sandboxes are gone."""
        if self._reaper is not None:
            self._reaper.cancel()
        ends = [self._destroy_session(session_id) for session_id in list(self._sessions)]
        await asyncio.gather(*ends, *self._closing, *wire.closing, return_exceptions=True)
        self._executor.shutdown(wait=False)

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(min(60.0, self._http_idle_s / 4))
            await self.reap_once(time.time())

    async def reap_once(self, now: float) -> None:
        """End HTTP sessions that nobody has used since ``now`` minus the limit."""
        for session_id in list(self._over_http & self._session_info.keys()):
            environment = self._sessions.get(session_id)
            used = session_id in self._session_websocket_attachments or getattr(environment, "busy", False)
            if not used and now - self._session_info[session_id].last_activity_at > self._http_idle_s:
                await self._destroy_session(session_id)
        self._over_http &= self._session_info.keys()


def find_episode(server: SessionServer, archive: Archive, episode_id: str, token: str) -> bytes | None:
    """The served JSON of an episode of the session that holds ``token``, running or left behind."""
    for environment in server.environments():
        if same_token(environment.token, token):
            running = environment.served(episode_id)
            if running is not None:
                return json.dumps(running).encode()
    return archive.find(episode_id, token)
