"""Steps over a WebSocket against Etude's server and against OpenEnv's echo environment, with the same client."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import BenchError
from .projects import SCRIPTS, interpreter

SESSIONS, STEPS = 16, 100
"""Sessions at once, and steps of each."""
START_S = 60
"""Seconds in which a server must answer."""
TEXT = "x" * 500
ACTIONS: dict[str, dict[str, Any]] = {"etude": {"text": TEXT, "tool_calls": []}, "openenv": {"message": TEXT}}
"""Data of a step frame, by side: each answers with the same text."""


def wire_times(side: str, rounds: int) -> dict[str, list[float]]:
    """Return milliseconds of a step alone (``step``) and of one among many sessions (``step, 16 sessions``).

    Raises BenchError.
    """
    with _server(side) as url:
        return asyncio.run(_measure(url, ACTIONS[side], rounds))


async def _measure(url: str, action: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"step": [], f"step, {SESSIONS} sessions": []}
    await _play(url, action, STEPS)
    for _ in range(rounds):
        times["step"] += await _play(url, action, STEPS)
        started = time.perf_counter()
        await asyncio.gather(*(_play(url, action, STEPS) for _ in range(SESSIONS)))
        spent = (time.perf_counter() - started) * 1e3
        times[f"step, {SESSIONS} sessions"].append(spent / (SESSIONS * STEPS))
    return times


async def _play(url: str, action: dict[str, Any], steps: int) -> list[float]:
    """Open a session, play some steps, and return the milliseconds of each."""
    from websockets.asyncio.client import connect

    times = []
    async with connect(url) as socket_:
        await socket_.send(json.dumps({"type": "reset", "data": {}}))
        await socket_.recv()
        frame = json.dumps({"type": "step", "data": action})
        for _ in range(steps):
            started = time.perf_counter()
            await socket_.send(frame)
            answer = await socket_.recv()
            times.append((time.perf_counter() - started) * 1e3)
            if TEXT not in str(answer):
                raise BenchError(f"the server at {url} does not echo: {str(answer)[:200]}")
        await socket_.send(json.dumps({"type": "close", "data": {}}))
    return times


@contextmanager
def _server(side: str) -> Iterator[str]:
    """Run a side's server in a separate process and yield the address of its WebSocket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="etude-bench-") as folder:
        if side == "openenv":
            script = str(SCRIPTS / "openenv_echo.py")
            command = [str(interpreter("openenv")), script, folder, str(port), str(SESSIONS)]
        else:
            module = f"{__package__}.echo_server"
            command = [sys.executable, "-m", module, str(port), str(SESSIONS)]
        log = Path(folder, "server.log")
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            _wait_for(port, process, log)
            yield f"ws://127.0.0.1:{port}/ws"
        finally:
            process.terminate()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server accepts connections. Raises BenchError when it ends or does not start in time."""
    limit = time.monotonic() + START_S
    while time.monotonic() < limit and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
    raise BenchError(f"a server did not start: {lines[-1]}")
