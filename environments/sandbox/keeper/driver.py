"""The driver protocol: what differs between the backends that the keeper serves. Stdlib only."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, Protocol

from ..kernel.cgroups import Group


class Unavailable(Exception):
    """Raised when this machine cannot run a backend; the message is the reason and the remedy in one line."""


class Driver(Protocol):
    """The place where commands run, and how they are stopped. By default the server owns the writable layer."""

    kill_signal: signal.Signals
    """Sent to a command's monitor, which then ends everything that the command started."""
    helpers: set[int]
    """Children of the keeper that belong to no command, such as one that removes a folder."""

    def open(self, spec: dict[str, Any], group: Group | None) -> Any:
        """Return a new sandbox's state. Raises Unavailable or OSError."""

    def start(self, state: Any, group: Group | None, request: dict[str, Any], fds: dict[str, int], status: int) -> int:
        """Fork the command's monitor, which writes JSON lines to ``status``, and return its pid."""

    def reset(self, state: Any, filled: bool) -> list[int]:
        """Drop the writable layer, or take the filled new one; return descriptors to close."""
        return []

    def layer(self, state: Any) -> list[int]:
        """Return descriptors that show the writable layer."""
        return []

    def new_layer(self, state: Any) -> list[int]:
        """Return descriptors of an empty writable layer, which the server may fill before the next reset."""
        return []

    def close(self, state: Any) -> list[int]:
        """Forget a sandbox; return descriptors to close."""


def standard_descriptors(descriptors: Mapping[str, int]) -> dict[int, int]:
    """Return the numbers in the command of a request's descriptors: 0, 1 and 2, and 3 for a private channel."""
    numbers = {0: descriptors["stdin"], 1: descriptors["output"], 2: descriptors["output"]}
    return {**numbers, 3: descriptors["channel"]} if "channel" in descriptors else numbers
