"""``etude generate --ray`` on two nodes with caches of their own, while workers and nodes are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.light_checks import LIGHT
from helpers.paths import DATA
from helpers.ray_nodes import two_nodes, wait_for

from etude.generators.output.publish import JOURNAL

SOURCES = [str(DATA / "scales"), str(DATA / "cellar")]
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 2}


def command(out: Path, *more: str) -> list[str]:
    knobs = [f"--knob={name}={value}" for name, value in {"min_lines": 3, **LIGHT}.items()]
    request = ["generate", *SOURCES, "-g", "fd_function", "--count", "3", "--seed", "7", "-o", str(out), *knobs]
    return [sys.executable, "-m", "etude.cli", *request, *more]


def without_times(out: Path) -> Any:
    report = json.loads((out / "report.json").read_text())
    for name in ("seconds", "proposal_cpu_seconds", "builds"):
        del report[name]
    for counts in (report, *report["per_source"].values(), *report["per_generator"].values()):
        del counts["cpu_seconds"]
    return report


def snapshots_of(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "snapshots").iterdir())


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("one")
    subprocess.run(command(out, "--jobs", "1"), check=True, capture_output=True)
    return out


@pytest.mark.slow
def test_nodes_give_the_bytes_of_one_process_when_a_worker_and_a_node_are_killed(
    one_process: Path, tmp_path: Path
) -> None:
    caches = tmp_path / "a", tmp_path / "b"
    variables = [{**TOKEN, "ETUDE_CACHE": str(cache), "ETUDE_SOURCES": os.pathsep.join(SOURCES)} for cache in caches]
    environment = {**os.environ, **TOKEN}
    out = tmp_path / "out"
    killed = []
    with (
        two_nodes(*variables) as (address, nodes),
        subprocess.Popen(
            command(out, "--ray", address), env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as run,
    ):
        assert run.stderr is not None
        lines = []
        for line in run.stderr:
            lines.append(line)
            if "2 of 2" in line and not killed:  # every candidate is proposed, none is judged
                os.kill(wait_for(nodes[0].busy_workers)[0], signal.SIGKILL)
                wait_for(lambda: (caches[1] / "snapshots").is_dir() and nodes[1].busy_workers())
                nodes[1].kill()
                killed += ["worker", "node"]
        assert run.wait() == 0, "".join(lines)
    assert killed == ["worker", "node"]
    assert (out / "tasks.jsonl").read_bytes() == (one_process / "tasks.jsonl").read_bytes()
    assert (out / "README.md").read_bytes() == (one_process / "README.md").read_bytes()
    assert without_times(out) == without_times(one_process)
    assert set(snapshots_of(caches[1])) <= set(snapshots_of(caches[0]))
    assert json.loads((out / "report.json").read_text())["builds"]["cellar 0.3.0"]["builds"] >= 1


@pytest.mark.slow
def test_an_interrupted_run_on_ray_is_resumed_by_one_process(one_process: Path, tmp_path: Path) -> None:
    arguments = command(tmp_path, "--ray", "local", "--jobs", "2")
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if "accepted" in line:
                run.send_signal(signal.SIGINT)
                break
        rest = run.stderr.read()
    assert run.returncode == 130, rest
    assert "Traceback" not in rest
    assert len([line for line in (tmp_path / JOURNAL).read_text().splitlines() if line]) >= 1
    assert not (tmp_path / "tasks.jsonl").exists()
    subprocess.run(command(tmp_path), check=True, capture_output=True)
    assert (tmp_path / "tasks.jsonl").read_bytes() == (one_process / "tasks.jsonl").read_bytes()
