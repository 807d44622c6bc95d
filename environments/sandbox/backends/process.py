"""The process backend: for hosts that allow no namespaces. Landlock, seccomp and rlimits around an ordinary process.

Nothing is mounted: the workspace is copied to a folder, and the fixed paths are translated in commands, environment and
working folder on the way in, and in output on the way out. File contents are left alone. What it cannot give it lists
in ``report.lacks``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ....errors import SandboxError, SandboxUnavailable
from ....models import SandboxReport
from .. import MIB, SANDBOX_UID, WORKSPACE, Change, ExecResult, Layers, Limits
from ..keeper.client import Line
from ..kernel import landlock, linux
from ..layers.changes import tree_changes
from ..layers.restore_layer import fill, owner_of_layers
from ..layers.save_layer import Folder
from .kept_sandbox import KeptSandbox, open_request, uninterrupted

_CONSENT = "ETUDE_ALLOW_UNSANDBOXED"
_REMOVE = 'chmod -R u+rwX -- "$@" 2>/dev/null; exec rm -rf -- "$@"'
# Whatever a backend without mounts and namespaces cannot give; each is a label of the conformance suite.
_LACKS = ["mount-view", "process-list", "loopback", "unix-sockets", "shared-memory", "file-metadata", "disk-quota"]
_LACKS_WITHOUT_CGROUPS = ["cpu-share", "memory-total", "process-quota"]
_LACKS_WITHOUT_LANDLOCK = ["file-isolation", "signal-isolation"]
# Too general to be translated back: other paths of the host begin with them.
_SHARED = ("/", "/usr", "/usr/local", "/tmp")


class Paths:
    """Translates between the fixed paths and the folders that stand for them."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._real = {fixed.encode(): os.fsencode(real) for fixed, real in folders.items()}
        # A real path stays itself, also where it begins with a fixed one.
        self._inward = _pattern({**{real: real for real in self._real.values()}, **self._real})
        self._fixed = {real: fixed for fixed, real in self._real.items() if real.decode() not in _SHARED}
        self._outward = _pattern(self._fixed)

    def inward(self, text: bytes) -> bytes:
        return self._inward.sub(lambda match: self._real.get(match[0], match[0]), text)

    def outward(self, text: bytes) -> bytes:
        return self._outward.sub(lambda match: self._fixed[match[0]], text)


def _pattern(paths: Mapping[bytes, bytes]) -> re.Pattern[bytes]:
    """Any of the paths, the longest first, as a whole run of path components."""
    names = b"|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    return re.compile(rb"(?<![\w./-])(?:" + names + rb")(?![\w.-])")


class Process(KeptSandbox):
    kind = "process"

    def __init__(self, line: Line, layers: Layers, limits: Limits, report: SandboxReport, folder: Path) -> None:
        super().__init__(line, layers, limits, report)
        self._folder = folder
        self._paths = Paths(_folders(layers, folder))
        self._measured = (0, _free_bytes(folder))

    def _inside(self, words: list[bytes]) -> list[bytes]:
        return [self._paths.inward(word) for word in words]

    def _outside(self, output: bytes) -> bytes:
        return self._paths.outward(output)

    async def _after(self, result: ExecResult) -> ExecResult:
        """Without a quota the folder is measured, when the file system's free space says that it may be too large."""
        used, free = self._measured
        now = _free_bytes(self._folder)
        if used + max(0, free - now) <= self._limits.disk:
            return result
        used = await asyncio.to_thread(_usage, self._folder)
        self._measured = (used, now)
        if used <= self._limits.disk:
            return result
        note = f"\netude: the writable layer holds {used} bytes, {self._limits.disk} are allowed: delete files\n"
        return dataclasses.replace(result, output=result.output + note.encode(), exit_code=result.exit_code or 1)

    async def changes(self, *, max_files: int = 10_000, max_bytes: int = 1 * MIB) -> list[Change]:
        self._line.check_open()
        tree = os.open(self._folder / "workspace", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            lower = self._layers.workspace
            return await uninterrupted(lambda: tree_changes(tree, lower, max_files, max_bytes, self._limits.disk))
        finally:
            os.close(tree)

    async def reset(self) -> None:
        self._line.check_open()
        await uninterrupted(lambda: _fill(self._folder, self._layers.workspace))
        await super().reset()
        self._measured = (0, _free_bytes(self._folder))

    async def _open_layer(self) -> int:
        return os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def _layer_folders(self) -> dict[str, Path | None]:
        return {"workspace": self._layers.workspace, "tmp": None}

    async def _lay(self, tree: Folder) -> None:
        await self.reset()
        layer = await self._open_layer()
        try:
            await uninterrupted(lambda: fill(layer, tree, owner_of_layers()))
        finally:
            os.close(layer)
        self._measured = (await uninterrupted(lambda: _usage(self._folder)), _free_bytes(self._folder))

    async def close(self) -> None:
        if self._line.closed:
            return
        if not self._busy:
            await asyncio.to_thread(_remove, self._folder)
        await super().close()


async def open_process(layers: Layers, limits: Limits) -> Process:
    """A new sandbox. Raises SandboxUnavailable without Landlock (unless consented), SandboxError for a bad request."""
    abi = landlock.version()
    if abi == 0 and os.environ.get(_CONSENT) != "1":
        raise SandboxUnavailable(_why_not())
    _check_reachable(layers)
    linux.set_dumpable(False)
    await asyncio.to_thread(cleanup)
    folder = await asyncio.to_thread(_make_folder, layers.workspace)
    line = Line("process")
    try:
        request = open_request(layers, limits, folder=str(folder), landlock=abi > 0)
        request["binds"] = {name: str(path.resolve()) for name, path in {**layers.binds, **layers.unmapped}.items()}
        answer, _ = await line.ask(request)
    except BaseException:
        line.close()
        _remove(folder)
        raise
    return Process(line, layers, limits, _report(abi, answer["limits"]), folder)


def probe() -> str | None:
    """None when a sandbox can be opened here, else why not."""
    return None if landlock.version() or os.environ.get(_CONSENT) == "1" else _why_not()


def _why_not() -> str:
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


def _folders(layers: Layers, folder: Path) -> dict[str, str]:
    """What stands for each fixed path."""
    binds = {name: str(path.resolve()) for name, path in {**layers.binds, **layers.unmapped}.items()}
    return {**binds, WORKSPACE: str(folder / "workspace"), "/tmp": str(folder / "tmp")}


def _check_reachable(layers: Layers) -> None:
    """Raise SandboxError for what the command could not read. As root it runs as another user, which must be let in."""
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


def _make_folder(workspace: Path) -> Path:
    # Named after this process, so that a later one can tell that it is gone.
    mine = f"etude-{os.getpid()}-{linux.start_time(os.getpid())}-"
    folder = Path(tempfile.mkdtemp(prefix=mine)).resolve()
    folder.chmod(0o711)
    _fill(folder, workspace)
    return folder


def _fill(folder: Path, workspace: Path) -> None:
    """A fresh copy of the lower tree and an empty /tmp."""
    _remove(folder / "workspace", folder / "tmp")
    copied = subprocess.run(
        ["cp", "-a", "--", f"{workspace}/.", str(folder / "workspace")], capture_output=True, text=True, check=False
    )
    if copied.returncode:
        raise SandboxError(f"cannot copy {workspace}: {copied.stderr.strip()[-300:]}")
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    (folder / "workspace").chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder / "tmp", SANDBOX_UID, SANDBOX_UID)


def _remove(*folders: Path) -> None:
    there = [str(folder) for folder in folders if os.path.lexists(folder)]
    if there:
        subprocess.run(["/bin/sh", "-c", _REMOVE, "sh", *there], check=False, capture_output=True)


def cleanup() -> list[str]:
    """Remove the folders of processes that are gone, as far as they are ours; their paths."""
    removed = []
    for folder in Path(tempfile.gettempdir()).glob("etude-*-*-*"):
        parts = folder.name.split("-")
        gone = parts[1].isdigit() and parts[2].isdigit() and linux.start_time(int(parts[1])) != parts[2]
        try:
            if gone and folder.lstat().st_uid == os.geteuid():
                _remove(folder)
                removed.append(str(folder))
        except FileNotFoundError:
            continue  # somebody else was faster
    return removed


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _usage(folder: Path) -> int:
    """Bytes that the files below take on disk."""
    total = 0
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except OSError:
                continue
    return total
