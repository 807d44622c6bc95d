"""Clients that do not read: they hold up nobody else, and the kernel ends a connection that takes nothing."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as ws_connect

from etude import client_socket
from etude.client import connect

TEXT = "x" * (1 << 19)


def stuffed(url: str, light: Any) -> ClientConnection:
    """Return a connection whose client asks for more than all buffers hold, and reads none of it."""
    host, _, port = url.removeprefix("http://").partition(":")
    raw = socket.create_connection((host, int(port)))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    # The library's thread stops to read when its own buffer holds this many frames.
    connection = ws_connect(
        f"ws://{host}:{port}/ws", sock=raw, proxy=None, max_queue=1, max_size=None, close_timeout=0.1
    )
    connection.send(json.dumps({"type": "reset", "data": {}}))
    for _ in range(8):
        connection.send(json.dumps({"type": "step", "data": light.say(TEXT)}))
    return connection


def test_a_client_that_reads_nothing_holds_up_no_other(light: Any, served: Any) -> None:
    before = served.sessions
    slow = [stuffed(served.url, light) for _ in range(4)]
    assert served.wait_until(lambda: served.sessions == before + 4)
    with connect(served.url) as client:
        client.reset()
        began = time.monotonic()
        for number in range(20):
            client.step(light.say(str(number)))
        assert time.monotonic() - began < 10
    for connection in slow:
        connection.socket.close()
    assert served.wait_until(lambda: served.sessions == before)


@pytest.mark.slow
def test_connection_ends_when_its_client_takes_nothing(light: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(client_socket.KEEPALIVE, "TCP_USER_TIMEOUT", 500)
    with light.serving(light.light_app()) as served:
        slow = stuffed(served.url, light)
        assert served.wait_until(lambda: served.sessions == 1)
        assert served.wait_until(lambda: served.sessions == 0, 30), "the slow reader still has its session"
        slow.socket.close()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_server_stops_when_a_client_has_closed_and_reads_nothing(light: Any) -> None:
    tasks, sessions = light.task_set(), []

    def make() -> Any:
        sessions.append(light.LightSession(tasks))
        return sessions[-1]

    with light.serving(light.light_app(tasks, make_session=make)) as served:
        slow = stuffed(served.url, light)
        assert served.wait_until(lambda: bool(sessions) and len(sessions[0].turns) > 2)
        with slow.protocol_mutex:
            slow.protocol.send_close(1000)
            slow.socket.sendall(b"".join(slow.protocol.data_to_send()))
        assert served.wait_until(lambda: served.sessions == 0)
        other = connect(served.url)
        other.reset()
    assert not served.thread.is_alive()
    assert len(sessions) == 2 and all(session.closed for session in sessions)
    slow.socket.close()
    other.close()
