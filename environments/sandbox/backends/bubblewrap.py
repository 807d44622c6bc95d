"""The bubblewrap backend: every namespace, a sized overlay in memory, milliseconds per command; as root or not."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from ....errors import SandboxError
from ....models import SandboxReport
from ..keeper.client import KeeperClient
from ..kernel.cgroups import remove_stale
from ..layers.changes import ChangeLimits, find_changes
from ..layers.lower import disk_tree
from ..layers.records import Folder
from ..layers.restore_layer import restore_layer
from ..layers.save_layer import LayerFolder, SavedTree, save_layer
from ..layers.tree_access import opened_folders
from ..protocol import MIB, SANDBOX_UID, Backend, Change, Layers, Limits
from .keeper_sandbox import KeeperSandbox, open_request, owner_of_layers, uninterrupted

_PROBE_TIMEOUT_S = 20.0
# Without control groups a limit holds for each process, not for their sum.
_LACKS_WITHOUT_CGROUPS = ["cpu-share", "memory-total"]
_FOLDERS = ("upper", "tmp", "shm")


class Bubblewrap(KeeperSandbox):
    """A sandbox in its own namespaces."""

    kind = "bubblewrap"

    async def changes(self, *, max_files: int = 10_000, max_bytes: int = 1 * MIB) -> list[Change]:
        layer = await self._open_layer("layer")
        limits = ChangeLimits(max_files, max_bytes, self._limits.disk)

        def compare() -> list[Change]:
            with opened_folders(layer, ["upper"]) as folders, disk_tree(self._layers.workspace) as lower:
                return find_changes(folders["upper"], lower, limits, overlay=True)

        try:
            return await uninterrupted(compare)
        finally:
            os.close(layer)

    async def reset(self) -> None:
        self._last_saved = None
        await self._client.ask({"op": "reset"})

    async def _save(self, max_files: int, max_bytes: int) -> SavedTree:
        layer = await self._open_layer("layer")

        def save() -> SavedTree:
            with opened_folders(layer, _FOLDERS) as folders:
                trees = {name: LayerFolder(folder) for name, folder in folders.items()}
                return save_layer(trees, self._last_saved, max_files=max_files, max_bytes=max_bytes)

        try:
            return await uninterrupted(save)
        finally:
            os.close(layer)

    async def _restore(self, tree: Folder) -> None:
        # An overlay must not change below its mount, so the new layer is filled before it is mounted.
        layer = await self._open_layer("new_layer")

        def fill() -> None:
            with opened_folders(layer, _FOLDERS) as folders:
                restore_layer(folders, tree, owner_of_layers())

        try:
            await uninterrupted(fill)
        finally:
            os.close(layer)
        await self._client.ask({"op": "reset", "filled": True})

    async def _open_layer(self, operation: str) -> int:
        _, (layer,) = await self._client.ask({"op": operation})
        return layer

    def _not_started(self, output: bytes) -> tuple[int, bytes]:
        # bwrap reports an exit code exactly when the command ran, so nothing the command prints can look like this.
        missing = re.fullmatch(rb"bwrap: (?:execvp|Can't chdir to) (.*): ([^:]*)\n", output, re.DOTALL)
        if missing is None:
            return super()._not_started(output)
        code = 127 if output.startswith(b"bwrap: execvp") and missing[2].startswith(b"No such file") else 126
        return code, b"etude: " + missing[1] + b": " + missing[2] + b"\n"

    def _is_own(self, output: bytes) -> bool:
        return output.startswith(b"bwrap: ")


async def open_bubblewrap(layers: Layers, limits: Limits) -> Bubblewrap:
    """Open a sandbox. Raises SandboxUnavailable where bubblewrap cannot work, SandboxError for a bad request."""
    client = KeeperClient("bubblewrap")
    try:
        answer, _ = await client.ask(open_request(layers, limits))
    except BaseException:
        client.close()
        raise
    lacks = [] if answer["limits"] == "cgroup" else _LACKS_WITHOUT_CGROUPS
    report = SandboxReport(backend="bubblewrap", isolation="namespaces", limits=answer["limits"], lacks=list(lacks))
    return Bubblewrap(client, layers, limits, report)


def probe() -> str | None:
    """Return None when a sandbox can be opened here, else why not. Blocks for some tens of milliseconds."""
    with tempfile.TemporaryDirectory(prefix="etude-probe-") as folder:
        if os.geteuid() == 0:
            os.chown(folder, SANDBOX_UID, SANDBOX_UID)
        try:
            client = KeeperClient("bubblewrap")
            try:
                client.ask_blocking(open_request(Layers(Path(folder)), Limits()), _PROBE_TIMEOUT_S)
            finally:
                client.close()
        except SandboxError as error:
            return str(error)
    return None


BUBBLEWRAP = Backend(open_bubblewrap, probe, remove_stale)
