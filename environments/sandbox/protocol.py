"""The protocol of sandboxes: what a backend is given, what it must do, and what it returns."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from ...models import SandboxReport
from .layers.base_layer import PYTHON_PREFIX as PYTHON_PREFIX
from .layers.base_layer import SANDBOX_UID as SANDBOX_UID
from .layers.changes import Change as Change

WORKSPACE = "/workspace"
ENV_PREFIX = "/opt/etude/env"

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use."""

    memory: int = 2048 * MIB
    """Bytes of memory."""
    disk: int = 512 * MIB
    """Bytes of the writable layer, ``/tmp`` included."""
    files: int = 100_000
    """Files in the writable layer."""
    processes: int = 256
    """Processes and threads at once."""
    cpus: float = 1.0
    """CPU cores."""
    timeout_s: float = 120.0
    """Seconds of one command."""
    output: int = 1 * MIB
    """Bytes of one command's output that are kept."""


@dataclass(frozen=True)
class Layers:
    """The trees that a sandbox shows."""

    workspace: Path
    """The lower tree of ``/workspace``."""
    binds: Mapping[str, Path] = field(default_factory=dict)
    """Folders of the host by their fixed path inside, read-only."""
    unmapped: Mapping[str, Path] = field(default_factory=dict)
    """Other folders for the same fixed paths, for backends without mounts: a virtual environment that names the host's
    interpreter."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that are added to the backend's own small environment."""


KILLED = frozenset(128 + number for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT))
"""Exit codes of a process that another process ended."""


@dataclass(frozen=True)
class ExecResult:
    """The outcome of a command."""

    exit_code: int | None
    """The exit code, 128 + n after signal n, None after a timeout."""
    output: bytes
    """Standard output and errors interleaved: head and tail, at most ``output_limit`` bytes."""
    dropped: int = 0
    """Bytes that are missing between head and tail."""
    timed_out: bool = False
    """Whether a limit of time, CPU time or idleness ended the command."""
    oom_killed: bool = False
    """Whether the kernel killed a process for want of memory."""
    seconds: float = 0.0
    """Seconds from start to end."""
    cpu_seconds: float = 0.0
    """Seconds of CPU time that the command and everything it started used."""
    channel: bytes = b""
    """What the command wrote to the private result pipe, when one was asked for."""

    @property
    def killed(self) -> bool:
        """Return whether a signal ended the command and no limit of the sandbox did, so that it proves nothing."""
        return self.exit_code in KILLED and not self.oom_killed


class SavedLayer(Protocol):
    """A writable layer as it was when it was saved: opaque, for sandboxes of the same backend over the same Layers.

    It is held in memory, so nothing of it outlives the process.
    """

    size: int
    """Bytes that it holds, without those that it shares with an earlier save of the same sandbox."""

    def close(self) -> None:
        """Release the memory; idempotent."""


@runtime_checkable
class Sandbox(Protocol):
    """One isolated workspace. Not safe for concurrent calls; cheap to reset; ``close`` is idempotent."""

    report: SandboxReport

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        cpu_s: float | None = None,
        idle_s: float | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str = WORKSPACE,
        output_limit: int | None = None,
        channel: bool = False,
        channel_limit: int = 64 * MIB,
    ) -> ExecResult:
        """Run ``command`` (a string goes to ``bash -c``); everything it started is dead on return.

        The command ends as a timeout after ``timeout_s`` seconds (default: the limits'), once it and everything it
        started have used ``cpu_s`` seconds of CPU time, or once they have used less than 1 % of one core over the
        last ``idle_s`` seconds (a deadlock, a sleep). With ``channel`` the child finds an inherited pipe's number in
        ``ETUDE_CHANNEL``. Raises SandboxError when the sandbox, not the command, fails.
        """

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        """Return a regular file's content.

        Raises FileNotFoundError, IsADirectoryError, PermissionError, or ValueError for more than ``limit`` bytes.
        """

    async def write(self, path: str, data: bytes) -> None:
        """Write a file, making its folders. Raises OSError with the sandbox's own message."""

    async def changes(self, *, max_files: int = 10_000, max_bytes: int = 1 * MIB) -> list[Change]:
        """Return the paths that differ from the lower tree, sorted; contents up to ``max_bytes`` each.

        Nothing runs in the sandbox meanwhile, and no link is followed. Raises ValueError when more than
        ``max_files`` differ.
        """

    async def reset(self) -> None:
        """Drop the writable layer, ``/tmp`` included."""

    async def save(self, *, max_files: int = 10_000, max_bytes: int = 64 * MIB) -> SavedLayer:
        """Return the writable layer, ``/tmp`` included, as it is now; the sandbox stays usable.

        Raises ValueError when it holds more than ``max_files`` paths or ``max_bytes``.
        """

    async def restore(self, saved: SavedLayer) -> None:
        """Reset to a saved state, which stays usable. Raises SandboxError when it does not fit this sandbox."""

    async def close(self) -> None:
        """Kill everything and drop the sandbox."""


@dataclass(frozen=True)
class Backend:
    """One kind of sandbox, as an entry point of the group ``etude.sandboxes`` provides it."""

    open: Callable[[Layers, Limits], Awaitable[Sandbox]]
    """Open a sandbox. Raises SandboxUnavailable where the backend cannot work, SandboxError for a bad request."""
    probe: Callable[[], str | None]
    """Return None when sandboxes can be opened here, else one line: why not, and the remedy."""
    cleanup: Callable[[], list[str]] = list
    """Remove what dead servers left, and return what was removed."""
    configured: Callable[[], bool] = lambda: True
    """Return whether the settings of this machine mean this backend; if not, it is left out where all are checked."""
