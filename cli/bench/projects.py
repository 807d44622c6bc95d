"""The projects that are measured: versions, isolation, and a separate environment for each peer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...environments.snapshots.store.cache import cache_folder
from ...errors import BenchError
from ...registry import did_you_mean

SCRIPTS = Path(__file__).parent / "peers"
LIMIT_S = 1200
"""Seconds after which the script of a peer is stopped."""


@dataclass(frozen=True)
class Peer:
    """A project beside Etude."""

    requirement: str
    """Distribution and version."""
    script: str
    """Script in ``peers/``; ``openenv_echo`` is a server, the others are sandboxes under the clock."""
    kinds: Mapping[str, str]
    """Its sandboxes, with the isolation of each."""


NONE = "none: commands of this machine"
PEERS: dict[str, Peer] = {
    "swe-rex": Peer("swe-rex==1.4.0", "swe_rex", {"local": NONE}),
    "mini-swe-agent": Peer(
        "mini-swe-agent==2.4.6",
        "mini_swe_agent",
        {"local": NONE, "bubblewrap": "namespaces of mounts and users", "docker": "container"},
    ),
    "inspect": Peer("inspect_ai==0.3.285", "inspect_sandbox", {"local": NONE}),
    "verifiers": Peer("verifiers==0.4.0", "verifiers_runtime", {"subprocess": NONE}),
    "openenv": Peer("openenv==0.10.0", "openenv_echo", {}),
}
"""Peers by their name on the command line."""
ISOLATION = {
    "bubblewrap": "namespaces, seccomp, cgroup, no network",
    "docker": "container, no network",
    "kubernetes": "pod, no network",
    "podman": "container, no network",
    "process": "Landlock, seccomp, limits",
}
"""Isolation of Etude's sandboxes."""


def chosen(names: str | None) -> list[str]:
    """Return the peers of a list with commas; all for None, none for ''. Raises BenchError for an unknown one."""
    listed = list(PEERS) if names is None else [name for name in names.split(",") if name]
    for name in listed:
        if name not in PEERS:
            raise BenchError(did_you_mean("peer", name, list(PEERS)))
    return listed


def interpreter(name: str) -> Path:
    """Return the interpreter of a peer's environment, which is made in the cache unless it is there."""
    requirement = PEERS[name].requirement
    folder = cache_folder() / "bench" / requirement.replace("==", "-")
    python = folder / "bin" / "python"
    if (folder / "complete").is_file():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    commands = [[sys.executable, "-m", "venv", str(folder)], [str(python), "-m", "pip", "install", "-q", requirement]]
    for command in commands:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if line.strip()] or ["no message"]
            shutil.rmtree(folder, ignore_errors=True)
            raise BenchError(f"cannot install {requirement}: {lines[-1]}; leave it out with --peers")
    (folder / "complete").write_text(requirement)
    return python


def sandbox_times(name: str, kind: str, tree: Path, rounds: int) -> dict[str, list[float]]:
    """Run a peer's script and return the milliseconds of each action. Raises BenchError."""
    script = SCRIPTS / f"{PEERS[name].script}.py"
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    if kind == "docker":
        from ...environments.sandbox.docker.backend import image_arguments

        variables["BENCH_DOCKER"] = json.dumps(image_arguments("docker"))
    command = [str(interpreter(name)), str(script), kind, str(tree), str(rounds)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{name} {kind} took more than {LIMIT_S} s; use fewer --rounds") from None
    lines = result.stdout.splitlines()
    if result.returncode or not lines:
        error = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchError(f"{name} {kind} failed: {error}; leave it out with --peers")
    times: dict[str, list[float]] = json.loads(lines[-1])
    return times
