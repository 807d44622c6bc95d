"""What the backends with a keeper share: running a command, and reading and writing files by running one.

Files are read and written by commands inside the sandbox, so that links, permissions, pipes and full disks mean exactly
what they mean to the agent, and nothing of ours ever opens a path that the agent arranged.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ....errors import SandboxError
from ....models import SandboxReport
from .. import ENV_PREFIX, MIB, WORKSPACE, Change, ExecResult, Layers, Limits, SavedLayer
from ..keeper.capture import Capture, Prefix, Pump
from ..keeper.client import Line, as_file
from ..layers.save_layer import Folder, Saved, scan, tree_of

T = TypeVar("T")

BASE_ENV = {
    "PATH": f"{ENV_PREFIX}/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    # What a program prints to stdout and stderr stays in order.
    "PYTHONUNBUFFERED": "1",
    # Without mounts the host's file is there and closed, which git takes for an error.
    "GIT_CONFIG_NOSYSTEM": "1",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "USER": "etude",
    "LOGNAME": "etude",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
    # For programs that must know it where the backend has no mounts.
    "ETUDE_WORKSPACE": WORKSPACE,
}
_CHANNEL_FD = "3"
_FILE_TIMEOUT_S = 60.0

_READ = """
[ -d "$1" ] && exit 41
if [ ! -e "$1" ]; then
    above=$(dirname -- "$1")
    [ -d "$above" ] && [ ! -x "$above" ] && exit 42
    exit 40
fi
[ -f "$1" ] || exit 43
[ -r "$1" ] || exit 42
exec head -c "$2" <"$1"
"""
_WRITE = """
[ -d "$1" ] && exit 41
if [ -e "$1" ] && [ ! -f "$1" ]; then exit 43; fi
mkdir -p -- "$(dirname -- "$1")" && cat >"$1"
"""
_REASONS: dict[int, tuple[type[OSError], int, str]] = {
    40: (FileNotFoundError, errno.ENOENT, "no such file"),
    41: (IsADirectoryError, errno.EISDIR, "is a directory"),
    42: (PermissionError, errno.EACCES, "permission denied"),
    43: (PermissionError, errno.EPERM, "not a regular file"),
}


class KeptSandbox:
    """A sandbox that a keeper holds; the backends override how paths, words and changes look."""

    kind = ""

    def __init__(self, line: Line, layers: Layers, limits: Limits, report: SandboxReport) -> None:
        self.report = report
        self._line = line
        self._layers = layers
        self._limits = limits
        self._busy = False
        self._kept: Folder | None = None

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str = WORKSPACE,
        output_limit: int | None = None,
        channel: bool = False,
        channel_limit: int = 64 * MIB,
    ) -> ExecResult:
        words = [as_word(word) for word in (["bash", "-c", command] if isinstance(command, str) else command)]
        environment = {**BASE_ENV, **self._layers.env, **(env or {})}
        if not words or any(b"\0" in word for word in words):
            return ExecResult(126, b"etude: a command needs at least one word, and no word may hold a NUL byte\n")
        for name, value in environment.items():
            if not name or "=" in name or "\0" in name + value:
                raise ValueError(f"not an environment variable: {name!r}")
        if channel:
            environment["ETUDE_CHANNEL"] = _CHANNEL_FD
        request = {
            "op": "exec",
            "argv": [word.decode("latin-1") for word in self._inside(words)],
            "env": {key: self._inside([as_word(value)])[0].decode("latin-1") for key, value in environment.items()},
            "cwd": self._inside([as_word(os.path.join(WORKSPACE, cwd))])[0].decode("latin-1"),
            "timeout_s": self._limits.timeout_s if timeout_s is None else timeout_s,
        }
        limit = self._limits.output if output_limit is None else output_limit
        result = await self._run(request, stdin, limit, channel_limit if channel else None)
        return await self._after(dataclasses.replace(result, output=self._outside(result.output)))

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        result = await self._file_command(_READ, [path, str(limit + 1)], b"", limit + 1)
        self._raise_for(path, result)
        if len(result.output) > limit:
            raise ValueError(f"{path}: larger than {limit} bytes")
        return result.output

    async def write(self, path: str, data: bytes) -> None:
        self._raise_for(path, await self._file_command(_WRITE, [path], data, 4096))

    async def _file_command(self, script: str, arguments: list[str], data: bytes, limit: int) -> ExecResult:
        if "\0" in arguments[0] or not arguments[0]:
            raise FileNotFoundError(errno.ENOENT, "not a path", arguments[0])
        full = [os.path.join(WORKSPACE, arguments[0]), *arguments[1:]]
        words = self._inside([b"/bin/sh", b"-c", script.encode(), b"sh", *map(as_word, full)])
        request = {
            "op": "exec",
            "argv": [word.decode("latin-1") for word in words],
            "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            "cwd": "/",
            "timeout_s": _FILE_TIMEOUT_S,
        }
        return await self._run(request, data, limit, None)

    def _raise_for(self, path: str, result: ExecResult) -> None:
        """Turn a file command's failure into the matching OSError."""
        if result.exit_code == 0:
            return
        if result.timed_out:
            raise OSError(errno.ETIMEDOUT, "timed out", path)
        if result.exit_code in _REASONS:
            kind, code, text = _REASONS[result.exit_code]
            raise kind(code, text, path)
        message = self._outside(result.output).decode("utf-8", "replace").strip().rpartition("\n")[2]
        known = [
            code for code in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOTDIR) if os.strerror(code) in message
        ]
        code = known[0] if known else errno.EIO
        raise OSError(code, message.rpartition(": ")[2] if known else message or "failed", path)

    async def _run(
        self, request: Mapping[str, Any], stdin: bytes | None, limit: int, channel: int | None
    ) -> ExecResult:
        with self._claimed():
            return await self._run_claimed(request, stdin, limit, channel)

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        if self._busy:
            raise SandboxError("this sandbox is busy: one call at a time")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    async def _run_claimed(
        self, request: Mapping[str, Any], stdin: bytes | None, limit: int, channel: int | None
    ) -> ExecResult:
        output, private = Capture(limit), Prefix(channel or 0)
        pumps = [Pump(output.feed)] + ([Pump(private.feed)] if channel is not None else [])
        source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) if not stdin else as_file(stdin)
        try:
            named = dict(zip(("output", "channel"), (pump.writer for pump in pumps), strict=False))
            named["stdin"] = source
            self._line.send({**request, "fds": list(named)}, list(named.values()))
            for pump in pumps:
                pump.close_writer()
            reply = await self._answer()
        finally:
            os.close(source)
            for pump in pumps:
                pump.finish()
        return self._result(reply, *output.result(), private.result())

    async def _answer(self) -> dict[str, Any]:
        """The reply to an exec; a cancelled caller leaves a killed command, not a running one."""
        try:
            return (await self._line.receive())[0]
        except asyncio.CancelledError:
            try:
                self._line.send({"op": "kill"})
                await self._line.receive()
            except (asyncio.CancelledError, SandboxError):
                self._line.close()
            raise

    def _result(self, reply: Mapping[str, Any], output: bytes, dropped: int, channel: bytes) -> ExecResult:
        code = reply.get("exit-code")
        if "refused" in reply:
            code, output = reply.get("code", 126), f"etude: {reply['refused']}\n".encode()
        elif "failed" in reply:
            raise SandboxError(f"{self.kind} failed: {reply['failed']}")
        timed_out = reply["timed_out"] and code is None
        if code is None and not timed_out:
            code, output = (137, output) if reply["oom"] else self._not_started(output)
        return ExecResult(code, output, dropped, timed_out, reply["oom"], reply["seconds"], channel)

    def _not_started(self, output: bytes) -> tuple[int, bytes]:
        """Return exit code and output of a command that never ran, when that is its own fault. Raises SandboxError."""
        # Output that is not the monitor's own is the command's, and says nothing about why its monitor is gone.
        why = output.decode("utf-8", "replace").strip()[-500:] if self._is_own(output) else ""
        raise SandboxError(f"{self.kind} failed: {why or 'killed from outside'}")

    def _is_own(self, output: bytes) -> bool:
        """Return whether the backend's monitor printed this, not the command."""
        return False

    def _inside(self, words: list[bytes]) -> list[bytes]:
        """Words as the command must see them."""
        return words

    def _outside(self, output: bytes) -> bytes:
        """Output as the caller must see it."""
        return output

    async def _after(self, result: ExecResult) -> ExecResult:
        """A last look at a finished command's result."""
        return result

    async def changes(self, *, max_files: int = 10_000, max_bytes: int = 1 * MIB) -> list[Change]:
        raise NotImplementedError

    async def reset(self) -> None:
        self._kept = None
        await self._line.ask({"op": "reset"})

    async def save(self, *, max_files: int = 10_000, max_bytes: int = 64 * MIB) -> SavedLayer:
        self._line.check_open()
        with self._claimed():
            layer = await self._open_layer()
            try:
                saved = await uninterrupted(
                    lambda: scan(layer, self._kept, max_files, max_bytes, self._layer_folders())
                )
            except OSError as error:
                raise SandboxError(f"cannot save the writable layer: {error}") from error
            finally:
                os.close(layer)
        self._kept = saved[0]
        return Saved(self._saved_of, *saved)

    async def restore(self, saved: SavedLayer) -> None:
        self._line.check_open()
        tree = tree_of(saved, self._saved_of)
        with self._claimed():
            try:
                await self._lay(tree)
            except OSError as error:
                raise SandboxError(f"cannot restore a writable layer: {error}") from error
        self._kept = tree

    @property
    def _saved_of(self) -> tuple[str, Path]:
        return self.kind, self._layers.workspace

    async def _open_layer(self) -> int:
        """A descriptor of the folder that holds the writable layer's folders."""
        raise NotImplementedError

    def _layer_folders(self) -> dict[str, Path | None]:
        """The writable layer's folders; a path is the lower tree that one of them is a whole copy of."""
        raise NotImplementedError

    async def _lay(self, tree: Folder) -> None:
        """Drop what was written, and go on with ``tree``. Raises OSError, SandboxError."""
        raise NotImplementedError

    async def close(self) -> None:
        """Kill and drop everything; a call that still waits raises SandboxError."""
        if self._line.closed:
            return
        if not self._busy:
            try:
                await self._line.ask({"op": "close"})
            except SandboxError:
                # Nobody holds the sandbox any more, which is what close is for.
                pass
        self._line.close()


async def uninterrupted(call: Callable[[], T]) -> T:
    """Run ``call`` in a thread. A cancelled caller waits for it: it works on files that go with the caller."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def as_word(text: str) -> bytes:
    """Bytes for an argument: undecodable bytes come back as they were, lone surrogates become question marks."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def open_request(layers: Layers, limits: Limits, **more: object) -> dict[str, object]:
    """The first request of every sandbox."""
    return {
        "op": "open",
        "workspace": str(layers.workspace.resolve()),
        "binds": {inside: str(host.resolve()) for inside, host in layers.binds.items()},
        "limits": {
            "memory": limits.memory,
            "disk": limits.disk,
            "files": limits.files,
            "processes": limits.processes,
            "cpus": limits.cpus,
        },
        **more,
    }
