"""One run of the benchmark: Etude's sandboxes, the peers', and the wire; and its files."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from ...environments.sandbox import SANDBOX_UID
from ..progress import Progress
from . import clock, projects, wire
from .sandboxes import EtudeSandbox, working_backends
from .table import OURS, Result, Times, markdown, plot

DOCKER = "docker"
FILE = 10_000
"""Bytes of a file of the workspace."""
MODULE = "def add(a, b):\n    return a - b\n"
TEST = """import unittest

from bench_sum import add


class TestAdd(unittest.TestCase):
    def test_add(self):
        for a in range(100):
            self.assertEqual(add(a, 2), 2 + a)
"""


def make_tree(folder: Path, files: int) -> Path:
    """Write a workspace of random files, and a module with a wrong line and its tests; return its folder.

    The sandbox user owns it if this process is root.
    """
    for number in range(files):
        path = folder / f"folder{number % 20}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(FILE))
    (folder / "bench_sum.py").write_text(MODULE)
    (folder / "bench_test_sum.py").write_text(TEST)
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, SANDBOX_UID, SANDBOX_UID)
    return folder


def measured(peers: Sequence[str], rounds: int, files: int, progress: Progress) -> Times:
    """Measure Etude and the peers, one after the other. Raises BenchError."""
    ours = working_backends()
    sandboxes = [side for side in sides(peers) if side[1] != DOCKER or DOCKER in ours]
    over_wire = [OURS, *(["openenv"] if "openenv" in peers else [])]
    total = len(peers) + len(ours) + len(sandboxes) + len(over_wire)
    steps = iter(range(total))
    times: Times = {}
    for name in peers:
        progress(f"environment of {name}", next(steps), total)
        projects.interpreter(name)
    with tempfile.TemporaryDirectory(prefix="etude-bench-") as folder:
        Path(folder).chmod(0o755)
        tree = make_tree(Path(folder, "tree"), files)
        for backend in ours:
            progress(f"etude {backend}", next(steps), total)
            isolation = projects.ISOLATION.get(backend, "")
            measure = clock.measure(partial(EtudeSandbox, backend), tree, rounds)
            times[OURS, backend, isolation] = asyncio.run(measure)
        for name, kind in sandboxes:
            progress(f"{name} {kind}", next(steps), total)
            isolation = projects.PEERS[name].kinds[kind]
            times[name, kind, isolation] = projects.sandbox_times(name, kind, tree, rounds)
    for side in over_wire:
        progress(f"steps of {side}", next(steps), total)
        times[side, "server", ""] = wire.wire_times(side, rounds)
    return times


def sides(peers: Sequence[str]) -> list[tuple[str, str]]:
    """Return the sandboxes of the peers, each with the name of its project."""
    return [(name, kind) for name in peers for kind in projects.PEERS[name].kinds]


def left_out(peers: Sequence[str]) -> list[str]:
    """Return the sandboxes of the peers that cannot be measured here, because they need docker."""
    missing = DOCKER not in working_backends()
    return [f"{name} {kind}" for name, kind in sides(peers) if missing and kind == DOCKER]


def saved(rows: Sequence[Result], folder: Path) -> None:
    """Write ``bench.json``, ``bench.md`` and ``bench.svg``, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "bench.json": json.dumps([asdict(row) for row in rows], indent=1) + "\n",
        "bench.md": markdown(rows),
        "bench.svg": plot(rows),
    }
    for name, text in texts.items():
        part = folder / f"{name}.part"
        part.write_text(text)
        part.replace(folder / name)
