"""Sessions: isolated, counted, ended when their client is dead and never while it lives."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as ws_connect

from etude.client import Client, connect
from etude.environments.wire_values import LeftBehind
from etude.errors import ServerFull
from etude.models import Episode
from etude.server.sessions import Archive


class RawSocket:
    """Hand-made websocket: it answers pings only on request, and can vanish without closing."""

    def __init__(self, url: str) -> None:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        self.socket = socket.create_connection((host, port), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ["GET /ws HTTP/1.1", f"Host: {host}:{port}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self.socket.recv(1)
        assert b" 101 " in answer

    def frame(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame."""
        head = self._exactly(2)
        size = head[1] & 127
        if size >= 126:
            size = int.from_bytes(self._exactly(2 if size == 126 else 8))
        return head[0] & 15, self._exactly(size)

    def send(self, opcode: int, payload: bytes) -> None:
        assert len(payload) < 126
        self.socket.sendall(bytes([0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0]) + payload)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.socket.recv(size - len(data)) or pytest.fail("the server closed the connection")
        return data


def test_sixty_four_sessions_stay_isolated(light: Any) -> None:
    async def play(url: str, number: int, gate: asyncio.Barrier) -> tuple[list[str], float, str | None]:
        async with Client(url) as client:
            await client.reset(task_id=f"light-{number}", episode_id=f"e{number}")
            seen = []
            for turn in range(5):
                await gate.wait()
                seen.append((await client.step(light.say(f"{number}.{turn}"))).messages[0].content)
            if number % 2:
                await client.step(light.say(f"answer-{number}"))
            last = await client.step(light.SUBMIT)
            state = await client.state()
            assert (state.episode_id, state.step_count) == (f"e{number}", 6 + number % 2)
            return seen, last.reward, state.token

    async def play_all(url: str) -> list[tuple[list[str], float, str | None]]:
        gate = asyncio.Barrier(64)
        return await asyncio.gather(*(play(url, number, gate) for number in range(64)))

    with light.serving(light.light_app(light.task_set(64))) as served:
        results = asyncio.run(play_all(served.url))
        for number, (seen, reward, _) in enumerate(results):
            assert seen[-1] == "ok\n" + ",".join(f"{number}.{turn}" for turn in range(5))
            assert reward == number % 2
        assert len({token for _, _, token in results}) == 64
        assert served.wait_until(lambda: served.sessions == 0)


def test_full_server_says_how_to_allow_more_sessions(light: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "2")
    with light.serving(light.light_app()) as served, connect(served.url) as one, connect(served.url):
        one.reset()
        with connect(served.url) as third, pytest.raises(ServerFull) as refused:
            third.reset()
        advice = "raise MAX_CONCURRENT_ENVS (--max-sessions) on the server, or retry after 5 seconds"
        assert str(refused.value) == f"2/2 sessions in use: {advice}"
        stateless = httpx.post(f"{served.url}/reset", json={})
        assert (stateless.status_code, stateless.json()["detail"]) == (503, str(refused.value))
        assert stateless.headers["Retry-After"] == "5"
        one.close()
        assert served.wait_until(lambda: served.sessions == 1)
        with connect(served.url) as third:
            assert third.reset().prompt


def test_max_concurrent_envs_defaults_to_64_and_must_be_a_number(light: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAX_CONCURRENT_ENVS", raising=False)
    assert light.light_app().state.sessions.max_concurrent_envs == 64
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "many")
    with pytest.raises(ValueError, match="MAX_CONCURRENT_ENVS is 'many'"):
        light.light_app()


def test_session_ends_when_its_socket_answers_no_pings(light: Any) -> None:
    with light.serving(light.light_app(), ping_interval_s=0.05, ping_timeout_s=0.1) as served:
        client = RawSocket(served.url)
        client.send(1, b'{"type": "reset", "data": {}}')
        assert served.wait_until(lambda: served.sessions == 1)
        closed = light.LightSession.closed_count
        assert served.wait_until(lambda: served.sessions == 0), "the half-open socket still has its session"
        assert served.wait_until(lambda: light.LightSession.closed_count == closed + 1)
        client.socket.close()


def test_idle_session_continues_when_its_socket_answers_pings(light: Any) -> None:
    with light.serving(light.light_app(http_idle_s=0.05), ping_interval_s=0.05, ping_timeout_s=0.1) as served:
        client = RawSocket(served.url)
        client.send(1, b'{"type": "reset", "data": {"episode_id": "idle"}}')
        pings = 0
        while pings < 20:  # Ten times the ping timeout and twenty times the HTTP limit without a call.
            opcode, payload = client.frame()
            if opcode == 9:
                pings += 1
                client.send(10, payload)
        client.send(1, b'{"type": "state"}')
        opcode, payload = client.frame()
        while opcode != 1:
            opcode, payload = client.frame()
        assert b'"episode_id":"idle"' in payload
        client.socket.close()


def test_session_is_freed_when_its_client_dies_during_a_call(light: Any, served: Any) -> None:
    light.LightSession.hanging.clear()
    before, closed = served.sessions, light.LightSession.closed_count
    client = RawSocket(served.url)
    client.send(1, b'{"type": "reset", "data": {}}')
    client.send(1, b'{"type": "step", "data": {"tool": "hang"}}')
    assert light.LightSession.hanging.wait(20)
    assert served.sessions == before + 1
    client.socket.close()
    assert served.wait_until(lambda: served.sessions == before)
    assert served.wait_until(lambda: light.LightSession.closed_count == closed + 1)


def test_session_is_freed_when_its_client_dies_with_frames_waiting(light: Any, served: Any) -> None:
    before = served.sessions
    with ws_connect(f"ws{served.url.removeprefix('http')}/ws", proxy=None) as client:
        client.send('{"type": "reset", "data": {}}')
        client.recv(timeout=20)
        light.LightSession.hanging.clear()
        client.send(json.dumps({"type": "step", "data": light.call("hang")}))
        for _ in range(100):
            client.send('{"type": "state"}')
        assert light.LightSession.hanging.wait(20)
        client.socket.shutdown(socket.SHUT_RDWR)
        assert served.wait_until(lambda: served.sessions == before)


def test_session_ends_with_a_reason_when_its_client_awaits_no_answers(light: Any, served: Any) -> None:
    before = served.sessions
    with ws_connect(f"ws{served.url.removeprefix('http')}/ws", proxy=None) as client:
        client.send('{"type": "reset", "data": {}}')
        client.recv(timeout=20)
        with contextlib.suppress(ConnectionClosed):
            client.send(json.dumps({"type": "step", "data": light.call("hang")}))
            for _ in range(3000):
                client.send('{"type": "state"}')
        assert "await each answer" in str(client.recv(timeout=20))
    assert served.wait_until(lambda: served.sessions == before)


def test_session_is_freed_when_its_client_leaves_at_once(served: Any) -> None:
    before = served.sessions
    for _ in range(30):
        RawSocket(served.url).socket.close()
    assert served.wait_until(lambda: served.sessions == before)


def test_http_session_ends_when_it_is_unused(light: Any) -> None:
    app = light.light_app()
    with light.serving(app) as served:
        request = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {}}
        session = httpx.post(f"{served.url}/mcp", json=request).json()["result"]["session_id"]
        sessions = app.state.sessions
        with connect(served.url) as client:
            client.reset()
            asyncio.run(sessions.reap_once(time.monotonic() + 3599))
            assert sessions.get_session_info(session) is not None
            asyncio.run(sessions.reap_once(time.monotonic() + 3601))
            assert sessions.get_session_info(session) is None
            assert client.state().episode_id, "a socket's session has no idle limit"


def test_closing_an_http_session_ends_its_running_call(light: Any, served: Any) -> None:
    async def scenario() -> tuple[Any, Any]:
        async with httpx.AsyncClient(base_url=served.url, timeout=60) as http:

            async def rpc(method: str, **params: Any) -> Any:
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                return (await http.post("/mcp", json=body)).json()

            session = (await rpc("openenv/session/create"))["result"]["session_id"]
            from websockets.asyncio.client import connect as ws_connect

            async with ws_connect(f"ws{served.url.removeprefix('http')}/ws?session_id={session}", proxy=None) as ws:
                await ws.send('{"type": "reset", "data": {}}')
                await ws.recv()
            light.LightSession.hanging.clear()
            hanging = asyncio.create_task(rpc("tools/call", name="hang", session_id=session))
            await asyncio.to_thread(light.LightSession.hanging.wait, 20)
            return await rpc("openenv/session/close", session_id=session), await hanging

    closed, hung = asyncio.run(scenario())
    assert closed["result"]["closed"] is True
    assert hung["error"]["message"] == "this session was closed"


def test_shutdown_ends_every_session(light: Any) -> None:
    closed = light.LightSession.closed_count
    light.LightSession.hanging.clear()
    with light.serving(light.light_app()) as served:
        idle, busy = RawSocket(served.url), RawSocket(served.url)
        idle.send(1, b'{"type": "reset", "data": {}}')
        busy.send(1, b'{"type": "reset", "data": {}}')
        busy.send(1, b'{"type": "step", "data": {"tool": "hang"}}')
        assert light.LightSession.hanging.wait(20)
        assert idle.frame()[0] == 1
    assert light.LightSession.closed_count == closed + 2


def left_behind(episode_id: str, size: int) -> LeftBehind:
    return LeftBehind(lambda: Episode(episode_id=episode_id, task_id="t", prompt="p"), size, {})


def test_archive_stores_the_newest_episodes_within_its_limits() -> None:
    archive = Archive(max_episodes=3, max_bytes=1000)
    for number in range(5):
        archive.add(f"e{number}", "t", left_behind(f"e{number}", 10))
    assert [archive.find(f"e{n}", "t") is not None for n in range(5)] == [False, False, True, True, True]
    for _ in range(5):
        archive.add("one", "t", left_behind("one", 250))
    assert archive.find("e4", "t") is not None, "the same episode again takes its own place"
    for number in range(4):
        archive.add(f"n{number}", "t", left_behind(f"n{number}", 250))
    assert archive.find("one", "t") is None and archive.find("n3", "t") is not None


def test_archive_leaves_out_an_episode_that_is_too_large() -> None:
    archive = Archive(max_bytes=1000)
    archive.add("small", "t", left_behind("small", 200))
    archive.add("big", "t", left_behind("big", 200))
    archive.add("big", "t", left_behind("big", 251))
    assert archive.find("small", "t") is not None and archive.find("big", "t") is None
    for number in range(4):
        archive.add(f"n{number}", "t", left_behind(f"n{number}", 200))
    assert archive.find("small", "t") is not None, "an episode that is not stored takes no room"


def test_archive_makes_the_json_of_an_episode_on_request() -> None:
    built: list[str] = []

    def make() -> Episode:
        built.append("e")
        return Episode(episode_id="e", task_id="t", prompt="p")

    archive = Archive()
    archive.add("e", "t", LeftBehind(make, 1, {"end": "closed"}))
    assert built == [] and archive.find("e", "wrong") is None and built == []
    row = archive.find("e", "t")
    assert row is not None and json.loads(row)["end"] == "closed" and built == ["e"]
