"""Writing of many files with one command: each command costs as much as the start of a small test run."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from ....errors import SandboxError
from ...sandbox import Sandbox

WRITE_FILES = """
import os as _os, sys as _sys

def _write_files():
    stream = _sys.stdin.buffer
    for _ in range(int(stream.readline())):
        kind, path_size, size = stream.readline().split()
        path, content = stream.read(int(path_size)), stream.read(int(size))
        try:
            if kind == b"delete":
                if _os.path.lexists(path):
                    _os.remove(path)
                continue
            if _os.path.exists(path) and not _os.path.isfile(path):
                _sys.exit("cannot write %s: not a regular file" % _os.fsdecode(path))
            _os.makedirs(_os.path.dirname(path) or b".", exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
            if kind == b"executable":
                _os.chmod(path, _os.stat(path).st_mode | 0o111)
        except OSError as error:
            verb = "delete" if kind == b"delete" else "write"
            _sys.exit("cannot %s %s: %s" % (verb, _os.fsdecode(path), error.strerror))

_write_files()
"""
"""Text of a program that writes the files at the beginning of its standard input, and leaves the rest unread."""


class NotWritten(OSError):
    """Raised when files cannot be written in a sandbox; the text says which and why."""

    def __init__(self, message: str, exit_code: int | None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        """Exit code of the command; 128 + n where signal n ended it."""


def packed_files(files: Mapping[str, bytes | None], executable: Collection[str] = ()) -> bytes:
    """Return files as WRITE_FILES reads them: paths in the workspace with their contents, None for one to delete.

    Deletions come first: a folder may take the place of a file.
    """
    parts = [b"%d\n" % len(files)]
    for path, content in sorted(files.items(), key=lambda item: item[1] is not None):
        kind = b"delete" if content is None else b"executable" if path in executable else b"file"
        name, data = os.fsencode(path), content or b""
        parts.append(b"%s %d %d\n%s%s" % (kind, len(name), len(data), name, data))
    return b"".join(parts)


async def write_files(sandbox: Sandbox, files: Mapping[str, bytes | None], executable: Collection[str] = ()) -> None:
    """Write files below ``/workspace``, making their folders; None deletes one, if it is there.

    The sandbox needs Python. Raises NotWritten, and SandboxError when the sandbox fails.
    """
    if not files:
        return
    command = ["python", "-I", "-S", "-B", "-c", WRITE_FILES]
    result = await sandbox.exec(command, stdin=packed_files(files, executable), output_limit=4096)
    if result.killed:  # no code of an agent runs here
        raise SandboxError("the command that writes the files was killed from outside")
    if result.exit_code != 0:
        message = result.output.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise NotWritten(message or "the files could not be written", result.exit_code)
