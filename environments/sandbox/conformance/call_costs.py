"""Costs of a sandbox's calls beside those of plain containers and plain bubblewrap, in milliseconds."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from ..protocol import Layers, Sandbox
from ..registry import available, open_sandbox

_STARTS, _CALLS, _SLOW_CALLS = 5, 60, 10


async def measure_calls(sandbox: Sandbox, layers: Layers, backend: str) -> dict[str, float]:
    """Return the median of each call of an open sandbox, and of starting another one."""

    async def start() -> None:
        await (await open_sandbox(layers, backend=backend)).close()

    async def run_true() -> None:
        await sandbox.exec(["/bin/true"])

    async def save_and_restore() -> None:
        saved = await sandbox.save()
        await sandbox.restore(saved)
        saved.close()

    async def list_changes() -> None:
        await sandbox.changes()

    return {
        "start": await _median(start, _STARTS),
        "exec": await _median(run_true, _CALLS),
        "reset": await _median(sandbox.reset, _CALLS),
        "save+restore": await _median(save_and_restore, _CALLS),
        "changes": await _median(list_changes, _CALLS),
    }


def plain_costs() -> dict[str, float]:
    """Return the medians of a command in a new container, in a running one, and in plain bubblewrap.

    An engine whose own command line fails is left out, with the reason on stderr.
    """
    costs = {}
    if shutil.which("bwrap"):
        bare = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "/bin/true"]
        costs["bwrap"] = _median_now(lambda: _run(bare), _SLOW_CALLS)
    for name in ("docker", "podman"):
        if available().get(name) is None:
            try:
                costs.update(_plain_engine(name))
            except (FileNotFoundError, subprocess.CalledProcessError) as error:
                reason = getattr(error, "stderr", None) or str(error).encode()
                print(f"etude: plain {name} is not measured: {reason.decode().strip()[-200:]}", file=sys.stderr)
    return costs


def _plain_engine(name: str) -> dict[str, float]:
    """Measure the engine's own command line, in the image of its sandboxes with the same folders bound."""
    from ..docker.backend import image_arguments

    # Podman asks for more open files and processes than a machine may allow.
    limits = [f"--ulimit={limit}=4096:4096" for limit in ("nofile", "nproc")]
    run = [name, "run", "--rm", "--network", "none", *limits, *image_arguments(name)]
    costs = {f"{name} run": _median_now(lambda: _run([*run, "/bin/true"]), _STARTS)}
    container = f"etude-plain-{os.getpid()}"
    _run([*run[:2], "--name", container, "-d", *run[2:], "/bin/sleep", "100"])
    try:
        costs[f"{name} exec"] = _median_now(lambda: _run([name, "exec", container, "/bin/true"]), _SLOW_CALLS)
    finally:
        subprocess.run([name, "rm", "-f", container], check=False, capture_output=True)
    return costs


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


async def _median(call: Callable[[], Awaitable[None] | None], rounds: int) -> float:
    """Call once to warm up, then return the median of ``rounds`` calls."""
    durations = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        pending = call()
        if inspect.isawaitable(pending):
            await pending
        durations.append(time.perf_counter() - started)
    return statistics.median(durations[1:]) * 1e3


def _median_now(call: Callable[[], None], rounds: int) -> float:
    return asyncio.run(_median(call, rounds))
