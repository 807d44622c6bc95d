"""Ten thousand random frames: each is answered, with little work, and keeps little memory."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import httpx
import pytest
from helpers.paths import ROOT
from helpers.random_frames import Frame, FrameMaker
from helpers.serve_process import ServeProcess, etude_serve
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from etude.client import connect as etude_connect

SEED = 20261129
FRAMES, WARM_UP = 10_000, 4_000
CPU_S = 1.0
"""Most CPU seconds of the server for one frame."""
GROWTH = 24 << 20
"""Most bytes by which the memory may grow after the warm-up: 4 KiB for each frame."""
STORES = {"ETUDE_KEEP_MB": "8", "ETUDE_ARCHIVE_MB": "8"}
"""Small stores of ended episodes, so that what grows is not theirs."""
ANSWERS = {"observation", "state", "error", "mcp"}
CODES = {"INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR", "EXECUTION_ERROR"}
PRIVATE = ("Traceback", 'File "', "site-packages", str(ROOT), str(Path.home()) + "/")

pytestmark = pytest.mark.slow


def cpu_seconds(server: ServeProcess) -> float:
    """Return the CPU time that the server has used; unlike a clock, it does not depend on what else runs."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def opened(server: ServeProcess) -> ClientConnection:
    address = "ws" + server.url.removeprefix("http") + "/ws"
    return connect(address, proxy=None, max_size=None, ping_interval=None, close_timeout=60)


def ask(socket: ClientConnection, frame: Frame) -> str:
    """Send a frame and return its answer; it is a hang when none comes within two minutes."""
    if isinstance(frame, tuple):
        socket.send(frame[0], text=True)
    else:
        socket.send(frame)
    answer = socket.recv(timeout=120)
    assert isinstance(answer, str)
    return answer


def check(answer: str, frame: Frame) -> None:
    parsed = json.loads(answer)
    assert parsed["type"] in ANSWERS, (answer[:300], frame[:300])
    if parsed["type"] == "error":
        assert parsed["data"]["code"] in CODES, (answer[:300], frame[:300])
        # A refusal may quote the frame, and no random frame holds these texts.
        assert not parsed["data"]["message"].startswith("infrastructure"), (answer[:300], frame[:300])
    assert not any(text in answer for text in PRIVATE), (answer[:2000], frame[:300])


def test_server_stays_healthy_and_lean_on_random_frames() -> None:
    with etude_serve("--env", "drill", **STORES) as server:
        with etude_connect(server.url) as client:  # the first episode imports what all of them need
            client.reset(seed=1)
            client.step({"tool": "nope", "arguments": {}})
            assert client.step({"tool": "submit", "arguments": {"answer": "x"}}).done
            assert client.episode().end == "submit"
        socket, closed, slowest, memory = opened(server), 0, 0.0, 0
        for number, frame in enumerate(FrameMaker(SEED).frames(FRAMES)):
            before = cpu_seconds(server)
            try:
                check(ask(socket, frame), frame)
            except ConnectionClosed as error:
                code = error.rcvd.code if error.rcvd is not None else None
                is_text = isinstance(frame, tuple)  # RFC 6455 closes a socket whose text is not UTF-8
                assert code == (1007 if is_text else 1000), (code, frame[:300])
                socket, closed = opened(server), closed + 1
            used = cpu_seconds(server) - before
            assert used < CPU_S, (number, used, frame[:300])
            slowest = max(slowest, used)
            if number == WARM_UP:
                memory = server.resident_bytes
        socket.close()
        grown = server.resident_bytes - memory
        print(f"{closed} sockets were closed; slowest frame {slowest:.2f} s of CPU; {grown / 2**20:.1f} MiB grown")
        assert grown < GROWTH
        with etude_connect(server.url) as client:
            assert client.reset(seed=7).prompt
        deadline = time.monotonic() + 60
        while httpx.get(f"{server.url}/readyz", timeout=120).json()["sessions"] and time.monotonic() < deadline:
            time.sleep(0.1)
        assert httpx.get(f"{server.url}/readyz", timeout=120).json() == {
            "ready": True,
            "reason": "",
            "tasks": 2000,
            "sessions": 0,
            "limit": 64,
        }
        log = server.log.read_text()
        assert log.count("Traceback") == log.count("Invalid UTF-8 sequence received from client")
