"""Settings of a server, which travel to its workers, and the application that they describe."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from ...client import KEY_VARIABLE
from ...environments.openenv import PenaltySettings
from ...errors import HubError, LLMError, TaskSetError, UnknownName
from ..access import RateSettings
from ..admission import ServerLimits
from ..application import create_app
from ..sources import environment_in, tasks_of
from ..store import store_of
from .place import Place

SETTING_ERRORS = (TaskSetError, HubError, UnknownName, LLMError, OSError, ValueError)
"""Errors of bad settings; their messages are for the user."""

MAX_WORKERS = 1024


@dataclass(frozen=True)
class ServerSettings:
    """Everything that ``etude serve`` was asked for, except the address."""

    folder: Path | str
    """Folder of the tasks, or hub:USER/NAME@REVISION; '' for none."""
    environment: str
    """Name of the environment; '' for the one that the tasks name."""
    backend: str
    """Sandbox of the episodes."""
    faults: str
    """Schedule of the faults in every episode; '' for none."""
    knobs: Mapping[str, Any] | None
    """Knobs of the environment."""
    limits: ServerLimits
    """Limits of the whole server."""
    mode: str | None
    """OpenEnv's mode."""
    penalty: PenaltySettings | None
    """Model that may lower rewards."""
    hosts: Sequence[str]
    """Names that requests may be addressed to."""
    rates: RateSettings
    """How often a client may ask, in one process."""
    reconnect_s: float
    """Seconds that a session waits for a client whose socket was lost."""
    log_format: str
    """``text`` or ``json``."""
    store: str | Path
    """Store of graded episodes: a path, a URL, ``none``, or '' for the default path."""
    replica: str
    """Name of the server among those behind a balancer; '' for the only one."""
    drain_s: float
    """Seconds that running episodes get to end when the server stops."""
    workers: int
    """Processes that play sessions; 0 for the server's own."""
    prepare: int
    """Tasks whose workspaces are made before the server says that it is ready."""

    def application(self, place: Place) -> FastAPI:
        """Return the application of the process at a place. Raises SETTING_ERRORS."""
        name = self.environment or environment_in(self.folder)
        return create_app(
            tasks_of(name, self.folder, self.knobs),
            environment=name,
            backend=self.backend,
            faults=self.faults,
            knobs=self.knobs,
            limits=self.limits.of_worker(self.workers),
            mode=self.mode,
            penalty=self.penalty,
            api_key=os.environ.get(KEY_VARIABLE, ""),
            hosts=self.hosts,
            rates=self.rates,
            store=store_of(self.store),
            reconnect_s=self.reconnect_s,
            place=place,
            prepare=self.prepare,
        )


def read_workers() -> int:
    """Return the number in ETUDE_WORKERS, 0 when it is not set. Raises ValueError."""
    text = os.environ.get("ETUDE_WORKERS", "") or "0"
    if not text.isdigit() or int(text) > MAX_WORKERS:
        raise ValueError(f"ETUDE_WORKERS is {text!r}: give a number of processes, 0 to {MAX_WORKERS}")
    return int(text)
