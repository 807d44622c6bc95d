"""The docker and podman backends: a hardened container per sandbox, and in it one worker that runs the commands.

A ``docker exec`` costs tens of milliseconds, a fork of the worker one. The engine must be on this machine. See image.py
for what a container consists of, and ../containers for what runs in it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ....errors import EngineGone, SandboxError, SandboxUnavailable
from ....models import SandboxReport
from ..containers.spares import Started
from ..containers.worker_sandbox import WorkerSandbox, packed_tree
from ..protocol import Backend, Layers, Limits
from .engine import DOCKER, PODMAN, Engine, Kind
from .image import RUNTIME_VARIABLE, container_config, find_root, hides_paths
from .pool import pool


async def open_docker(layers: Layers, limits: Limits, kind: Kind = DOCKER) -> WorkerSandbox:
    """Open a sandbox. Raises SandboxUnavailable where the engine is missing, SandboxError for a bad request."""
    packed, paths = await asyncio.to_thread(packed_tree, layers.workspace)
    try:
        return await _open(kind, layers, limits, packed, paths)
    except EngineGone:
        # It was restarted since the connection was made; that connection is forgotten, and this makes a new one.
        return await _open(kind, layers, limits, packed, paths)


async def _open(kind: Kind, layers: Layers, limits: Limits, packed: bytes, paths: int) -> WorkerSandbox:
    runtime = os.environ.get(RUNTIME_VARIABLE, "")
    engine, config = await asyncio.to_thread(_prepare, kind, layers, limits, (len(packed), paths), runtime)
    report = SandboxReport(backend=kind.name, isolation="container", limits="cgroup", lacks=lacks(engine))
    # Another runtime may not report everything that the kernel does.
    watch = not runtime
    sandbox = None
    spare = pool().take_spare(engine, config)
    if spare is not None:
        sandbox = WorkerSandbox(kind.name, spare, layers, limits, report)
        try:
            await sandbox.begin(packed, watch=watch)
        except SandboxError:
            sandbox = None  # it died while it waited
    if sandbox is None:
        sandbox = WorkerSandbox(kind.name, await asyncio.to_thread(_start, engine, config), layers, limits, report)
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
