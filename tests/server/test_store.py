"""The store of graded episodes: durable before the client reads the grade, and closed to other tokens."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from etude.client import connect
from etude.environments.wire_values import LeftBehind
from etude.errors import InfrastructureError, ServerError, ServerInfrastructureError
from etude.server.serving import serve
from etude.server.store import open_store, store_of
from etude.server.store.graded_episodes import EPISODES

TOKEN, OTHER = "t" * 32, "u" * 32
SERVER = """
import sys
from helpers import light_server
from etude.server.serving import listen, uvicorn_server
from etude.server.store import open_store

listener = listen("127.0.0.1", 0)
server = uvicorn_server(light_server.light_app(store=open_store(sys.argv[1])))
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
server.run(sockets=[listener])
"""


def episode(name: str = "one", reward: float = 1.0) -> dict[str, Any]:
    return {"episode_id": name, "task_id": "light-1", "end": "submit", "reward": {"value": reward, "valid": True}}


def read(url: str, name: str, token: str) -> httpx.Response:
    return httpx.get(f"{url}/episodes/{name}", headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def start(root: Path) -> Iterator[Callable[[Path], Any]]:
    """Starts a server of light tasks as a process with a store; returns the process and its address.

    ``small_disk`` is a folder in which only that process sees a disk of 256 KiB.
    """
    running: list[subprocess.Popen[str]] = []

    def begin(store: Path, small_disk: Path | None = None) -> tuple[subprocess.Popen[str], str]:
        path = os.pathsep.join([str(root / "tests"), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, "-c", SERVER, str(store)]
        if small_disk is not None:
            mount = f'mount -t tmpfs -o size=256k tmpfs {small_disk} && exec "$@"'
            command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", *command]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield begin
    for process in running:
        process.kill()
        process.wait()


def test_graded_episodes_are_there_after_a_kill_and_a_restart(
    start: Callable[[Path], Any], light: Any, tmp_path: Path
) -> None:
    process, url = start(tmp_path / "episodes.sqlite")
    played: dict[str, tuple[str, float, bytes]] = {}
    for number in range(4):
        with connect(url) as client:
            client.reset(task_id="light-1", episode_id=f"episode-{number}")
            client.step(light.say("answer-1" if number % 2 else "wrong"))
            last = client.step(light.SUBMIT)
            token = client.state().token or ""
            played[f"episode-{number}"] = (token, last.reward, read(url, f"episode-{number}", token).content)
            if number == 3:
                process.send_signal(signal.SIGKILL)  # nothing runs between the grade's frame and the kill
                assert process.wait(30) == -signal.SIGKILL
    _, url = start(tmp_path / "episodes.sqlite")
    for name, (token, reward, served) in played.items():
        answer = read(url, name, token)
        assert answer.status_code == 200 and answer.json() == httpx.Response(200, content=served).json()
        assert answer.json()["reward"]["value"] == reward
        assert read(url, name, OTHER).status_code == 401
    assert [reward for _, reward, _ in played.values()] == [0, 1, 0, 1]


def test_store_holds_each_episode_once_and_no_secret(light: Any, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "episodes.sqlite"
    with light.serving(light.light_app(store=open_store(path))) as served, connect(served.url) as client:
        for _ in range(2):  # the first has no grade
            client.reset(task_id="light-1", episode_id="again")
        client.step(light.SUBMIT)
        client.reset(task_id="light-1", episode_id="not-graded")
        client.step(light.say("x"))
        token = client.state().token or ""
        assert served.wait_until(lambda: read(served.url, "again", token).status_code == 200)
    assert path.stat().st_mode & 0o077 == 0
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT * FROM etude_episodes").fetchall()
    assert [row[0] for row in rows] == ["again"]
    content = (open_store(path).find("again", token) or b"") + path.read_bytes()
    assert token.encode() not in content
    assert not [secret for secret in light.CANARIES if secret.encode() in content]


def test_grade_of_a_session_is_not_replaced_by_another_episode_of_the_same_id(light: Any, tmp_path: Path) -> None:
    app = light.light_app(store=open_store(tmp_path / "episodes.sqlite"))
    with light.serving(app) as served, connect(served.url) as client:
        client.reset(task_id="light-0", episode_id="mine")
        client.reset(task_id="light-0", episode_id="mine")  # the first has no grade
        client.step(light.say("answer-0"))
        client.step(light.SUBMIT)
        token = client.state().token
        with pytest.raises(ServerError, match="'mine' names a graded episode of this session: give another"):
            client.reset(task_id="light-0", episode_id="mine")
        client.reset(task_id="light-0", episode_id="other")
        reward = read(served.url, "mine", token or "").json()["reward"]
    assert (reward["value"], reward["valid"]) == (1.0, True)


def test_client_gets_no_grade_when_the_store_refuses_it(light: Any, tmp_path: Path) -> None:
    path = tmp_path / "episodes.sqlite"
    with light.serving(light.light_app(store=open_store(path))) as served, connect(served.url) as client:
        client.reset(task_id="light-1")
        with sqlite3.connect(path) as database:
            database.execute("DROP TABLE etude_episodes")
        with pytest.raises(ServerInfrastructureError, match="could not be stored") as refused:
            client.step(light.SUBMIT)
        assert "etude_episodes" not in str(refused.value) and str(tmp_path) not in str(refused.value)
        assert client.reset(task_id="light-1").prompt


def test_full_disk_is_named_and_the_episode_is_void_and_none_is_half_written(
    start: Callable[..., Any], light: Any, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    process, url = start(disk / "episodes.sqlite", small_disk=disk)
    inside = Path(f"/proc/{process.pid}/root{disk}")  # only the server's own mounts have this disk
    with connect(url) as client:
        client.reset(task_id="light-1", episode_id="stored")
        client.step(light.SUBMIT)
        with contextlib.suppress(OSError), (inside / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        client.reset(task_id="light-1", episode_id="void")
        client.step(light.say("answer-1"))
        with pytest.raises(
            ServerInfrastructureError, match="the disk of the server's store of episodes is full"
        ) as full:
            client.step(light.SUBMIT)
        assert str(disk) not in str(full.value)
        state = client.state()
        assert state.reward is not None and not state.reward.valid
        assert read(url, "void", state.token or "").json()["reward"]["valid"] is False
        (inside / "filler").unlink()
        client.reset(task_id="light-1", episode_id="after")
        client.step(light.say("answer-1"))
        assert client.step(light.SUBMIT).reward == 1.0
        token = state.token or ""
    copy = tmp_path / "copy"
    shutil.copytree(inside, copy)
    process.kill()
    store = open_store(copy / "episodes.sqlite")
    assert [store.find(name, token) is not None for name in ("stored", "void", "after")] == [True, False, True]


def test_graded_episodes_are_in_the_store_alone_and_the_viewer_reads_them_there(light: Any, tmp_path: Path) -> None:
    path, earlier = tmp_path / "episodes.sqlite", episodes_in_memory()
    with light.serving(light.light_app(store=open_store(path))) as served, connect(served.url) as client:
        for number in range(20):
            client.reset(task_id="light-1", episode_id=f"graded-{number}")
            client.step(light.SUBMIT)
        client.reset(task_id="light-1", episode_id="not-graded")
        client.reset(task_id="light-1", episode_id="running")
        token = client.state().token or ""
        assert len(episodes_in_memory()) == len(earlier) + 1  # the one that was not graded
        names = {*(f"graded-{number}" for number in range(20)), "not-graded", "running"}
        assert {row["episode"] for row in rows_of(served.url, token)} == names
    with light.serving(light.light_app(store=open_store(path))) as served:
        rows = rows_of(served.url, token)
        assert [row["episode"] for row in rows] == [f"graded-{number}" for number in range(20)]
        headers = {"X-Session-Tokens": token}
        assert httpx.get(f"{served.url}/view/data/episodes/{rows[0]['id']}", headers=headers).status_code == 200
        assert rows_of(served.url, OTHER) == []


def episodes_in_memory() -> list[LeftBehind]:
    return [thing for thing in gc.get_objects() if isinstance(thing, LeftBehind)]


def rows_of(url: str, token: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/view/data/index", headers={"X-Session-Tokens": token})
    return list(answer.json()["rows"])


def test_store_replaces_an_episode_of_the_same_token_alone(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/episodes.sqlite")
    for token, reward in ((TOKEN, 0.0), (OTHER, 0.5), (TOKEN, 1.0), (TOKEN, 1.0)):
        store.save(episode(reward=reward), token)
    assert b'"value":1.0' in (store.find("one", TOKEN) or b"")
    assert b'"value":0.5' in (store.find("one", OTHER) or b"")
    assert store.find("one", "") is None and store.find("two", TOKEN) is None
    store.close()


def test_store_gains_the_index_of_tokens_that_an_earlier_version_lacked(tmp_path: Path) -> None:
    path = tmp_path / "episodes.sqlite"
    open_store(path).save(episode(), TOKEN)
    with sqlite3.connect(path) as database:
        database.execute("DROP INDEX etude_episodes_of_token")
    assert open_store(path).ids_of(TOKEN) == ["one"]
    with sqlite3.connect(path) as database:
        names = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert "etude_episodes_of_token" in names


@pytest.mark.parametrize("name", ["nul\0", "half \ud800", "'; DROP TABLE etude_episodes --", "x" * 10_000])
def test_store_takes_any_id_that_a_client_may_choose(name: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / "episodes.sqlite")
    store.save({**episode(), "episode_id": name, "text": "kept"}, TOKEN)
    assert b"kept" in (store.find(name, TOKEN) or b"")


def test_two_stores_of_one_file_see_the_episodes_of_each_other(tmp_path: Path) -> None:
    one, two = open_store(tmp_path / "episodes.sqlite"), open_store(tmp_path / "episodes.sqlite")
    for number in range(20):
        (one if number % 2 else two).save(episode(str(number)), TOKEN)
    assert all(one.find(str(number), TOKEN) and two.find(str(number), TOKEN) for number in range(20))


def test_table_fits_postgresql() -> None:
    statement = str(CreateTable(EPISODES).compile(dialect=postgresql.dialect()))
    assert "BYTEA" in statement and "TIMESTAMP WITH TIME ZONE" in statement
    assert "PRIMARY KEY (episode_id, token_sha256)" in statement


@pytest.mark.parametrize(
    "place", ["nonsense://x", "mysql://x", "sqlite:////proc/nowhere/x.sqlite", "/proc/nowhere/x.sqlite", "://"]
)
def test_serve_prints_one_line_when_the_store_cannot_be_opened(place: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert serve(None, port=0, store=place) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and "store" in error


def test_default_store_is_in_the_state_folder_and_none_is_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert store_of("none") is None
    store = store_of("")
    assert store is not None and (tmp_path / "etude" / "episodes.sqlite").exists()
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert store_of("") is None
    assert "graded episodes end with this process" in caplog.text


def test_closed_database_is_an_infrastructure_error(tmp_path: Path) -> None:
    path = tmp_path / "episodes.sqlite"
    store = open_store(path)
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE etude_episodes")
    with pytest.raises(InfrastructureError, match="could not be read"):
        store.find("one", TOKEN)
