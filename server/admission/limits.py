"""Limits of a server: how many sessions may be open, also for each client, and how much of their work runs at once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from ipaddress import IPv6Address, ip_address, ip_network
from time import monotonic

from openenv.core.env_server.exceptions import SessionCapacityError
from starlette.types import Scope

from ...environments.session import Work
from .fair_queue import FairQueue

RETRY_S = 5
"""Seconds after which a refused client may try again, before any session has ended."""
MAX_RETRY_S = 60
_ENDS = 16
"""Ends of sessions from which the time until the next one is estimated."""
_CORES = os.cpu_count() or 1

client: ContextVar[str] = ContextVar("client", default="")
"""Name of the client of the current request (see ``client_of``)."""


@dataclass(frozen=True)
class ServerLimits:
    """Most sessions, executions and gradings at a time. The metadata of a field names its environment variable."""

    sessions: int = field(default=64, metadata={"variable": "MAX_CONCURRENT_ENVS"})
    """Sessions that may be open."""
    client_sessions: int = field(default=0, metadata={"variable": "ETUDE_CLIENT_SESSIONS"})
    """Sessions that one client may have open; 0: as many as the server."""
    executions: int = field(default=max(16, 8 * _CORES), metadata={"variable": "ETUDE_EXECUTIONS"})
    """Resets and tool calls that run; others wait. Default: 8 for each core, at least 16."""
    gradings: int = field(default=_CORES, metadata={"variable": "ETUDE_GRADINGS"})
    """Gradings that run; others wait, and executions do not wait for them. Default: one for each core."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            least = 0 if limit.name == "client_sessions" else 1
            if getattr(self, limit.name) < least:
                raise ValueError(_refusal(limit.metadata["variable"], str(getattr(self, limit.name)), least))

    def of_worker(self, workers: int) -> ServerLimits:
        """Return the limits of one of ``workers`` processes: its share of the executions and gradings, at least 1."""
        share = max(1, workers)
        executions, gradings = max(1, self.executions // share), max(1, self.gradings // share)
        return replace(self, executions=executions, gradings=gradings)

    @classmethod
    def read(cls, **chosen: int | None) -> ServerLimits:
        """Return the chosen limits; the others come from environment variables, else are the defaults.

        Raises ValueError for a value that is not a number, or too small.
        """
        values = {name: value for name, value in chosen.items() if value is not None}
        for limit in fields(cls):
            text = os.environ.get(limit.metadata["variable"], "")
            if limit.name in values or not text:
                continue
            if not text.isdigit():
                raise ValueError(
                    _refusal(limit.metadata["variable"], text, 0 if limit.name == "client_sessions" else 1)
                )
            values[limit.name] = int(text)
        return cls(**values)


class ServerBusy(SessionCapacityError):
    """Raised when every session of the server is in use. ``retry_after_s``: seconds after which to try again."""

    def __init__(self, active: int, limit: int, in_use: str, setting: str, retry_after_s: int) -> None:
        advice = f"raise {setting} on the server, or retry after {retry_after_s} seconds"
        super().__init__(active, limit, f"{active}/{limit} {in_use}: {advice}")
        self.retry_after_s = retry_after_s


class ClientBusy(ServerBusy):
    """Raised when a client has as many sessions open as one client may have."""


class ServerStopping(ServerBusy):
    """Raised when the server is about to stop and starts no episode."""

    def __init__(self) -> None:
        SessionCapacityError.__init__(self, 0, 0, "this server is stopping: start the episode on another one, or later")
        self.retry_after_s = RETRY_S


class Admission:
    """Decides what may start on one server. ``refused`` is called with ``capacity`` or ``client`` at each refusal."""

    def __init__(self, limits: ServerLimits, refused: Callable[[str], None] = lambda reason: None) -> None:
        self.limits = limits
        self.queues: dict[Work, FairQueue] = {
            "execution": FairQueue(limits.executions),
            "grading": FairQueue(limits.gradings),
        }
        self._refused = refused
        self._ends: deque[float] = deque(maxlen=_ENDS)
        self.draining = False
        """Whether the server lets its episodes end and starts no others."""

    @property
    def retry_after_s(self) -> int:
        """Return the mean seconds between the last ends of sessions, from 1 to 60."""
        if len(self._ends) < 2:
            return RETRY_S
        mean = (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)
        return min(MAX_RETRY_S, max(1, round(mean)))

    def check(self, active: int, of_client: int) -> None:
        """Check that a session may open beside ``active`` open ones, ``of_client`` of them the same client's.

        Raises ServerStopping, ServerBusy and ClientBusy.
        """
        self.check_draining()
        if active >= self.limits.sessions:
            self._refused("capacity")
            setting = "MAX_CONCURRENT_ENVS (--max-sessions)"
            raise ServerBusy(active, self.limits.sessions, "sessions in use", setting, self.retry_after_s)
        if self.limits.client_sessions and of_client >= self.limits.client_sessions:
            self._refused("client")
            setting, limit = "ETUDE_CLIENT_SESSIONS (--client-sessions)", self.limits.client_sessions
            raise ClientBusy(of_client, limit, "sessions of this client in use", setting, self.retry_after_s)

    def check_draining(self) -> None:
        """Check that an episode may start. Raises ServerStopping."""
        if self.draining:
            self._refused("stopping")
            raise ServerStopping

    def ended(self) -> None:
        """Note that a session has ended."""
        self._ends.append(monotonic())

    def limiter(self, name: str) -> Callable[[Work], AbstractAsyncContextManager[None]]:
        """Return the function that holds a slot for a piece of a client's work."""
        return lambda work: self.queues[work].slot(name)


def client_of(scope: Scope) -> str:
    """Return the client's name: its address, for IPv6 the network of 64 bits that one host may choose freely in."""
    host = (scope.get("client") or ("",))[0]
    try:
        address = ip_address(host)
    except ValueError:
        return str(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(ip_network((address, 64), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)


def _refusal(variable: str, value: str, least: int) -> str:
    return f"{variable} is {value!r}: give a number, {least} or more"
