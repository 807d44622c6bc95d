"""Limits of how often one client may ask: requests, and new WebSocket connections, for each second."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from time import monotonic

MAX_CLIENTS = 65_536
"""Clients that are remembered; the one that was silent for longest is forgotten first."""


@dataclass(frozen=True)
class RateSettings:
    """Most requests and connections of a client in a second. The metadata of a field names its variable."""

    requests: int = field(default=0, metadata={"variable": "ETUDE_CLIENT_REQUESTS"})
    """HTTP requests and frames; 0: no limit."""
    connections: int = field(default=0, metadata={"variable": "ETUDE_CLIENT_CONNECTIONS"})
    """New WebSocket connections; 0: no limit."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) < 0:
                raise ValueError(_refusal(limit.metadata["variable"], str(getattr(self, limit.name))))

    @classmethod
    def read(cls, **chosen: int | None) -> RateSettings:
        """Return the chosen limits; the others come from environment variables. Raises ValueError for a bad value."""
        values = {name: value for name, value in chosen.items() if value is not None}
        for limit in fields(cls):
            text = os.environ.get(limit.metadata["variable"], "")
            if limit.name in values or not text:
                continue
            if not text.isdigit():
                raise ValueError(_refusal(limit.metadata["variable"], text))
            values[limit.name] = int(text)
        return cls(**values)


class Rates:
    """Rate limit of each client by its name: ``per_second`` at once, and as many again in every second.

    This is the generic cell rate algorithm, in which a client is one number: the time at which all that it has asked
    for is within its rate.
    """

    def __init__(self, per_second: int, clock: Callable[[], float] = monotonic) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._times: OrderedDict[str, float] = OrderedDict()

    def ask(self, client: str) -> float:
        """Return 0 and count a request, or the seconds after which to try again."""
        wait = self._wait(client)
        if not wait:
            self._count(client)
        return wait

    def reserve(self, client: str) -> float:
        """Count a request that will wait, and return the seconds that it has to."""
        wait = self._wait(client)
        self._count(client)
        return wait

    def _wait(self, client: str) -> float:
        if not self._interval:
            return 0.0
        now = self._clock()
        return max(0.0, self._times.get(client, now) - now - (1.0 - self._interval))

    def _count(self, client: str) -> None:
        if not self._interval:
            return
        self._times[client] = max(self._times.get(client, 0.0), self._clock()) + self._interval
        self._times.move_to_end(client)
        if len(self._times) > MAX_CLIENTS:
            self._times.popitem(last=False)


def _refusal(variable: str, value: str) -> str:
    return f"{variable} is {value!r}: give a number for each second, or 0 for no limit"
