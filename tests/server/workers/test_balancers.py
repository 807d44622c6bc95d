"""Two replicas behind HAProxy and nginx, with the configurations of examples/deploy."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.programs import program

from etude.client import connect
from etude.server.store import open_store
from etude.server.workers.place import Place, place_in

Start = Callable[[str], Any]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def command_of(balancer: str, configuration: Path) -> list[str]:
    """Return the command that runs a balancer in the foreground; with one more option it checks the configuration."""
    if balancer == "haproxy":
        return [program("haproxy", "haproxy"), "-db", "-f", str(configuration)]
    folder = configuration.parent
    settings = f"daemon off; pid {folder}/pid;"
    return [program("nginx", "nginx-light"), "-p", str(folder), "-e", f"{folder}/log", "-c", str(configuration)] + [
        "-g",
        settings,
    ]


@pytest.mark.parametrize(
    ("balancer", "name", "check"), [("haproxy", "haproxy.cfg", "-c"), ("nginx", "nginx.conf", "-t")]
)
def test_the_program_accepts_its_configuration(
    root: Path, tmp_path: Path, balancer: str, name: str, check: str
) -> None:
    copy = tmp_path / name
    copy.write_text((root / "examples" / "deploy" / name).read_text())
    done = subprocess.run([*command_of(balancer, copy), check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr.upper()


@pytest.fixture(params=["haproxy.cfg", "nginx.conf"])
def balanced(request: pytest.FixtureRequest, root: Path, tmp_path: Path, light: Any) -> Iterator[tuple[str, Any]]:
    """The address of a balancer before two replicas with one store, and these by their names."""
    with ExitStack() as stack:
        replicas = {
            name: stack.enter_context(light.serving(replica(light, name, tmp_path))) for name in ("blue", "green")
        }
        front = free_port()
        text = (root / "examples" / "deploy" / request.param).read_text()
        for port, number in ((8000, front), (8001, port_of(replicas["blue"])), (8002, port_of(replicas["green"]))):
            assert f"127.0.0.1:{port}" in text
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{number}")
        configuration = tmp_path / request.param
        configuration.write_text(text)
        stack.enter_context(running(command_of(request.param.partition(".")[0], configuration), front))
        yield f"http://127.0.0.1:{front}", replicas


def replica(light: Any, name: str, folder: Path) -> Any:
    return light.light_app(place=Place(name, 0, "2a"), store=open_store(folder / "episodes.sqlite"))


def port_of(served: Any) -> int:
    return int(served.url.rpartition(":")[2])


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None
                process_wait(process)
        yield
    finally:
        process.terminate()
        process.wait(30)


def process_wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(0.05)
    except subprocess.TimeoutExpired:
        pass


def test_requests_reach_the_replica_of_their_token(balanced: tuple[str, Any], light: Any) -> None:
    url, replicas = balanced
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(url)) for _ in range(6)]
        names = []
        for number, client in enumerate(clients):
            client.reset(task_id="light-1", episode_id=f"running-{number}")
            token = client.state().token or ""
            place = place_in(token)
            assert place is not None
            names.append(place.replica)
            for _ in range(3):
                answer = httpx.get(f"{url}/episodes/running-{number}", headers={"Authorization": f"Bearer {token}"})
                assert answer.status_code == 200, answer.text
            with connect(url, headers={"X-Etude-Near": token}) as near:
                near.reset(task_id="light-2")
                assert place_in(near.state().token or "") == place
        assert set(names) == {"blue", "green"}

    for _ in range(4):
        with httpx.Client(base_url=url) as host:
            row = {"task_id": "light-1", "responses_create_params": {}, "response": {"output": []}}
            assert host.post("/seed_session", json=row).status_code == 200
            for _ in range(3):
                assert host.post("/say", json={"text": "answer-1"}).text.startswith("ok")
            assert host.post("/submit", json={}).status_code == 200
            assert host.post("/verify", json=row).json()["reward"] == 1.0

    for _ in range(4):
        with httpx.Client(base_url=url) as host:
            call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
            host.headers["Mcp-Session-Id"] = host.post("/mcp", json=call).headers["Mcp-Session-Id"]
            said = {"name": "say", "arguments": {"text": "x"}}
            for number in range(1, 4):
                answer = host.post("/mcp", json={**call, "method": "tools/call", "params": said}).json()
                assert answer["result"]["data"] == "ok\n" + ",".join("x" * number)
            assert host.delete("/mcp").status_code == 200


def test_graded_episodes_are_answered_by_every_replica_and_lost_ones_name_theirs(
    balanced: tuple[str, Any], light: Any
) -> None:
    url, replicas = balanced
    with connect(url) as client:
        client.reset(task_id="light-1", episode_id="graded")
        client.step(light.say("answer-1"))
        client.step(light.SUBMIT)
        token = client.state().token or ""
        client.reset(task_id="light-1", episode_id="not-graded")
    place = place_in(token)
    assert place is not None
    for served in replicas.values():
        answer = httpx.get(f"{served.url}/episodes/graded", headers={"Authorization": f"Bearer {token}"})
        assert answer.json()["reward"]["value"] == 1.0
    other = next(served for name, served in replicas.items() if name != place.replica)
    lost = httpx.get(f"{other.url}/episodes/not-graded", headers={"Authorization": f"Bearer {token}"})
    assert (lost.status_code, lost.headers["x-etude-replica"]) == (421, place.replica)
