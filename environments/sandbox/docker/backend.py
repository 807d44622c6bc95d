"""The docker and podman backends: a hardened container per sandbox, and in it one worker that runs the commands.

A ``docker exec`` costs tens of milliseconds, a fork of the worker one. The engine must be on this machine. See image.py
for what a container consists of, and worker/ for what runs in it.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ....errors import EngineGone, SandboxError, SandboxUnavailable
from ....models import SandboxReport
from ..backends.command_sandbox import CommandSandbox
from ..kernel import seccomp
from ..layers.records import Sender, described, description_in
from ..layers.save_layer import LayerFolder, save_layer
from ..protocol import MIB, SANDBOX_UID, Backend, Change, ExecResult, Layers, Limits, SavedLayer
from .engine import DOCKER, PODMAN, Engine, Kind
from .image import RUNTIME_VARIABLE, container_config, find_root, hides_paths
from .pool import Started, pool
from .stream import Stream
from .worker.serve import WORKSPACE

_GRACE_S = 60.0
_FILE_WORK_S = 300.0


class Docker(CommandSandbox):
    """A container, spoken to over a stream."""

    def __init__(self, kind: Kind, started: Started, layers: Layers, limits: Limits, report: SandboxReport) -> None:
        super().__init__(layers, limits, report)
        self.kind = kind.name
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
        """Hang up, which ends the worker and all below it; the engine removes what is left of the container."""
        self._stream.close()

    async def begin(self, packed: bytes, *, watch: bool) -> None:
        """Give a fresh worker its workspace; ``watch`` lets it ask the kernel what commands touch."""
        counted = "memory-total" not in self.report.lacks
        request = {
            "op": "open",
            "uid": SANDBOX_UID,
            "filter": base64.b64encode(seccomp.program(network=True)).decode(),
            "watch": watch,
            "cgroup": counted,
            "cores": self._limits.cpus if counted else float(os.cpu_count() or 1),
        }
        try:
            await self._ask(request, _FILE_WORK_S, packed)
        except BaseException:
            await self.close()
            raise


async def open_docker(layers: Layers, limits: Limits, kind: Kind = DOCKER) -> Docker:
    """Open a sandbox. Raises SandboxUnavailable where the engine is missing, SandboxError for a bad request."""
    packed, paths = await asyncio.to_thread(_packed, layers.workspace)
    try:
        return await _open(kind, layers, limits, packed, paths)
    except EngineGone:
        # It was restarted since the connection was made; that connection is forgotten, and this makes a new one.
        return await _open(kind, layers, limits, packed, paths)


async def _open(kind: Kind, layers: Layers, limits: Limits, packed: bytes, paths: int) -> Docker:
    runtime = os.environ.get(RUNTIME_VARIABLE, "")
    engine, config = await asyncio.to_thread(_prepare, kind, layers, limits, (len(packed), paths), runtime)
    report = SandboxReport(backend=kind.name, isolation="container", limits="cgroup", lacks=lacks(engine))
    # Another runtime may not report everything that the kernel does.
    watch = not runtime
    sandbox = None
    spare = pool().take_spare(engine, config)
    if spare is not None:
        sandbox = Docker(kind, spare, layers, limits, report)
        try:
            await sandbox.begin(packed, watch=watch)
        except SandboxError:
            sandbox = None  # it died while it waited
    if sandbox is None:
        sandbox = Docker(kind, await asyncio.to_thread(_start, engine, config), layers, limits, report)
        await sandbox.begin(packed, watch=watch)
    pool().refill(engine, config)
    return sandbox


def probe(kind: Kind = DOCKER) -> str | None:
    """Return None when an engine answers here, else why not. Blocks for some milliseconds."""
    try:
        pool().engine(kind)
    except SandboxError as error:
        return str(error)
    return None


def cleanup(kind: Kind = DOCKER) -> list[str]:
    """Remove the containers of dead servers, and return their names. Raises SandboxError."""
    return Engine(kind).remove_leftovers()


DOCKER_BACKEND = Backend(open_docker, probe, cleanup)
PODMAN_BACKEND = Backend(partial(open_docker, kind=PODMAN), partial(probe, PODMAN), partial(cleanup, PODMAN))


def image_arguments(name: str) -> list[str]:
    """Return the image and folders of an engine's sandboxes, as arguments of the engine's own command line."""
    engine = pool().engine(PODMAN if name == PODMAN.name else DOCKER)
    root = find_root(engine, Layers(Path("/")))
    return [*(f"--volume={host}:{inside}:ro" for inside, host in root.binds.items()), root.image]


def lacks(engine: Engine) -> list[str]:
    """Return what this engine cannot give; each is a label of the conformance suite."""
    # Podman limits the bytes of a folder in memory, not the number of its files.
    # It also leaves the files of /proc and /sys as they are.
    missing = ["disk-quota", "machine-facts"] if engine.kind is PODMAN else []
    if engine.rootless and engine.info.get("CgroupVersion", "1") == "1":
        missing += ["cpu-share", "memory-total", "process-quota"]
    if not hides_paths(engine):
        missing.append("bind-paths")
    return missing


def _prepare(
    kind: Kind, layers: Layers, limits: Limits, tree: tuple[int, int], runtime: str
) -> tuple[Engine, dict[str, Any]]:
    engine = pool().engine(kind)
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
