"""The store of graded episodes in a live PostgreSQL, which the tests start in a folder of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, text

from etude.client import connect
from etude.errors import InfrastructureError
from etude.server.store import open_store

pytestmark = pytest.mark.slow
TOKEN, OTHER = "t" * 32, "u" * 32


class Database:
    """A PostgreSQL server on a free port of this machine. It runs as ``postgres`` where the tests run as root."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        self.command("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.folder}"
        self.command("pg_ctl", "-D", "data", "-w", "-t", "120", "-l", "log", "-o", options, "start")

    def stop(self) -> None:
        self.command("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")

    def command(self, name: str, *arguments: str) -> None:
        as_postgres = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*as_postgres, str(programs() / name), *arguments]
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stderr


def programs() -> Path:
    """Return the folder of PostgreSQL's programs; without it the test is skipped, and fails where CI=true."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not folders:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no initdb; apt-get install postgresql")
    return folders[-1].parent


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    programs()
    with tempfile.TemporaryDirectory(prefix="etude-postgres-") as folder:
        running = Database(Path(folder))
        running.start()
        yield running
        running.stop()


@pytest.fixture
def url(database: Database) -> Iterator[str]:
    """The address of a database without the table."""
    engine = create_engine(database.url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS etude_episodes"))
    engine.dispose()
    yield database.url


def episode(name: str = "one", reward: float = 1.0) -> dict[str, Any]:
    return {"episode_id": name, "task_id": "light-1", "end": "submit", "reward": {"value": reward, "valid": True}}


def rows(url: str) -> int:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM etude_episodes")).scalar_one())


def test_graded_episodes_outlive_the_server_and_the_database(database: Database, url: str, light: Any) -> None:
    store = open_store(url)
    with light.serving(light.light_app(store=store)) as served, connect(served.url) as client:
        client.reset(task_id="light-1", episode_id="graded")
        client.step(light.say("answer-1"))
        assert client.step(light.SUBMIT).reward == 1.0
        token = client.state().token or ""
    database.stop()  # as a crash does
    unreachable = open_store_of_a_stopped_database(url)
    database.start()
    assert "cannot be opened" in unreachable
    with light.serving(light.light_app(store=open_store(url))) as served:
        for sent, status in ((token, 200), (OTHER, 401)):
            answer = httpx.get(f"{served.url}/episodes/graded", headers={"Authorization": f"Bearer {sent}"})
            assert answer.status_code == status
            assert status != 200 or answer.json()["reward"]["value"] == 1.0
    assert rows(url) == 1


def open_store_of_a_stopped_database(url: str) -> str:
    with pytest.raises(ValueError) as refused:
        open_store(url)
    return str(refused.value)


def test_an_open_store_works_again_after_the_database_was_restarted(database: Database, url: str) -> None:
    store = open_store(url)
    store.save(episode("before"), TOKEN)
    database.stop()
    with pytest.raises(InfrastructureError, match="could not be stored"):
        store.save(episode("meanwhile"), TOKEN)
    with pytest.raises(InfrastructureError, match="could not be read"):
        store.find("before", TOKEN)
    database.start()
    store.save(episode("after"), TOKEN)
    assert store.find("before", TOKEN) and store.find("after", TOKEN) and not store.find("meanwhile", TOKEN)


def test_stores_that_write_one_episode_at_once_leave_one_row(url: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        stores = list(threads.map(lambda _: open_store(url), range(8)))  # also creates the table eight times
        list(threads.map(lambda store: [store.save(episode(reward=0.5), TOKEN) for _ in range(20)], stores))
        stores[0].save(episode(reward=1.0), TOKEN)
        stores[1].save(episode(reward=0.0), OTHER)
    assert rows(url) == 2
    assert all(b'"value":1.0' in (store.find("one", TOKEN) or b"") for store in stores)


@pytest.mark.parametrize("name", ["nul\0", "half \ud800", "'; DROP TABLE etude_episodes --", "x" * 10_000, None])
def test_store_takes_any_id_that_a_client_may_choose(name: str | None, url: str) -> None:
    name = name if name is not None else os.urandom(5_000).hex()  # one that no index can compress
    store = open_store(url)
    store.save({**episode(), "episode_id": name, "text": "kept"}, TOKEN)
    assert b"kept" in (store.find(name, TOKEN) or b"") and store.find(name + "x", TOKEN) is None
