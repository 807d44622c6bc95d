"""Tests with NeMo Gym itself: its head server, simple agent, model server and rollout collection, before our server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

VERSION = "0.4.0"
USABLE = "import ensurepip, sys, venv; sys.exit(not (3, 12) <= sys.version_info < (3, 14))"
MODEL = Path("responses_api_models") / "vllm_model"
SERVERS = (Path("resources_servers") / "etude", Path("responses_api_agents") / "simple_agent", MODEL)
READY = "servers ready!"


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a virtual environment with NeMo Gym, which needs a newer Python than Etude."""
    on_path = [path for name in ("python3.12", "python3.13") if (path := shutil.which(name))]
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.1[23].*/bin/python3"))
    python = next((python for python in (sys.executable, *on_path, *pyenv) if _usable(python)), None)
    assert python, "NeMo Gym needs Python 3.12 or 3.13; put python3.12 or python3.13 on the PATH"
    venv = tmp_path_factory.mktemp("nemo") / "venv"
    subprocess.run([python, "-m", "venv", venv], check=True)
    pip = [venv / "bin/python", "-m", "pip", "install", "-q", f"nemo-gym=={VERSION}"]
    subprocess.run(pip, check=True, capture_output=True)
    return venv


def _usable(python: str | Path) -> bool:
    return subprocess.run([python, "-c", USABLE], capture_output=True).returncode == 0


class Gym:
    """NeMo Gym's commands in a copy of our folder; every server uses the one virtual environment."""

    def __init__(self, venv: Path, adapter: Path, out: Path) -> None:
        self.folder, self.bin = out / "nemo_gym", venv / "bin"
        self.venvs = out / "venvs"
        shutil.copytree(adapter, self.folder)
        for server in SERVERS:
            (self.venvs / server).mkdir(parents=True)
            (self.venvs / server / ".venv").symlink_to(venv)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        quiet = {"HOME": str(out), "RAY_USAGE_STATS_ENABLED": "0", "WANDB_MODE": "disabled"}
        self.environment = {**clean, **quiet, "PATH": f"{self.bin}:{clean['PATH']}"}

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Run `gym env start`, and return it when its servers are ready."""
        options_of_venvs = [f"+uv_venv_dir={self.venvs}", "+skip_venv_if_present=true"]
        command = [self.bin / "gym", "env", "start", *options, *options_of_venvs]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True, **streams)
        assert process.stdout is not None
        lines = []
        while READY not in (line := process.stdout.readline()):
            assert line, "".join(lines[-50:])
            lines.append(line)
        threading.Thread(target=process.stdout.read, daemon=True).start()  # later output must not fill the pipe
        return process

    def collect(self, rows: Path, *options: str) -> list[dict[str, Any]]:
        """Return the rollouts of `gym eval run` on the running servers."""
        out = self.folder / "rollouts.jsonl"
        command = [self.bin / "gym", "eval", "run", "--no-serve", "--input", rows, "--output", out, *options]
        command += ["+upload_rollouts_to_wandb=false"]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.fixture
def endpoint(ground: Any, policy: Any, tmp_path: Path) -> Iterator[Any]:
    with policy.Policy(ground.solvable, tmp_path / "requests.jsonl") as endpoint:
        yield endpoint


@pytest.fixture
def gym(venv: Path, root: Path, ground: Any, endpoint: Any, tmp_path: Path) -> Iterator[Gym]:
    """Run NeMo Gym's servers, with our resources server in front of the running Etude server."""
    gym = Gym(venv, root / "trainers/integrations/packages/nemo_gym", tmp_path)
    model = venv.glob(f"lib/*/site-packages/{MODEL}/configs/vllm_model.yaml")
    configs = ["--config", "resources_servers/etude/configs/etude.yaml", "--config", str(next(model))]
    model_options = ["--model", "scripted", "--model-url", endpoint.url, "--model-api-key", "none"]
    process = gym.start(*configs, *model_options, f"++etude.resources_servers.etude.etude_url={ground.url}")
    try:
        yield gym
    finally:
        process.terminate()
        process.wait()


def test_nemo_gym_collects_rollouts_of_our_rows(
    gym: Gym, ground: Any, endpoint: Any, benches: Any, tmp_path: Path
) -> None:
    bench = benches.Bench(VERSION, gym.bin, ground, endpoint, tmp_path)
    rollouts = gym.collect(ground.rows, "--num-repeats", "2")
    assert len(rollouts) == 2 * len(ground.task_ids)
    assert {rollout["task_id"] for rollout in rollouts} == ground.task_ids
    for rollout in rollouts:
        assert rollout["reward"] == 1.0 and set(rollout["reward_components"].values()) == {1.0}
        assert rollout["end"] == "submit" and rollout["n_error_turns"] == len(rollout["error_turns"])
        bench.assert_reported_but_not_shown(rollout["error_turns"], rollout["hints"], rollout["episode_id"])
    messages = [item["type"] for rollout in rollouts for item in rollout["response"]["output"]].count("message")
    assert len(bench.requests()) == messages
    (metrics,) = json.loads((gym.folder / "rollouts_aggregate_metrics.json").read_text())
    assert metrics["agent_metrics"]["mean/reward"] == 1.0 and metrics["agent_metrics"]["mean/n_error_turns"] >= 3


NAMED = """
import sys
from fastapi.testclient import TestClient
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf
from app import EtudeResourcesServer, EtudeResourcesServerConfig

place = {"name": "etude", "host": "127.0.0.1", "port": 1}
config = EtudeResourcesServerConfig(**place, entrypoint="app.py", domain="coding", etude_url=sys.argv[1])
head = BaseServerConfig(host="127.0.0.1", port=2)
client = ServerClient(head_server_config=head, global_config_dict=OmegaConf.create({}))
row = {"responses_create_params": {"input": []}, "task_id": sys.argv[2]}
with TestClient(EtudeResourcesServer(config=config, server_client=client).setup_webserver()) as host:
    assert host.post("/seed_session", json=row).json()["task_id"] == sys.argv[2]
    names = ["verify", "seed_session", "aggregate_metrics", "reset", "step", "mcp", "session", "a/b"]
    for name in names:
        assert host.post("/" + name, json=[1]).text.startswith("error malformed_call"), name
        for arguments in ({}, {"task_id": "x"}):
            reply = host.post("/" + name, json=arguments)
            assert reply.text.startswith("error tool_not_found"), (name, reply.text)
    for name in names[:2]:
        reply = host.post("/" + name, json={**row, "task_id": "x", "response": {"output": []}})
        assert reply.text.startswith("error tool_not_found"), (name, reply.text)
    graded = host.post("/verify", json={**row, "response": {"output": []}}).json()
    assert (graded["task_id"], graded["reward"], graded["response"]) == (sys.argv[2], 0.0, {"output": []})
    kinds = [error["kind"] for error in graded["error_turns"]]
    print(kinds.count("tool_not_found"), kinds.count("malformed_call"))
"""


def test_every_name_that_a_model_writes_is_a_call(venv: Path, root: Path, drill: Any) -> None:
    """Agents post such calls to our resources server on the same routes as NeMo Gym's own requests."""
    folder = root / "trainers/integrations/packages/nemo_gym/resources_servers/etude"
    command = [venv / "bin/python", "-c", NAMED, drill.url, sorted(drill.task_ids)[0]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[-2:] == ["18", "8"]
