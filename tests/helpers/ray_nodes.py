"""Nodes of a Ray cluster as separate processes of this machine that listen on 127.0.0.1 alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

# `ray start` replaces 127.0.0.1 by an address that other machines reach, and then listens on every interface.
_START = """
import sys
import ray._private.services as services
services.get_node_ip_address = lambda *arguments: "127.0.0.1"
from ray.scripts.scripts import main
sys.exit(main())
"""
_SIZE = ["--num-cpus", "1", "--object-store-memory", "100000000", "--disable-usage-stats", "--block"]


class Node:
    """One running node."""

    def __init__(self, arguments: list[str], variables: Mapping[str, str]) -> None:
        command = [sys.executable, "-c", _START, "start", "--node-ip-address", "127.0.0.1", *_SIZE, *arguments]
        self.process = subprocess.Popen(
            command, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if "Ray runtime started" in line:
                return
        self.kill()
        raise AssertionError("".join(lines))

    def busy_workers(self) -> list[int]:
        """Return the processes that run a step of `etude generate`."""
        return [pid for pid in _descendants(self.process.pid) if _command(pid).startswith("ray::run_step")]

    def kill(self) -> None:
        """Kill the node with all its processes at once, as a power cut does."""
        for pid in [self.process.pid, *_descendants(self.process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def wait_for(condition: Callable[[], Result]) -> Result:
    """Return the first true result of a condition. Raises AssertionError when there is none within a minute."""
    deadline = time.monotonic() + 60
    while not (result := condition()):
        assert time.monotonic() < deadline, "the nodes do not get to work"
        time.sleep(0.02)
    return result


@contextmanager
def two_nodes(*variables: Mapping[str, str]) -> Iterator[tuple[str, list[Node]]]:
    """Yield the address and the nodes of a cluster; each node has its own environment variables."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    port = address.rpartition(":")[2]
    nodes: list[Node] = []
    # A folder of its own, because paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        head = ["--head", "--port", port, "--include-dashboard", "false", "--temp-dir", folder]
        try:
            for arguments, settings in zip((head, ["--address", address]), variables, strict=True):
                nodes.append(Node(arguments, settings))
            yield address, nodes
        finally:
            for node in reversed(nodes):
                node.kill()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(") ")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]
