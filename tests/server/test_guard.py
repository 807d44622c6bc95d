"""The guard's reading of frames: ahead of a call that waits, and no task for one that does not."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from fastapi.testclient import TestClient

from etude.server.guard import Guard

SCOPE = {"type": "websocket", "path": "/ws"}
GONE = {"type": "websocket.disconnect", "code": 1000}


async def discard(message: Any) -> None:
    return None


class Socket:
    """The far end of one socket, and an application that notes what it gets."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[Any] = asyncio.Queue()
        self.seen: asyncio.Queue[str] = asyncio.Queue()
        self.go_on = asyncio.Event()
        self.tasks: list[int] = []
        self.cut = False

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            self.tasks.append(len(asyncio.all_tasks()))
            self.seen.put_nowait(message["text"])
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cut = True
                raise

    def send(self, number: int) -> None:
        self.frames.put_nowait({"type": "websocket.receive", "text": f'{{"n": {number}}}'})

    def serve(self) -> asyncio.Task[None]:
        return asyncio.create_task(Guard(self.app)(SCOPE, self.frames.get, discard))


def test_guard_starts_no_second_task_when_a_call_does_not_wait() -> None:
    async def scenario() -> list[int]:
        far = Socket()
        far.go_on.set()
        served = far.serve()
        for number in range(3):
            far.send(number)
            await far.seen.get()
        far.frames.put_nowait(GONE)
        await served
        return far.tasks

    assert asyncio.run(scenario()) == [3, 3, 3], "the test, the guard and the application"


def test_guard_reads_ahead_in_order_when_a_call_waits() -> None:
    async def scenario() -> list[str]:
        far = Socket()
        served = far.serve()
        for number in range(4):
            far.send(number)
        seen = [await far.seen.get()]
        far.go_on.set()
        seen += [await far.seen.get() for _ in range(3)]
        far.frames.put_nowait(GONE)
        await served
        return seen

    assert asyncio.run(scenario()) == [f'{{"n": {number}}}' for number in range(4)]


def test_guard_cancels_a_call_when_its_socket_is_closed() -> None:
    async def scenario() -> bool:
        far = Socket()
        served = far.serve()
        far.send(0)
        await far.seen.get()
        far.frames.put_nowait(GONE)
        await served
        return far.cut

    assert asyncio.run(scenario())


ODD_KEYS = [{"a": 1}, [1]]


@pytest.mark.parametrize("odd", ODD_KEYS)
def test_values_that_cannot_be_keys_are_not_server_errors(light: Any, odd: Any) -> None:
    close = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": odd}}
    with TestClient(light.light_app()) as host:
        step = host.post("/step", json={"action": {"type": odd}})
        assert step.status_code == 409 and "reset first" in step.json()["detail"]
        for method in ("openenv/session/close", "tools/list"):
            answer = host.post("/mcp", json={**close, "method": method})
            assert answer.status_code == 200 and "Unknown session_id" in answer.json()["error"]["message"]
        with host.websocket_connect("/ws") as socket:
            socket.send_json({"type": "mcp", "data": close})
            assert "Unknown session_id" in socket.receive_json()["data"]["error"]["message"]
            socket.send_json({"type": "reset", "data": {}})
            socket.receive_json()
            socket.send_json({"type": "step", "data": {"type": odd}})
            assert socket.receive_json()["type"] == "observation"


def test_a_body_that_does_not_arrive_is_refused(light: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etude.server.guard.BODY_S", 0.3)
    with light.serving(light.light_app()) as served:
        host, port = served.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(f"POST /reset HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\n{{".encode())
            answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 408") and b"did not arrive within 0.3 seconds" in answer
