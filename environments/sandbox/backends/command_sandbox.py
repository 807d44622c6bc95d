"""The part of a sandbox that all backends share: running a command, and reading and writing files by running one.

Files are read and written by commands inside the sandbox, so that links, permissions, pipes and full disks mean exactly
what they mean to the agent, and the server never opens a path that the agent arranged.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ....errors import SandboxError
from ....models import SandboxReport
from ..protocol import ENV_PREFIX, MIB, WORKSPACE, ExecResult, Layers, Limits, SavedLayer

BASE_ENV = {
    "PATH": f"{ENV_PREFIX}/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    # What a program prints to stdout and stderr stays in order.
    "PYTHONUNBUFFERED": "1",
    # Without mounts the host's file exists but cannot be read, which git takes for an error.
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


@dataclasses.dataclass
class SavedState:
    """A saved writable layer; see ``SavedLayer``."""

    origin: tuple[str, Path]
    """The backend and the workspace that it fits."""
    content: Any
    """What the backend made of the layer; None after ``close``."""
    size: int

    def close(self) -> None:
        self.content = None


class CommandSandbox:
    """A sandbox by its commands; the backends say how one is run, and how paths look to it."""

    kind = ""

    def __init__(self, layers: Layers, limits: Limits, report: SandboxReport) -> None:
        self.report = report
        self._layers = layers
        self._limits = limits
        self._busy = False

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        cpu_s: float | None = None,
        idle_s: float | None = None,
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
                raise ValueError(f"not an environment variable: {name!r}; names have no '=' and values no NUL byte")
        if channel:
            environment["ETUDE_CHANNEL"] = _CHANNEL_FD
        request = self._request(words, environment, cwd, self._limits.timeout_s if timeout_s is None else timeout_s)
        limit = self._limits.output if output_limit is None else output_limit
        result = await self._run(
            {**request, "cpu_s": cpu_s, "idle_s": idle_s}, stdin, limit, channel_limit if channel else None
        )
        return await self._checked(dataclasses.replace(result, output=self._outward(result.output)))

    def _request(self, words: list[bytes], env: Mapping[str, str], cwd: str, timeout_s: float) -> dict[str, Any]:
        return {
            "op": "exec",
            "argv": [word.decode("latin-1") for word in self._inward(words)],
            "env": {key: self._inward([as_word(value)])[0].decode("latin-1") for key, value in env.items()},
            "cwd": self._inward([as_word(os.path.join(WORKSPACE, cwd))])[0].decode("latin-1"),
            "timeout_s": timeout_s,
            "cpu_s": None,
            "idle_s": None,
        }

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        result = await self._file_command(_READ, [path, str(limit + 1)], b"", limit + 1)
        self._raise_for(path, result)
        if len(result.output) > limit:
            raise ValueError(f"{path}: larger than {limit} bytes; ask for more with limit")
        return result.output

    async def write(self, path: str, data: bytes) -> None:
        self._raise_for(path, await self._file_command(_WRITE, [path], data, 4096))

    async def _file_command(self, script: str, arguments: list[str], data: bytes, limit: int) -> ExecResult:
        if "\0" in arguments[0] or not arguments[0]:
            raise FileNotFoundError(errno.ENOENT, "not a path", arguments[0])
        full = [os.path.join(WORKSPACE, arguments[0]), *arguments[1:]]
        words = [b"/bin/sh", b"-c", script.encode(), b"sh", *map(as_word, full)]
        request = self._request(words, {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, "/", _FILE_TIMEOUT_S)
        return await self._run(request, data, limit, None)

    def _raise_for(self, path: str, result: ExecResult) -> None:
        """Raise the OSError that matches a file command's failure."""
        if result.exit_code == 0:
            return
        if result.timed_out:
            raise OSError(errno.ETIMEDOUT, "timed out", path)
        if result.exit_code in _REASONS:
            kind, code, text = _REASONS[result.exit_code]
            raise kind(code, text, path)
        message = self._outward(result.output).decode("utf-8", "replace").strip().rpartition("\n")[2]
        codes = [
            code for code in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOTDIR) if os.strerror(code) in message
        ]
        code = codes[0] if codes else errno.EIO
        raise OSError(code, message.rpartition(": ")[2] if codes else message or "failed", path)

    def _saved_state(self, content: object, size: int) -> SavedState:
        return SavedState((self.kind, self._layers.workspace), content, size)

    def _saved_content(self, saved: SavedLayer) -> Any:
        """Return the content of a saved layer. Raises SandboxError for one that is closed or does not fit."""
        if not isinstance(saved, SavedState):
            raise SandboxError(f"a {type(saved).__name__} was not saved by {self.kind}")
        if saved.origin != (self.kind, self._layers.workspace):
            raise SandboxError(
                f"this layer was saved by {saved.origin[0]} over {saved.origin[1]}; it fits no other sandbox"
            )
        if saved.content is None:
            raise SandboxError("this saved layer is closed; restore before close")
        return saved.content

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Refuse other calls meanwhile."""
        if self._busy:
            raise SandboxError("this sandbox is busy; make one call at a time")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    async def _run(
        self, request: Mapping[str, Any], stdin: bytes | None, limit: int, channel_limit: int | None
    ) -> ExecResult:
        """Run a requested command; ``limit`` bytes of output, a private channel when it has a limit."""
        raise NotImplementedError

    def _result(self, reply: Mapping[str, Any], output: bytes, dropped: int, channel: bytes) -> ExecResult:
        """Return the result that a reply to ``exec`` means. Raises SandboxError."""
        code = reply.get("exit-code")
        if "refused" in reply:
            code, output = reply.get("code", 126), f"etude: {reply['refused']}\n".encode()
        elif "failed" in reply:
            raise SandboxError(f"{self.kind} failed: {reply['failed']}")
        timed_out = reply["timed_out"] and code is None
        if code is None and not timed_out:
            code, output = (137, output) if reply["oom"] else self._not_started(output)
        return ExecResult(
            code, output, dropped, timed_out, reply["oom"], reply["seconds"], reply["cpu_seconds"], channel
        )

    def _not_started(self, output: bytes) -> tuple[int, bytes]:
        """Return exit code and output of a command that never ran by its own fault. Raises SandboxError otherwise."""
        # Output that is not the monitor's own is the command's, and does not explain why its monitor ended.
        reason = output.decode("utf-8", "replace").strip()[-500:] if self._is_own(output) else ""
        raise SandboxError(f"{self.kind} failed: {reason or 'killed from outside'}")

    def _is_own(self, output: bytes) -> bool:
        """Return whether the backend's monitor printed this, not the command."""
        return False

    def _inward(self, words: list[bytes]) -> list[bytes]:
        """Return words as the command must see them."""
        return words

    def _outward(self, output: bytes) -> bytes:
        """Return output as the caller must see it."""
        return output

    async def _checked(self, result: ExecResult) -> ExecResult:
        """Return a finished command's result after a last look at the sandbox."""
        return result


def as_word(text: str) -> bytes:
    """Return an argument's bytes: undecodable bytes as they were, lone surrogates as question marks."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")
