"""Several runs of the same tests on several versions of the sources, in one process that has loaded pytest once.

``run_versions`` sends this file's text to the sandbox ahead of the plugin's: each run is a fork that writes its version
and then falls through to the plugin, which finds its own job on standard input. A run knows neither the versions of the
other runs nor their keys. It runs on Python 3.8 and later.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import importlib.util
import json
import os
import signal
import sys
import time

_PAUSE = 0.003


def _load_pytest() -> None:
    """Import pytest with its own plugins before the forks; the workspace is not importable meanwhile."""
    root = os.getcwd()
    before = list(sys.path)
    sys.path[:] = [path for path in sys.path if not (path + os.sep).startswith(root + os.sep)]
    if importlib.util.find_spec("pytest") is not None:
        from _pytest import config

        for name in config.default_plugins:
            with contextlib.suppress(ImportError):
                importlib.import_module("_pytest." + name)
    sys.path[:] = before


def _write(files: dict[str, str | None]) -> None:
    """Write the version's files in the workspace; None deletes one."""
    for path, content in files.items():
        if content is not None:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "wb") as file:  # noqa: PTH123  pathlib takes longer to import
                file.write(base64.b64decode(content))
        elif os.path.lexists(path):
            os.remove(path)


def _wait(child: int, seconds: float) -> None:
    """Wait for a run, and end what it started; one that is not over in time is killed."""
    end = time.monotonic() + seconds
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(_PAUSE)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)


def _become_run(text: bytes) -> None:
    """Write the version, and leave its job on standard input."""
    os.setpgid(0, 0)
    version = json.loads(text)
    _write(version["files"])
    job = json.dumps(version["job"]).encode()
    read, write = os.pipe()
    os.write(write, job)
    os.close(write)
    os.dup2(read, 0)
    os.close(read)
    sys.stdin = os.fdopen(0, closefd=False)


def _fork_runs() -> None:
    """Make a fork for each version, one after the other; return in the forks alone."""
    stream = sys.stdin.buffer
    count, seconds = stream.readline().split()
    versions = [bytearray(stream.read(int(stream.readline()))) for _ in range(int(count))]
    _load_pytest()
    for version in versions:
        child = os.fork()
        if not child:
            text = bytes(version)
            for other in versions:
                other[:] = bytes(len(other))
            _become_run(text)
            return
        with contextlib.suppress(OSError):  # the fork does the same; whichever is first
            os.setpgid(child, child)
        _wait(child, float(seconds))
    os._exit(0)


_fork_runs()
