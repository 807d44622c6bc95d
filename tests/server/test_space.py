"""The Hugging Face Space that ``openenv push`` makes of a checkout: staged by openenv, built, and played here."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.containers import base_image, docker, require_docker
from helpers.paths import DATA
from openenv import GenericEnvClient
from openenv.cli.commands import push

IMAGE, CONTAINER = "localhost/etude-test-space", "etude-test-space"
# Those of OpenEnv's own validation of images.
RIGHTS = (
    "--user 65532:65532 --read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 256 --memory 4g "
    "--tmpfs /tmp:rw,nosuid,nodev,noexec,size=2g"
).split()
START_S = 30


def staged(checkout: Path, folder: Path) -> Path:
    """Return the folder that ``openenv push`` would upload."""
    name, _ = push._validate_openenv_directory(checkout)
    push._prepare_staging_directory(checkout, name, folder, push._load_ignore_patterns(checkout, None))
    return folder


def test_openenv_stages_the_layout_of_a_space(tmp_path: Path, checkout_in: Callable[[Path], Path]) -> None:
    checkout = checkout_in(tmp_path / "etude")
    (checkout / "tasks").mkdir()
    (checkout / "tasks" / "tasks.jsonl").write_text("{}\n")
    space = staged(checkout, tmp_path / "space")
    front_matter = (space / "README.md").read_text().split("---\n")[1]
    assert {"sdk: docker", "app_port: 8000", "base_path: /web"} <= set(front_matter.splitlines())
    dockerfile = (space / "Dockerfile").read_text()
    assert "ENV ENABLE_WEB_INTERFACE=true\nCMD [" in dockerfile and "EXPOSE 8000" in dockerfile
    assert (space / "openenv.yaml").is_file() and (space / "tasks" / "tasks.jsonl").is_file()
    assert not (space / ".git").exists()


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a packed set made with the system's Python, which the base image has too."""
    from etude.environments.snapshots import SnapshotOptions
    from etude.generators.generate import generate

    out = tmp_path_factory.mktemp("tasks")
    options = SnapshotOptions(python="/usr/bin/python3")
    generate([str(DATA / "scales")], generators=["fd_function"], count=1, seed=0, out=out, options=options, pack=True)
    return out


@pytest.fixture(scope="module")
def space(
    tmp_path_factory: pytest.TempPathFactory, tasks: Path, checkout_in: Callable[[Path], Path]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Build the staged Space with the set in it, run it as OpenEnv does, and yield its address and a task."""
    require_docker()
    folder = tmp_path_factory.mktemp("space")
    checkout = checkout_in(folder / "etude")
    tasks.rename(checkout / "tasks")
    built = staged(checkout, folder / "space")
    docker("build", "--build-arg", f"BASE={base_image(folder)}", "-t", IMAGE, str(built))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    subprocess.run(["docker", "rm", "-f", CONTAINER], capture_output=True)
    docker("run", "-d", "--init", "--name", CONTAINER, *RIGHTS, "-p", f"127.0.0.1:{port}:8000", IMAGE)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url)
        yield url, json.loads((built / "tasks" / "tasks.jsonl").read_text("utf-8"))
    finally:
        docker("rm", "-f", CONTAINER)


def _wait_for(url: str) -> None:
    end = time.monotonic() + START_S
    while True:
        try:
            assert httpx.get(f"{url}/health").json() == {"status": "healthy"}
            return
        except httpx.TransportError:
            assert time.monotonic() < end, docker("logs", CONTAINER)
            time.sleep(0.2)


@pytest.mark.slow
def test_openenvs_client_plays_the_set_that_is_baked_into_the_space(space: tuple[str, dict[str, Any]]) -> None:
    url, task = space
    rewards = {}
    for name, patch in (("oracle", task["patch"]), ("empty", "")):
        with GenericEnvClient(base_url=url, message_timeout_s=600).sync() as env:
            prompt = env.reset(task_id=task["task_id"]).observation["prompt"]
            assert task["problem_statement"].splitlines()[0] in prompt
            if patch:
                command = f"git apply - <<'EOF_OF_PATCH'\n{patch}EOF_OF_PATCH"
                answer = env.step({"tool": "bash", "arguments": {"command": command}}).observation["messages"][0]
                assert answer["content"].startswith("ok")
            result = env.step({"tool": "submit", "arguments": {}})
            assert result.done
            rewards[name] = result.reward
            assert env.state()["sandbox"]["isolation"] == "landlock"
    assert rewards == {"oracle": 1.0, "empty": 0.0}


@pytest.mark.slow
def test_a_space_shows_a_page_for_people(space: tuple[str, dict[str, Any]]) -> None:
    url, _ = space
    page = httpx.get(f"{url}/web", follow_redirects=True)
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "1 tasks in the split train" in page.text
