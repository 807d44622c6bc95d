"""A sandbox whose commands a worker in a container runs: each call is one request over the container's stream."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....errors import SandboxError
from ....models import SandboxReport
from ..backends.command_sandbox import CommandSandbox
from ..kernel import seccomp
from ..layers.records import Sender, described, description_in
from ..layers.save_layer import LayerFolder, save_layer
from ..protocol import MIB, SANDBOX_UID, Change, ExecResult, Layers, Limits, SavedLayer
from .spares import Started
from .stream import Stream
from .worker.serve import WORKSPACE

_GRACE_S = 60.0
_FILE_WORK_S = 300.0


class WorkerSandbox(CommandSandbox):
    """A container, spoken to over a stream."""

    def __init__(self, kind: str, started: Started, layers: Layers, limits: Limits, report: SandboxReport) -> None:
        super().__init__(layers, limits, report)
        self.kind = kind
        self.container = started.container
        self._stream: Stream = started.stream

    async def _ask(
        self,
        request: Mapping[str, Any],
        timeout_s: float,
        blob: bytes = b"",
        frames: dict[bytes, bytearray] | None = None,
    ) -> dict[str, Any]:
        """Send one request and return its reply; other frames are collected by kind.

        A worker that does not answer in time is given up. Raises SandboxError.
        """
        self._stream.check_open()
        by_kind = frames if frames is not None else {}

        def collect(kind: bytes, content: bytes) -> None:
            by_kind.setdefault(kind, bytearray()).extend(content)

        with self._claimed():
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._stream.request(request, blob, collect)
            except TimeoutError as error:
                self._stream.close()
                raise SandboxError(
                    f"the {self.kind} container did not answer within {timeout_s:g} s; open a new sandbox"
                ) from error

    async def _ask_for_blob(self, request: Mapping[str, Any]) -> bytes:
        frames: dict[bytes, bytearray] = {}
        await self._ask(request, _FILE_WORK_S, frames=frames)
        return bytes(frames.get(b"B", b""))

    async def _run(
        self, request: Mapping[str, Any], stdin: bytes | None, limit: int, channel_limit: int | None
    ) -> ExecResult:
        frames: dict[bytes, bytearray] = {}
        full = {**request, "output_limit": limit, "channel_limit": channel_limit}
        reply = await self._ask(full, request["timeout_s"] + _GRACE_S, stdin or b"", frames)
        output, private = (bytes(frames.get(kind, b"")) for kind in (b"O", b"C"))
        return self._result(reply, output, reply["dropped"], private)

    async def changes(self, *, max_files: int = 10_000, max_bytes: int = 1 * MIB) -> list[Change]:
        bounds = {"max_files": max_files, "max_bytes": max_bytes, "max_total": self._limits.disk}
        data = await self._ask_for_blob({"op": "changes", **bounds})
        changes = []
        for path, kind, size, executable, place, target in description_in(data):
            content = data[place[0] : sum(place)] if place else target and target.encode("latin-1")
            changes.append(Change(path, kind, size, executable, content))
        return changes

    async def reset(self) -> None:
        await self._ask({"op": "reset"}, _FILE_WORK_S)

    async def save(self, *, max_files: int = 10_000, max_bytes: int = 64 * MIB) -> SavedLayer:
        data = await self._ask_for_blob({"op": "save", "max_files": max_files, "max_bytes": max_bytes})
        return self._saved_state(data, len(data))

    async def restore(self, saved: SavedLayer) -> None:
        await self._ask({"op": "restore"}, _FILE_WORK_S, self._saved_content(saved))

    async def close(self) -> None:
        """Hang up, which ends the worker and all below it; what is left of the container is removed."""
        self._stream.close()

    async def begin(self, packed: bytes, *, watch: bool, sockets: bool = True, cut: bool = False) -> dict[str, Any]:
        """Give a fresh worker its workspace and return what it says about its container.

        ``watch`` lets it ask the kernel what commands touch. Without ``sockets`` commands have connected pairs alone.
        ``cut`` takes the container's network interfaces down first.
        """
        counted = "memory-total" not in self.report.lacks
        request = {
            "op": "open",
            "uid": SANDBOX_UID,
            "filter": base64.b64encode(seccomp.program(network=sockets)).decode(),
            "watch": watch,
            "cut": cut,
            "cgroup": counted,
            "cores": self._limits.cpus if counted else float(os.cpu_count() or 1),
            "memory": self._limits.memory,
        }
        try:
            return await self._ask(request, _FILE_WORK_S, packed)
        except BaseException:
            await self.close()
            raise


def packed_tree(workspace: Path) -> tuple[bytes, int]:
    """Return the workspace as bytes, and how many paths it has. Raises SandboxError for one of another owner."""
    owner = workspace.stat().st_uid
    if os.geteuid() == 0 and owner != SANDBOX_UID:
        raise SandboxError(f"{workspace} must belong to uid {SANDBOX_UID}, as for every backend; chown -R it")
    packed = bytearray()
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sender = Sender(packed.extend)
        saved = save_layer({WORKSPACE: LayerFolder(root)}, keep=sender.keep)
        sender.finish(described(saved.tree, set()))
    except (OSError, ValueError) as error:
        raise SandboxError(f"cannot read {workspace}: {error}") from error
    finally:
        os.close(root)
    return bytes(packed), saved.paths


def room(value: int, least: int) -> int:
    """Return the next power of two, so that trees of about one size share a configuration."""
    return 1 << (max(value, least) - 1).bit_length()
