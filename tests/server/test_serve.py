"""The server as a process: how it starts, what it says, how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.serve_process import etude_serve
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from etude.client import connect as etude_connect
from etude.errors import ServerError

ROOT = Path(__file__).parents[2]


@contextmanager
def server_process(**environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``python -m etude.server.app`` on a free port, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "etude.server.app"],
        env={**os.environ, "PORT": "0", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("serving http://127.0.0.1:"), line + process.stderr.read()
        yield process, line.split()[1]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_server_without_tasks_starts_says_what_to_do_and_stops_on_a_signal(number: signal.Signals) -> None:
    with server_process(ETUDE_TASKS="") as (process, url):
        with etude_connect(url) as client, pytest.raises(ServerError, match="etude serve --tasks"):
            assert client.tasks() == []
            client.reset()
        with connect("ws" + url.removeprefix("http") + "/ws", proxy=None) as socket_:
            process.send_signal(number)
            with pytest.raises(ConnectionClosed):
                while True:  # a session that opens while the server stops is refused in a frame
                    socket_.recv(timeout=30)
        assert process.wait(30) == 0


def test_server_prints_one_line_when_the_port_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "etude.server.app"],
            env={**os.environ, "PORT": port},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert lines == [
        f"error: port {port} on 127.0.0.1 is in use: stop what listens there, or choose another with --port "
        "(0: any free)"
    ]


def test_serve_prints_one_line_when_the_task_set_is_missing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from etude.server.app import serve

    assert serve(tmp_path / "nowhere", port=0) == 1
    error = capfd.readouterr().err
    assert error.startswith("error: no tasks.jsonl in ") and error.count("\n") == 1


def test_serve_prints_one_line_when_a_knob_is_unknown_and_there_are_no_tasks(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from etude.server.app import serve

    monkeypatch.delenv("ETUDE_TASKS", raising=False)
    assert serve(None, port=0, knobs={"turnss": 3}) == 1
    assert capfd.readouterr().err == "error: unknown knob 'turnss'. Did you mean 'turns'?\n"


def test_create_app_warns_when_there_are_no_tasks(caplog: pytest.LogCaptureFixture) -> None:
    from etude.environments.tasks.task_set import TaskSet
    from etude.server.app import create_app

    create_app(TaskSet([]))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["this server has no tasks"]


def test_both_import_names_of_the_application_load_the_same_modules() -> None:
    code = (
        "import sys, server.app as a; app = a.app; assert app is a.app; import etude.server.app as b;"
        "assert a.create_app is b.create_app;"
        "print([n for n in sys.modules if n.startswith('server.') and n != 'server.app'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "ETUDE_TASKS": ""}, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_accepted_connections_have_keepalive() -> None:
    from etude.server.serving import listen

    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000


@pytest.mark.slow
@pytest.mark.parametrize("log_format", ["json", "text"])
def test_every_line_of_the_log_is_in_its_format_and_holds_no_key(log_format: str) -> None:
    key = "k" * 32
    with etude_serve("--env", "drill", "--log", log_format, ETUDE_API_KEY=key) as server:
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as raw:
            raw.sendall(b"X-API-Key: " + key.encode() + b"\r\n\r\n")
            assert b"400" in raw.recv(1000)
        with connect("ws" + server.url.removeprefix("http") + "/ws", additional_headers={"X-API-Key": key}) as one:
            one.send(b"\xff" + key.encode(), text=True)
            with pytest.raises(ConnectionClosed):
                one.recv(timeout=60)
        log = server.log.read_text()
    assert "Invalid HTTP request received." in log and "Invalid UTF-8 sequence received" in log
    assert key not in log
    lines = log.splitlines()
    if log_format == "json":
        assert {json.loads(line)["logger"] for line in lines} >= {"uvicorn.error"}
    else:
        assert lines[0] == "WARNING: Invalid HTTP request received."
