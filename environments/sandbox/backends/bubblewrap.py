"""The bubblewrap backend: every namespace, a sized overlay in memory, milliseconds per command; as root or not."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from ....errors import SandboxError
from ....models import SandboxReport
from .. import MIB, SANDBOX_UID, Change, Layers, Limits
from ..keeper.client import Line
from ..layers.changes import upper_changes
from ..layers.restore_layer import fill, owner_of_layers
from ..layers.save_layer import Folder
from .kept_sandbox import KeptSandbox, open_request, uninterrupted

_PROBE_TIMEOUT_S = 20.0
# Without control groups a limit holds for each process, not for their sum.
_LACKS_WITHOUT_CGROUPS = ["cpu-share", "memory-total"]


class Bubblewrap(KeptSandbox):
    kind = "bubblewrap"

    async def changes(self, *, max_files: int = 10_000, max_bytes: int = 1 * MIB) -> list[Change]:
        layer = await self._open_layer()
        upper = os.open("upper", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=layer)
        try:
            lower = self._layers.workspace
            return await uninterrupted(lambda: upper_changes(upper, lower, max_files, max_bytes, self._limits.disk))
        finally:
            os.close(upper)
            os.close(layer)

    async def _open_layer(self) -> int:
        _, (layer,) = await self._line.ask({"op": "layer"})
        return layer

    def _layer_folders(self) -> dict[str, Path | None]:
        return dict.fromkeys(("upper", "tmp", "shm"))

    async def _lay(self, tree: Folder) -> None:
        # An overlay does not notice, or survive, what changes below it: so the new layer is filled before its mount.
        _, (layer,) = await self._line.ask({"op": "new_layer"})
        try:
            await uninterrupted(lambda: fill(layer, tree, owner_of_layers()))
        finally:
            os.close(layer)
        await self._line.ask({"op": "reset", "filled": True})

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
    """A new sandbox. Raises SandboxUnavailable where bubblewrap cannot work, SandboxError for a bad request."""
    line = Line("bubblewrap")
    try:
        answer, _ = await line.ask(open_request(layers, limits))
    except BaseException:
        line.close()
        raise
    lacks = [] if answer["limits"] == "cgroup" else _LACKS_WITHOUT_CGROUPS
    report = SandboxReport(backend="bubblewrap", isolation="namespaces", limits=answer["limits"], lacks=list(lacks))
    return Bubblewrap(line, layers, limits, report)


def probe() -> str | None:
    """None when a sandbox can be opened here, else why not. Blocks for some tens of milliseconds."""
    with tempfile.TemporaryDirectory(prefix="etude-probe-") as folder:
        if os.geteuid() == 0:
            os.chown(folder, SANDBOX_UID, SANDBOX_UID)
        try:
            line = Line("bubblewrap")
            try:
                line.ask_blocking(open_request(Layers(Path(folder)), Limits()), _PROBE_TIMEOUT_S)
            finally:
                line.close()
        except SandboxError as error:
            return str(error)
    return None
