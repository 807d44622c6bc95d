"""The process backend, for hosts that allow no namespaces: Landlock, seccomp and rlimits around an ordinary process.

Nothing is mounted: the workspace is copied to a folder, and the fixed paths are translated in commands, environment and
working folder on the way in, and in output on the way out. File contents are not translated. ``report.lacks`` lists
what this backend cannot give. A reset writes only what was touched, as the kernel reports it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ....errors import SandboxError, SandboxUnavailable
from ....models import SandboxReport
from ..keeper.client import KeeperClient
from ..kernel import landlock, linux
from ..layers.changes import ChangeLimits
from ..layers.records import Folder
from ..layers.save_layer import SavedTree
from ..protocol import MIB, SANDBOX_UID, WORKSPACE, Backend, Change, ExecResult, Layers, Limits
from .keeper_sandbox import KeeperSandbox, open_request, uninterrupted
from .work_folder import WorkFolder, cleanup

_CONSENT = "ETUDE_ALLOW_UNSANDBOXED"
# What a backend without mounts and namespaces cannot give; each is a label of the conformance suite.
_LACKS = ("mount-view process-list loopback unix-sockets shared-memory file-metadata disk-quota machine-facts").split()
_LACKS_WITHOUT_CGROUPS = ["cpu-share", "memory-total", "process-quota"]
_LACKS_WITHOUT_LANDLOCK = ["file-isolation", "signal-isolation"]
# Too general to be translated back: other paths of the host begin with them.
_SHARED = ("/", "/usr", "/usr/local", "/tmp")


class Paths:
    """Translation between the fixed paths and the folders that stand for them."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._real = {fixed.encode(): os.fsencode(real) for fixed, real in folders.items()}
        # A real path stays itself, also where it begins with a fixed one.
        self._inward = _pattern({**{real: real for real in self._real.values()}, **self._real})
        self._fixed = {real: fixed for fixed, real in self._real.items() if real.decode() not in _SHARED}
        self._outward = _pattern(self._fixed)

    def inward(self, text: bytes) -> bytes:
        """Replace fixed paths by their folders."""
        return self._inward.sub(lambda match: self._real.get(match[0], match[0]), text)

    def outward(self, text: bytes) -> bytes:
        """Replace folders by their fixed paths."""
        return self._outward.sub(lambda match: self._fixed[match[0]], text)


def _pattern(paths: Mapping[bytes, bytes]) -> re.Pattern[bytes]:
    """Return a pattern of any of the paths, the longest first, as a whole run of path components."""
    names = b"|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    return re.compile(rb"(?<![\w./-])(?:" + names + rb")(?![\w.-])")


class Process(KeeperSandbox):
    """A sandbox of ordinary, confined processes."""

    kind = "process"

    def __init__(
        self, client: KeeperClient, layers: Layers, limits: Limits, report: SandboxReport, folder: WorkFolder
    ) -> None:
        super().__init__(client, layers, limits, report)
        self._folder = folder
        self._paths = Paths(_folders(layers, folder.path))
        self._measured = (0, folder.free_bytes())

    def _inward(self, words: list[bytes]) -> list[bytes]:
        return [self._paths.inward(word) for word in words]

    def _outward(self, output: bytes) -> bytes:
        return self._paths.outward(output)

    async def _checked(self, result: ExecResult) -> ExecResult:
        """Measure the folder, which has no quota, when the file system's free space suggests that it is too large."""
        self._folder.collect()
        used, free = self._measured
        free_now = self._folder.free_bytes()
        if used + max(0, free - free_now) <= self._limits.disk:
            return result
        used = await asyncio.to_thread(self._folder.usage)
        self._measured = (used, free_now)
        if used <= self._limits.disk:
            return result
        note = f"\netude: the writable layer holds {used} bytes, {self._limits.disk} are allowed; delete files\n"
        return dataclasses.replace(result, output=result.output + note.encode(), exit_code=result.exit_code or 1)

    async def changes(self, *, max_files: int = 10_000, max_bytes: int = 1 * MIB) -> list[Change]:
        self._client.check_open()
        with self._claimed():
            limits = ChangeLimits(max_files, max_bytes, self._limits.disk)
            return await uninterrupted(lambda: self._folder.changes(limits))

    async def reset(self) -> None:
        self._client.check_open()
        with self._claimed():
            self._last_saved = None
            await uninterrupted(self._folder.reset)
            self._measured = (0, self._folder.free_bytes())

    async def _save(self, max_files: int, max_bytes: int) -> SavedTree:
        return await uninterrupted(lambda: self._folder.save(self._last_saved, max_files, max_bytes))

    async def _restore(self, tree: Folder) -> None:
        await uninterrupted(lambda: self._folder.restore(tree))
        self._measured = (await uninterrupted(self._folder.usage), self._folder.free_bytes())

    async def close(self) -> None:
        if self._client.closed:
            return
        if not self._busy:
            await asyncio.to_thread(self._folder.remove)
        await super().close()


async def open_process(layers: Layers, limits: Limits) -> Process:
    """Open a sandbox. Raises SandboxUnavailable without Landlock (unless accepted), SandboxError for a bad request."""
    abi = landlock.version()
    if abi == 0 and os.environ.get(_CONSENT) != "1":
        raise SandboxUnavailable(_missing_landlock())
    _check_reachable(layers)
    linux.set_dumpable(False)
    await asyncio.to_thread(cleanup)
    folder = await asyncio.to_thread(WorkFolder, layers.workspace)
    try:
        await asyncio.to_thread(folder.reset)
        client = KeeperClient("process")
        try:
            request = open_request(layers, limits, folder=str(folder.path), landlock=abi > 0)
            request["binds"] = _bind_folders(layers)
            answer, _ = await client.ask(request)
        except BaseException:
            client.close()
            raise
    except BaseException:
        folder.remove()
        raise
    return Process(client, layers, limits, _report(abi, answer["limits"]), folder)


def probe() -> str | None:
    """Return None when a sandbox can be opened here, else why not."""
    return None if landlock.version() or os.environ.get(_CONSENT) == "1" else _missing_landlock()


def _missing_landlock() -> str:
    return (
        "this kernel has no Landlock (Linux 5.13, enabled with lsm=landlock,...); "
        f"install bubblewrap instead, or accept no isolation with {_CONSENT}=1"
    )


def _report(abi: int, limits: Literal["cgroup", "rlimit"]) -> SandboxReport:
    lacks = _LACKS + (_LACKS_WITHOUT_CGROUPS if limits == "rlimit" else [])
    if abi == 0:
        lacks = lacks + _LACKS_WITHOUT_LANDLOCK
    elif abi < landlock.SCOPES_SINCE:
        lacks = [*lacks, "signal-isolation"]
    return SandboxReport(backend="process", isolation="landlock" if abi else "none", limits=limits, lacks=lacks)


def _bind_folders(layers: Layers) -> dict[str, str]:
    return {name: str(path.resolve()) for name, path in {**layers.binds, **layers.unmapped}.items()}


def _folders(layers: Layers, folder: Path) -> dict[str, str]:
    """Return the folder that stands for each fixed path."""
    return {**_bind_folders(layers), WORKSPACE: str(folder / "workspace"), "/tmp": str(folder / "tmp")}


def _check_reachable(layers: Layers) -> None:
    """Raise SandboxError for folders that the commands of root's sandboxes, which run as another user, cannot enter."""
    root = os.geteuid() == 0
    if root and layers.workspace.stat().st_uid != SANDBOX_UID:
        raise SandboxError(f"{layers.workspace} must belong to uid {SANDBOX_UID}, or it cannot be written: chown -R it")
    for path in {**layers.binds, **layers.unmapped}.values():
        real = path.resolve()
        if not real.exists():
            raise SandboxError(f"{path} does not exist")
        closed = [part for part in (real, *real.parents) if not part.stat().st_mode & 0o001]
        if root and closed:
            where = f"{closed[0]} is closed to the sandbox user (uid {SANDBOX_UID})"
            raise SandboxError(f"{where}: chmod o+x it, or set ETUDE_CACHE to a folder that everybody can enter")


PROCESS = Backend(open_process, probe, cleanup)
