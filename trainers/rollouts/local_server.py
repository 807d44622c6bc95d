"""Server for one run: ``etude serve`` in a separate process, on the loopback interface, that ends with the run."""

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

HUB = "hub:"
"""Prefix of a task set on the Hub, which the server reads."""
_GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@contextmanager
def local_server(environment: Environment) -> Iterator[str]:
    """Yield the address of the recipe's server, which is started here if the recipe says so; '' without a server.

    Raise RecipeError with the server's own message when it does not start.
    """
    if environment.url or not environment.serve:
        yield environment.url
        return
    with tempfile.TemporaryFile("w+") as log, _process(environment, log.fileno()) as process:
        assert process.stdout is not None
        first_line = process.stdout.readline()
        if not first_line.startswith("serving "):
            process.wait(_GRACE_S)
            log.seek(0)
            lines = log.read().strip().splitlines() or [first_line.strip() or "the server ended without a message"]
            role = "as a set of tasks" if _tasks_of(environment) else "as an environment"
            raise RecipeError(f"cannot serve {environment.serve!r} {role}: {lines[-1].removeprefix('error: ')}")
        yield first_line.removeprefix("serving ").strip()


@contextmanager
def _process(environment: Environment, log: int) -> Iterator[subprocess.Popen[str]]:
    # In a separate process session: Ctrl-C is for this process, whose current step still needs the server.
    process = subprocess.Popen(
        _command(environment),
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
        preexec_fn=_end_with_parent,
    )
    with process, _exit_on_sigterm():
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _end_with_parent() -> None:
    """Ask the kernel, in the server before it starts, to end the server when this process is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Make SIGTERM exit this process normally, so that the server is ended with it.

    This applies to the main thread, and only if SIGTERM has no handler yet: a handler unwinds the stack too.
    """
    unhandled = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if threading.current_thread() is not threading.main_thread() or not unhandled:
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
    if tasks := _tasks_of(environment):
        command += ["--tasks", tasks]
    else:
        command += ["--env", environment.serve]
    for name, value in environment.knobs.items():
        command += ["--knob", f"{name}={json.dumps(value)}"]
    return command


def _tasks_of(environment: Environment) -> str:
    """Return the task set that a recipe serves, '' when it names an environment that makes its own tasks."""
    if environment.serve.startswith(HUB):
        return environment.serve
    folder = Path(environment.serve)
    return str(folder.resolve()) if folder.exists() else ""
