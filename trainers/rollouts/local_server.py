"""A server for one run alone: ``etude serve`` in a process of its own, on the loopback, ended with the run."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import RecipeError
from ..recipe.recipe import Environment

DRILL = "drill"
_GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@contextmanager
def served(environment: Environment) -> Iterator[str]:
    """The address of the server: the recipe's own, or one started now, or '' without either. Raises RecipeError."""
    if environment.url or not environment.serve:
        yield environment.url
        return
    with tempfile.TemporaryFile("w+") as said, _started(environment, said.fileno()) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        if not first.startswith("serving "):
            process.wait(_GRACE_S)
            said.seek(0)
            lines = said.read().strip().splitlines() or [first.strip() or "it ended without a word"]
            raise RecipeError(f"cannot serve {environment.serve!r}: {lines[-1].removeprefix('error: ')}")
        yield first.removeprefix("serving ").strip()


@contextmanager
def _started(environment: Environment, errors: int) -> Iterator[subprocess.Popen[str]]:
    # A session of its own: an interrupt is ours to hear, and the step under way still needs the server.
    process = subprocess.Popen(
        _command(environment),
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
        preexec_fn=_end_with_us,
    )
    with process, _ended_by_sigterm():
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _end_with_us() -> None:
    """In the server, before it begins: the system ends it when this process is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Whoever ends this process ends the server with it: SIGTERM unwinds like an exit. Main thread only, and only
    where nobody hears it yet: whoever does unwinds too."""
    unheard = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if threading.current_thread() is not threading.main_thread() or not unheard:
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _command(environment: Environment) -> list[str]:
    package = (__package__ or "").partition(".")[0]
    command = [sys.executable, "-u", "-m", f"{package}.cli", "serve", "--port", "0"]
    if environment.serve == DRILL:
        command += ["--env", DRILL]
    else:
        command += ["--tasks", str(Path(environment.serve).resolve())]
    for name, value in environment.knobs.items():
        command += ["--knob", f"{name}={json.dumps(value)}"]
    return command
