"""The docker backend: a hardened container per sandbox, and in it one worker that runs the commands.

A ``docker exec`` costs tens of milliseconds, a fork of the worker one. The engine must be on this machine. See
image.py for what a container is made of, worker.py for what runs in it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....errors import EngineGone, SandboxError, SandboxUnavailable
from ....models import SandboxReport
from .. import MIB, SANDBOX_UID, Change, ExecResult, Layers, Limits
from ..backends.kept_sandbox import KeptSandbox
from ..kernel import seccomp
from .engine import DOCKER, PODMAN, Engine, Kind
from .image import RUNTIME_VARIABLE, container_config, find_root
from .pack import Packer
from .pool import Started, pool
from .stream import Stream
from .worker import CHANGE

_GRACE_S = 60.0
_FILE_WORK_S = 300.0
_CHANGE_KINDS = {b"f": "file", b"D": "deleted", b"l": "symlink"}


class SavedTree:
    """Packed folders in this process's memory."""

    def __init__(self, data: bytes, fits: tuple[str, Path]) -> None:
        self.data: bytes | None = data
        self.size = len(data)
        self.fits = fits

    def close(self) -> None:
        self.data = None


class Docker(KeptSandbox):
    """Speaks with a worker over a stream instead of with a keeper; the rest is KeptSandbox's."""

    def __init__(self, kind: Kind, started: Started, layers: Layers, limits: Limits, report: SandboxReport) -> None:
        self.kind = kind.name
        self.report = report
        self.container = started.container
        self._stream: Stream = started.stream
        self._layers = layers
        self._limits = limits
        self._busy = False

    async def _ask(
        self,
        request: Mapping[str, Any],
        timeout_s: float,
        blob: bytes = b"",
        into: dict[bytes, bytearray] | None = None,
    ) -> dict[str, Any]:
        """One request; frames are collected by kind. A worker that does not answer in time is given up."""
        self._stream.check_open()
        if self._busy:
            raise SandboxError("this sandbox is busy: one call at a time")
        self._busy = True
        frames = into if into is not None else {}

        def collect(kind: bytes, content: bytes) -> None:
            frames.setdefault(kind, bytearray()).extend(content)

        try:
            async with asyncio.timeout(timeout_s):
                return await self._stream.request(request, blob, collect)
        except TimeoutError as error:
            self._stream.close()
            raise SandboxError(f"the {self.kind} container did not answer within {timeout_s:g} s") from error
        finally:
            self._busy = False

    async def _run(
        self, request: Mapping[str, Any], stdin: bytes | None, limit: int, channel: int | None
    ) -> ExecResult:
        frames: dict[bytes, bytearray] = {}
        full = {**request, "output_limit": limit, "channel_limit": channel}
        reply = await self._ask(full, request["timeout_s"] + _GRACE_S, stdin or b"", frames)
        output, private = (bytes(frames.get(kind, b"")) for kind in (b"O", b"C"))
        return self._result(reply, output, reply["dropped"], private)

    async def changes(self, *, max_files: int = 10_000, max_bytes: int = 1 * MIB) -> list[Change]:
        frames: dict[bytes, bytearray] = {}
        request = {"op": "changes", "max_files": max_files, "max_bytes": max_bytes, "max_total": self._limits.disk}
        await self._ask(request, _FILE_WORK_S, into=frames)
        return sorted(_changes(frames.get(b"B", bytearray())), key=lambda change: change.path)

    async def reset(self) -> None:
        await self._ask({"op": "reset"}, _FILE_WORK_S)

    async def save(self, *, max_files: int = 10_000, max_bytes: int = 64 * MIB) -> SavedTree:
        frames: dict[bytes, bytearray] = {}
        request = {"op": "save", "max_files": max_files, "max_bytes": max_bytes}
        await self._ask(request, _FILE_WORK_S, into=frames)
        return SavedTree(bytes(frames.get(b"B", b"")), self._fits())

    async def restore(self, saved: Any) -> None:
        if not isinstance(saved, SavedTree) or saved.fits != self._fits():
            raise SandboxError("this was saved by another backend or over another workspace")
        if saved.data is None:
            raise SandboxError("this saved layer is closed")
        await self._ask({"op": "restore"}, _FILE_WORK_S, saved.data)

    def _fits(self) -> tuple[str, Path]:
        return self.kind, self._layers.workspace.resolve()

    async def close(self) -> None:
        """Hang up, which ends the worker and all below it; the engine removes what is left of the container."""
        self._stream.close()

    async def begin(self, packed: bytes) -> None:
        """Tell a fresh worker what to show."""
        limited = "memory-total" not in self.report.lacks
        request = {
            "op": "open",
            "filter": base64.b64encode(seccomp.program(network=True)).decode(),
            "cgroup": limited,
            "cores": self._limits.cpus if limited else float(os.cpu_count() or 1),
        }
        try:
            await self._ask(request, _FILE_WORK_S, packed)
        except BaseException:
            await self.close()
            raise


async def open_docker(layers: Layers, limits: Limits, kind: Kind = DOCKER) -> Docker:
    """A new sandbox. Raises SandboxUnavailable where the engine is missing, SandboxError for a bad request."""
    packed, paths = await asyncio.to_thread(_packed, layers.workspace)
    try:
        return await _open(kind, layers, limits, packed, paths)
    except EngineGone:
        # It was restarted since we connected: the connection is forgotten by now, and this makes a new one.
        return await _open(kind, layers, limits, packed, paths)


async def _open(kind: Kind, layers: Layers, limits: Limits, packed: bytes, paths: int) -> Docker:
    engine, config = await asyncio.to_thread(_prepare, kind, layers, limits, (len(packed), paths))
    report = SandboxReport(backend=kind.name, isolation="container", limits="cgroup", lacks=lacks(engine))
    sandbox = None
    spare = pool().take_spare(engine, config)
    if spare is not None:
        sandbox = Docker(kind, spare, layers, limits, report)
        try:
            await sandbox.begin(packed)
        except SandboxError:
            sandbox = None  # it died while it waited
    if sandbox is None:
        sandbox = Docker(kind, await asyncio.to_thread(_start, engine, config), layers, limits, report)
        await sandbox.begin(packed)
    pool().refill(engine, config)
    return sandbox


def probe(kind: Kind = DOCKER) -> str | None:
    """None when an engine answers here, else why not. Blocks for some milliseconds."""
    try:
        pool().engine(kind)
    except SandboxError as error:
        return str(error)
    return None


def cleanup(kind: Kind = DOCKER) -> list[str]:
    """Remove the containers of dead servers; their names. Raises SandboxError."""
    return Engine(kind).remove_leftovers()


def image_of(name: str) -> list[str]:
    """The image and folders of this engine's sandboxes, as arguments of its own command line."""
    engine = pool().engine(PODMAN if name == PODMAN.name else DOCKER)
    root = find_root(engine, Layers(Path("/")))
    return [*(f"--volume={host}:{inside}:ro" for inside, host in root.binds.items()), root.image]


def lacks(engine: Engine) -> list[str]:
    """What this engine cannot give; each is a label of the conformance suite."""
    # Podman limits the bytes of a folder in memory, not the number of its files.
    missing = ["disk-quota"] if engine.kind is PODMAN else []
    if engine.rootless and engine.info.get("CgroupVersion", "1") == "1":
        missing += ["cpu-share", "memory-total", "process-quota"]
    return missing


def _prepare(kind: Kind, layers: Layers, limits: Limits, tree: tuple[int, int]) -> tuple[Engine, dict[str, Any]]:
    engine = pool().engine(kind)
    runtime = os.environ.get(RUNTIME_VARIABLE, "")
    try:
        root = find_root(engine, layers)
        return engine, container_config(engine, root, layers, limits, tree, runtime)
    except SandboxUnavailable:
        raise
    except SandboxError:
        # An engine that was restarted answers the next one.
        pool().forget_engine(engine)
        raise


def _start(engine: Engine, config: Mapping[str, Any]) -> Started:
    try:
        return pool().start(engine, config)
    except SandboxError:
        pool().forget_engine(engine)
        raise


def _packed(workspace: Path) -> tuple[bytes, int]:
    """The workspace as one stream, and how many paths it has. Raises SandboxError for one of another owner."""
    owner = workspace.stat().st_uid
    if os.geteuid() == 0 and owner != SANDBOX_UID:
        raise SandboxError(f"{workspace} must belong to uid {SANDBOX_UID}, as for every backend: chown -R it")
    packed = bytearray()
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        packer = Packer(packed.extend, None)
        packer.tree(root)
    except OSError as error:
        raise SandboxError(f"cannot read {workspace}: {error}") from error
    finally:
        os.close(root)
    return bytes(packed), packer.files


def _changes(data: bytearray) -> Iterator[Change]:
    """What the worker's comparison found."""
    place = 0
    while place < len(data):
        kind, length, executable, has_content, size = CHANGE.unpack_from(data, place)
        place += CHANGE.size
        path = os.fsdecode(bytes(data[place : place + length]))
        place += length
        content = None
        if has_content:
            (room,) = struct.unpack_from("<Q", data, place)
            place += 8
            content = bytes(data[place : place + room])
            place += room
        yield Change(path, _CHANGE_KINDS.get(kind, "special"), size, bool(executable), content)
