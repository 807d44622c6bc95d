"""Helpers that attempts share: system calls by name, and the program that makes attempts and reports how each ended.

An attempt is a function of the target (what the host says about itself, never a secret). It returns what it read, which
counts when it holds one of the host's secrets, or True when it was let in. It raises OSError when it is refused. A
module's attempts are its public functions, and the rows of its table ``ATTEMPTS`` where one expression is enough.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Dict, Union  # noqa: UP035

from ....kernel.linux import syscall
from ....kernel.seccomp import SYSCALLS

if TYPE_CHECKING:
    from typing import TypeAlias

    Attempt: TypeAlias = "Callable[[Target], Found]"

# Evaluated when the module is loaded, by a Python that may be as old as 3.8.
Target = Dict[str, Any]  # noqa: UP006
Found = Union[bytes, bool]  # noqa: UP007

_PATIENCE_S = 20
_COLUMN = {"x86_64": 0, "aarch64": 1}


def call(name: str, *arguments: Any) -> int:
    """Make a system call by its name. Raises OSError, also where the architecture lacks it."""
    number = SYSCALLS[name][_COLUMN.get(os.uname().machine, 0)]
    return syscall(-1 if number is None else number, *arguments)


def in_child(act: Callable[[], object]) -> bool:
    """Act in a forked child and return whether it succeeded, so that this process stays as it is.

    Raises the child's OSError.
    """
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            act()
            code = 0
        except OSError as error:
            code = error.errno or 255
        finally:
            os._exit(code)
    code = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, os.strerror(code))
    return True


def first(act: Callable[[Any], Found], choices: Iterable[Any]) -> Found:
    """Return the first thing that is found. Raises the last OSError when every choice is refused."""
    refused: OSError = FileNotFoundError(2, "nothing to try")
    for choice in choices:
        try:
            result = act(choice)
        except OSError as error:
            refused = error
            continue
        if result:
            return result
    raise refused


def opens(path: str, flags: int = os.O_WRONLY) -> bool:
    """Open a file, write nothing, and return True."""
    os.close(os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK))
    return True


def makes_a_folder_in(parent: str) -> bool:
    """Make a folder, remove it again, and return True."""
    os.mkdir(f"{parent}/etude-escape")
    os.rmdir(f"{parent}/etude-escape")
    return True


def contents(path: str, limit: int = 1 << 18) -> bytes:
    """Return the beginning of a file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    result = b""
    try:
        # Files of the kernel give a page at a time.
        while len(result) < limit and (piece := os.read(descriptor, limit - len(result))):
            result += piece
    finally:
        os.close(descriptor)
    return result


def each_process(name: str) -> Iterator[str]:
    """Yield ``/proc/PID/NAME`` of every other process in sight."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            yield f"/proc/{entry}/{name}"


def gathered(paths: Iterable[str]) -> bytes:
    """Return the contents of all files that may be read. Raises the last OSError when none may."""
    result, refused = b"", None
    for path in paths:
        try:
            result += contents(path)
        except OSError as error:
            refused = error
    if not result and refused is not None:
        raise refused
    return result


def attempts_in(module: types.ModuleType) -> dict[str, Any]:
    """Return the attempts of a module by their names."""
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    functions = {name: value for name, value in public.items() if isinstance(value, types.FunctionType)}
    defined_here = {name: value for name, value in functions.items() if value.__module__ == module.__name__}
    return {**defined_here, **public["ATTEMPTS"]}


def run(job: dict[str, Any]) -> None:
    """Make each attempt in a child and print a line of JSON: its name, and how it ended.

    That is ``did``, ``read`` with what was read, ``refused`` with the error's number and text, or ``broke`` with why.
    """
    for module, name in job["attempts"]:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            signal.alarm(_PATIENCE_S)
            _write_all(writer, _outcome(attempts_in(sys.modules[module])[name], job["target"]))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            text = pipe.read() or b"broke without a word"
        os.waitpid(pid, 0)
        print(json.dumps([name, text.decode("latin-1")]), flush=True)


def _outcome(attempt: Callable[[Target], Found], target: Target) -> bytes:
    try:
        result = attempt(target)
    except OSError as error:
        return f"refused {error.errno} {error}".encode("utf-8", "replace")
    except BaseException as error:  # noqa: BLE001 - a broken attempt must be seen, it proves nothing
        return f"broke {error!r}".encode("utf-8", "replace")
    return b"did" if result is True else b"read " + (result or b"")


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
