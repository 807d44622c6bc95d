"""Place of a session: the replica, the worker and the start of that worker, which the session's names begin with."""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

REPLICA = re.compile(r"[A-Za-z0-9-]{1,63}")
"""Names of replicas, such as the names of Kubernetes' pods."""
_NAMED = re.compile(rf"((?:{REPLICA.pattern})?)\.(\d{{1,4}})\.([0-9a-f]{{1,16}})\..", re.ASCII)


class Place(NamedTuple):
    """A process that plays sessions. The default is that of a single server, whose tokens name no place."""

    replica: str = ""
    """Name of the server among those behind a balancer; '' for the only one."""
    worker: int = 0
    """Number of the worker, from 1; 0 for a server without workers."""
    start: str = ""
    """Random name of the worker's start, because a worker that was started again has none of the earlier sessions."""

    @property
    def prefix(self) -> str:
        """Return what the tokens, cookies and ids of this place's sessions begin with."""
        return f"{self.replica}.{self.worker}.{self.start}." if self.start else ""

    def __str__(self) -> str:
        worker = f"worker {self.worker}" if self.worker else ""
        return " of ".join(filter(None, (worker, f"replica {self.replica}" if self.replica else "")))


def new_place(replica: str = "", worker: int = 0) -> Place:
    """Return the place of a process that starts now. Raises ValueError for a replica's name that is not usable."""
    if replica and not REPLICA.fullmatch(replica):
        raise ValueError(f"--replica is {replica!r}: give letters, digits and hyphens, at most 63")
    return Place(replica, worker, secrets.token_hex(6)) if replica or worker else Place()


def place_in(token: str) -> Place | None:
    """Return the place that a token, cookie or id names; None when it names none."""
    match = _NAMED.match(token)
    return None if match is None else Place(match[1], int(match[2]), match[3])
