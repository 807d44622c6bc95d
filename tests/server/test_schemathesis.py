"""Requests that schemathesis makes from the OpenAPI document, against a real server; every check is on."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from helpers.paths import DATA
from helpers.serve_process import ServeProcess, etude_serve

SETTINGS = Path(__file__).with_name("schemathesis.toml")
SEED = 20261129
KEY = "k" * 32
REST = r"^/(seed_session|verify|session|\{tool\})$"


def schemathesis(server: ServeProcess, folder: Path, examples: int, *options: str) -> int:
    """Make requests and return their number; fail with what schemathesis reports."""
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file", SETTINGS, "run"]
    command += [f"{server.url}/openapi.json", "--seed", SEED, "--max-examples", examples, "--request-timeout", 60]
    command += ["--continue-on-failure", "--warnings", "off", *options]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=folder, timeout=3000)
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-2000:]
    assert "Traceback" not in server.log.read_text()
    assert httpx.get(f"{server.url}/readyz", timeout=120).status_code == 200
    passed = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert passed is not None and passed[1] == passed[2], done.stdout
    return int(passed[1])


def seeded(url: str, row: int) -> str:
    """Seed a REST session from a row of the server and return its cookie as a header."""
    with httpx.Client(base_url=url, timeout=120) as host:
        host.post("/seed_session", json=host.get("/rows", params={"offset": row, "limit": 1}).json()["rows"][0])
        return f"Cookie: etude_session={host.cookies['etude_session']}"


def test_server_conforms_to_its_document_on_a_few_requests(tmp_path: Path) -> None:
    with etude_serve("--env", "drill") as server:
        assert schemathesis(server, tmp_path, 1, "--phases", "examples,fuzzing") > 200


@pytest.fixture(scope="module", params=["drill", "coding", "key"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A server of drills, one of a small set of coding tasks, and one with a key."""
    if request.param != "coding":
        with etude_serve(
            "--env", "drill", "--max-sessions", "1000", ETUDE_API_KEY=KEY if request.param == "key" else ""
        ) as server:
            yield server
        return
    from etude.generators.generate import generate

    folder = tmp_path_factory.mktemp("canary-host-path")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETUDE_CACHE", str(folder / "cache"))
        generate([str(DATA / "scales")], generators=["fd_function"], count=4, seed=7, out=folder / "tasks")
        with etude_serve(str(folder / "tasks"), "--max-sessions", "1000") as server:
            yield server


@pytest.mark.slow
def test_server_conforms_to_its_document(served: ServeProcess, tmp_path: Path) -> None:
    sends_key = ["--header", f"X-API-Key: {KEY}"] if _is_locked(served.url) else []
    assert schemathesis(served, tmp_path, 60, *sends_key) > 1000


@pytest.mark.slow
def test_rest_session_conforms_to_the_document_while_it_is_played(served: ServeProcess, tmp_path: Path) -> None:
    if _is_locked(served.url):
        return  # hosts of REST sessions send no key
    for row in range(3):
        options = ("--header", seeded(served.url, row), "--include-path-regex", REST)
        assert schemathesis(served, tmp_path, 60, *options) > 200


def _is_locked(url: str) -> bool:
    return httpx.get(f"{url}/metrics", timeout=120).status_code == 401
