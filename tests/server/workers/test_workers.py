"""A server with two workers, as processes: affinity, limits, the loss of a worker, and how it stops."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from helpers.faulty_drills import TASKS

from etude.client import SyncClient, connect
from etude.errors import ConnectionLost, ServerFull
from etude.server.workers.place import place_in

TASK = "drill-choose-0"
SERVE = """
import sys
from etude.server.serving import serve

store, workers, drain_s = sys.argv[1:]
limits = {"sessions": 4, "client_sessions": 3}
settings = {"workers": int(workers), "drain_s": float(drain_s), "limits": limits}
sys.exit(serve(None, port=0, environment="drill", store=store, **settings))
"""
pytestmark = pytest.mark.slow


class Server:
    """One run of a server, and what a test asks of it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.url = process.stdout.readline().split()[1]
        self.http = httpx.Client(base_url=self.url)

    def workers(self) -> dict[int, int]:
        """Return the process id of each worker by its number."""
        ids = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name = (folder / "comm").read_text().strip()
                if name.startswith("etude worker ") and self.process.pid in ancestors(int(folder.name)):
                    ids[int(name.split()[-1])] = int(folder.name)
        return ids

    def metric(self, name: str) -> float:
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def episode(self, name: str, token: str) -> httpx.Response:
        return self.http.get(f"/episodes/{name}", headers={"Authorization": f"Bearer {token}"})


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers with one store; all of their processes are gone at the end."""
    servers: list[Server] = []

    def begin(workers: int = 2, drain_s: float = 0) -> Server:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(tmp_path / "episodes.sqlite"), str(workers), str(drain_s)],
            stdout=subprocess.PIPE,
            text=True,
        )
        servers.append(Server(process))
        return servers[-1]

    yield begin
    for server in servers:
        workers = server.workers()
        server.process.kill()
        server.process.wait()
        assert wait_for(lambda ids=workers: not any(Path(f"/proc/{pid}").exists() for pid in ids.values()))


def solve(client: SyncClient, name: str) -> tuple[str, float]:
    """Play the drill's solution; return the token and the reward."""
    drill = TASKS.drill(TASK)
    client.reset(task_id=TASK, episode_id=name)
    for tool, arguments in drill.solution():
        client.step({"tool": tool, "arguments": arguments})
    token = client.state().token or ""
    return token, client.step({"tool": "submit", "arguments": {"answer": drill.answer}}).reward


def worker_of(token: str) -> int:
    place = place_in(token)
    assert place is not None
    return place.worker


def test_sessions_survive_the_loss_of_another_worker_and_graded_episodes_any_loss(start: Callable[..., Server]) -> None:
    server = start()
    with connect(server.url) as one, connect(server.url) as two:
        graded = {"first": solve(one, "first"), "second": solve(two, "second")}
        assert {worker_of(token) for token, _ in graded.values()} == {1, 2}  # the second went to the one without
        assert server.http.get("/readyz").json() | {"tasks": 0} == {
            "ready": True, "reason": "", "tasks": 0, "sessions": 2, "limit": 4, "workers": 2,
        }  # fmt: skip
        assert server.metric("etude_reward_count") == 2
        for client in (one, two):
            client.reset(task_id=TASK, episode_id="running")
        ended, alive = (one, two) if worker_of(graded["first"][0]) == 1 else (two, one)
        token = ended.state().token or ""
        before = server.workers()
        os.kill(before[1], signal.SIGKILL)

        drill = TASKS.drill(TASK)  # the session of the other worker plays on and is graded
        for tool, arguments in drill.solution():
            alive.step({"tool": tool, "arguments": arguments})
        graded["running"] = (alive.state().token or "", alive.step(
            {"tool": "submit", "arguments": {"answer": drill.answer}}
        ).reward)  # fmt: skip
        with pytest.raises(ConnectionLost, match="the server closed the session"):
            ended.step({"tool": "submit", "arguments": {"answer": "1"}})
        assert wait_for(lambda: server.http.get("/healthz").json() == {
            "status": "ok", "workers": 2, "answering": 2, "restarts": 1,
        })  # fmt: skip
        after = server.workers()
        assert after[2] == before[2] and after[1] != before[1]
        lost = server.episode("running", token)
        assert lost.status_code == 410 and "ended with its process (worker 1)" in lost.json()["detail"]
        assert server.metric("etude_reward_count") == 3  # counters do not fall
        with connect(server.url) as third:
            assert worker_of(solve(third, "third")[0]) == 1  # the new one has the fewest sessions
    assert [reward for _, reward in graded.values()] == [1.0, 1.0, 1.0]
    for name, (token, reward) in graded.items():
        assert server.episode(name, token).json()["reward"]["value"] == reward

    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    again = start()
    for name, (token, reward) in graded.items():
        assert again.episode(name, token).json()["reward"]["value"] == reward
        assert again.episode(name, "x").status_code == 401


def test_limits_hold_over_all_workers_and_requests_reach_the_worker_of_their_cookie(
    start: Callable[..., Server],
) -> None:
    server = start()
    with contextlib.ExitStack() as open_ones:
        for _ in range(3):
            open_ones.enter_context(connect(server.url)).reset(task_id=TASK)
        with connect(server.url) as refused, pytest.raises(ServerFull, match="3/3 sessions of this client"):
            refused.reset(task_id=TASK)
    assert wait_for(lambda: server.http.get("/readyz").json()["sessions"] == 0)

    drill = TASKS.drill(TASK)
    places = set()
    for _ in range(2):  # each request is a connection of its own; the cookie leads it to its session
        with httpx.Client(base_url=server.url) as host:
            row = next(row for row in host.get("/rows", params={"limit": 1}).json()["rows"])
            name = row["task_id"]
            seeded = host.post("/seed_session", json=row)
            places.add(worker_of(seeded.cookies["etude_session"]))
            for tool, arguments in TASKS.drill(name).solution():
                assert host.post(f"/{tool}", json=arguments).status_code == 200
            host.post("/submit", json={"answer": TASKS.drill(name).answer})
            if not places - {1}:
                continue  # the first one stays open, so that the second goes to the other worker
            grade = host.post("/verify", json={**row, "response": {"output": []}})
            assert grade.json()["reward"] == 1.0, grade.text
    assert drill and len(places) == 2


def test_sigterm_lets_episodes_end_within_the_drain_and_refuses_others(start: Callable[..., Server]) -> None:
    server = start(workers=2, drain_s=60)
    with connect(server.url) as playing, connect(server.url) as idle:
        playing.reset(task_id=TASK, episode_id="drained")
        idle.reset(task_id=TASK)
        idle.step({"tool": "submit", "arguments": {"answer": "1"}})
        server.process.send_signal(signal.SIGTERM)
        assert wait_for(lambda: server.http.get("/readyz").status_code == 503)
        assert server.http.get("/healthz").status_code == 200
        for _ in range(10):  # the other worker, which has nothing to play, ends meanwhile and drops no connection
            with connect(server.url) as refused, pytest.raises(ServerFull, match="this server is stopping"):
                refused.reset(task_id=TASK)
        drill = TASKS.drill(TASK)
        for tool, arguments in drill.solution():
            playing.step({"tool": tool, "arguments": arguments})
        assert playing.step({"tool": "submit", "arguments": {"answer": drill.answer}}).reward == 1.0
        assert server.process.wait(30) == 0


def test_a_bad_setting_is_one_line_and_no_worker_remains(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVE.replace('"drill"', '"dril"'), str(tmp_path / "x.sqlite"), "2", "0"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["error: unknown environment 'dril'. Did you mean 'drill'?"]
