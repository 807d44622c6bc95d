"""Sandboxes: one protocol, several backends, one conformance suite.

A sandbox shows a read-only workspace tree plus one size-limited writable layer at ``/workspace``, read-only binds
(the Snapshot's interpreter and dependencies) at fixed paths, and nothing else of the host but an allow-listed base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ...errors import SandboxError
from ...models import SandboxReport
from .layers.base_layer import PYTHON_PREFIX as PYTHON_PREFIX
from .layers.base_layer import SANDBOX_UID as SANDBOX_UID

WORKSPACE = "/workspace"
ENV_PREFIX = "/opt/etude/env"

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Per sandbox: bytes of memory and of the writable layer (with ``/tmp``), processes, CPUs; per exec: seconds."""

    memory: int = 2048 * MIB
    disk: int = 512 * MIB
    files: int = 100_000
    processes: int = 256
    cpus: float = 1.0
    timeout_s: float = 120.0
    output: int = 1 * MIB


@dataclass(frozen=True)
class Layers:
    """What a sandbox shows.

    ``workspace`` is the lower tree of ``/workspace``. ``binds`` maps fixed paths inside to host folders, read-only;
    ``unmapped`` gives, for backends without mounts, another host folder for the same fixed path (a virtual
    environment whose interpreter path is the host's). ``env`` is added to the backend's own small environment.
    """

    workspace: Path
    binds: Mapping[str, Path] = field(default_factory=dict)
    unmapped: Mapping[str, Path] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExecResult:
    """What a command did. ``exit_code`` is ``None`` after a timeout; a signal n is ``128 + n``.

    ``seconds`` is the time from start to end, ``cpu_seconds`` the CPU time of the command and everything it started.

    ``output`` is stdout and stderr interleaved, at most ``output_limit`` bytes: head and tail, ``dropped`` bytes cut
    between them. ``channel`` holds what the command wrote to the private result pipe, when one was asked for.
    """

    exit_code: int | None
    output: bytes
    dropped: int = 0
    timed_out: bool = False
    oom_killed: bool = False
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    channel: bytes = b""


@dataclass(frozen=True)
class Change:
    """One path that differs from the workspace's lower tree.

    ``kind``: ``file`` (content is there unless it is over the size asked for), ``deleted`` (a file, or a folder with
    all below), ``symlink`` (content is its target) or ``special`` (FIFO, socket, device, a folder that is
    too deep). Folders themselves are not reported.
    """

    path: str
    kind: str
    size: int = 0
    executable: bool = False
    content: bytes | None = None


class SavedLayer(Protocol):
    """A writable layer as it was once: opaque, good for the same backend over the same Layers.

    Held in anonymous memory or an unlinked file, so that nothing of it outlives the process.
    """

    size: int
    """Bytes that it holds, without those that it shares with an earlier save of the same sandbox."""

    def close(self) -> None:
        """Let go of it; idempotent."""
        ...


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
        ...

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        """A regular file's content. Raises FileNotFoundError, IsADirectoryError, PermissionError, ValueError (size)."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Write a file, making its folders. Raises OSError with the sandbox's own message."""
        ...

    async def changes(self, *, max_files: int = 10_000, max_bytes: int = 1 * MIB) -> list[Change]:
        """Paths that differ from the lower tree, sorted; nothing runs in the sandbox meanwhile, no symlink is followed.

        Raises ValueError when more than ``max_files`` differ.
        """
        ...

    async def reset(self) -> None:
        """Drop the writable layer, ``/tmp`` included."""
        ...

    async def save(self, *, max_files: int = 10_000, max_bytes: int = 64 * MIB) -> SavedLayer:
        """The writable layer, ``/tmp`` included, as it is now; the sandbox goes on.

        Raises ValueError when it holds more than ``max_files`` paths or ``max_bytes``.
        """
        ...

    async def restore(self, saved: SavedLayer) -> None:
        """Like ``reset``, but to a saved state; ``saved`` stays good. Raises SandboxError when it does not fit here."""
        ...

    async def close(self) -> None: ...


def __getattr__(name: str) -> Any:
    # Opening needs asyncio and a backend; the vocabulary above does not.
    if name in ("open_sandbox", "available", "BACKENDS"):
        from . import registry as opening

        return getattr(opening, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
