"""A plain subprocess in place of a sandbox, with a collector of changes that follows links and trusts times.

Every attempt is made here first: one that does not work here proves nothing elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ...layers.changes import Change
from ...protocol import WORKSPACE, ExecResult, Layers, Sandbox

_PATIENCE_S = 60.0


class NaiveBox:
    """A copy of the workspace, and plain subprocesses in it."""

    def __init__(self, folder: Path, layers: Layers, inherited: tuple[int, ...]) -> None:
        self._root = folder
        self._inherited = inherited
        self._layers = layers
        self._copy()

    def _copy(self) -> None:
        shutil.copytree(self._layers.workspace, self._root, symlinks=True)
        self._before = {path: self._look(path) for path in self._files()}

    def _files(self) -> list[Path]:
        """Return every regular file, below links to folders too."""
        files: list[Path] = []
        for folder, _, names in os.walk(self._root, followlinks=True):
            files += [Path(folder, name) for name in names if Path(folder, name).is_file()]
        return files

    def _look(self, path: Path) -> tuple[int, int]:
        return path.stat().st_size, path.stat().st_mtime_ns

    def _path(self, path: str) -> Path:
        return self._root / os.path.relpath(path, WORKSPACE) if path.startswith(WORKSPACE) else self._root / path

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: bytes | None = None,
        output_limit: int | None = None,
    ) -> ExecResult:
        """Run a command with the server's environment, rights and descriptors."""
        words = ["bash", "-c", command] if isinstance(command, str) else list(command)
        if words[0] == "/usr/bin/python3":
            words[0] = sys.executable
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=self._root,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=self._inherited,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(stdin), timeout_s or _PATIENCE_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            return ExecResult(None, b"", timed_out=True)
        return ExecResult(process.returncode, output)

    async def read(self, path: str, limit: int = 1 << 24) -> bytes:
        """Return a file's content, through links and from pipes."""
        return await asyncio.to_thread(self._path(path).read_bytes)

    async def write(self, path: str, data: bytes) -> None:
        """Write a file, through links."""
        await asyncio.to_thread(self._path(path).write_bytes, data)

    async def changes(self) -> list[Change]:
        """Return the files that are new or have another size or time, as a quick collector does."""
        changes = []
        for path in self._files():
            if self._before.get(path) != self._look(path):
                name = str(path.relative_to(self._root))
                changes.append(Change(name, "file", path.stat().st_size, content=path.read_bytes()))
        gone = [path for path in self._before if not os.path.lexists(path)]
        return changes + [Change(str(path.relative_to(self._root)), "deleted") for path in gone]

    async def reset(self) -> None:
        """Copy the workspace again; what lies elsewhere stays."""
        await asyncio.to_thread(shutil.rmtree, self._root)
        await asyncio.to_thread(self._copy)


Box = Sandbox | NaiveBox
"""Where attempts are made."""
