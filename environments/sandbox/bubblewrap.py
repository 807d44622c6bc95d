"""The bubblewrap backend: every namespace, a sized overlay in memory, milliseconds per command; as root or not."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from pathlib import Path

from ...models import SandboxReport
from . import MIB, SANDBOX_UID, Change, Layers, Limits, SandboxError
from .base import KeptSandbox, open_request
from .changes import upper_changes
from .link import Line

_PROBE_TIMEOUT_S = 20.0
# Without control groups a limit holds for each process, not for their sum.
_LACKS_WITHOUT_CGROUPS = ["cpu-share", "memory-total"]


class Bubblewrap(KeptSandbox):
    kind = "bubblewrap"

    async def changes(self, *, max_files: int = 10_000, max_bytes: int = 1 * MIB) -> list[Change]:
        _, (upper,) = await self._line.ask({"op": "upper"})
        try:
            lower = self._layers.workspace
            return await asyncio.to_thread(upper_changes, upper, lower, max_files, max_bytes, self._limits.disk)
        finally:
            os.close(upper)

    def _not_started(self, output: bytes) -> tuple[int, bytes]:
        # bwrap reports an exit code exactly when the command ran, so nothing the command prints can look like this.
        missing = re.fullmatch(rb"bwrap: (?:execvp|Can't chdir to) (.*): ([^:]*)\n", output, re.DOTALL)
        if missing is None:
            return super()._not_started(output)
        code = 127 if output.startswith(b"bwrap: execvp") and missing[2].startswith(b"No such file") else 126
        return code, b"etude: " + missing[1] + b": " + missing[2] + b"\n"


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
