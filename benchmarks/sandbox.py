"""Medians, side by side in one run: bare bwrap, and each backend's exec and reset through the public API.

python benchmarks/sandbox.py [ROUNDS] [--json], on an idle machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from etude.environments.sandbox import SANDBOX_UID, Layers, Sandbox, available, open_sandbox

BARE = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
SIZES = {"1 MB": 1, "100 MB": 100}


def make_tree(folder: Path, megabytes: int) -> Path:
    """A tree of 64 KiB files, owned by the sandbox user when this is root."""
    for number in range(megabytes * 16):
        path = folder / f"d{number % 50}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(65536))
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{SANDBOX_UID}:{SANDBOX_UID}", str(folder)], check=True)
    return folder


def bare() -> None:
    pid = os.posix_spawnp(BARE[0], BARE, {"PATH": os.environ["PATH"]})
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit(f"{' '.join(BARE)} failed")


def copy(tree: Path, to: Path) -> None:
    subprocess.run(["cp", "-a", str(tree), str(to)], check=True)


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1e3


async def timed_await(action: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await action()
    return (time.perf_counter() - started) * 1e3


async def run_true(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["true"])).exit_code == 0


async def measure(trees: dict[str, Path], scratch: Path, rounds: int) -> dict[str, list[float]]:
    """Every figure once per round, so that a slow moment of the machine falls on all alike. Milliseconds."""
    times: dict[str, list[float]] = {}
    backends = [name for name, reason in available().items() if reason is None]
    boxes = {(name, size): await open_sandbox(Layers(trees[size]), backend=name) for name in backends for size in trees}
    for number in range(rounds):
        if "bubblewrap" in backends:
            times.setdefault("bare bwrap true", []).append(timed(bare))
        for name in backends:
            call = partial(run_true, boxes[name, "1 MB"])
            times.setdefault(f"{name} exec true", []).append(await timed_await(call))
        # Copies of the large tree would take most of the time.
        if number % 10 == 0:
            for (name, size), box in boxes.items():
                await box.exec("echo written >by-the-agent; mkdir -p new; head -c 1000000 /dev/zero >new/zeros")
                times.setdefault(f"{name} reset {size}", []).append(await timed_await(box.reset))
            for size, tree in trees.items():
                to = scratch / f"copy-{number}-{size.replace(' ', '')}"
                times.setdefault(f"cp -a {size}", []).append(timed(partial(copy, tree, to)))
                shutil.rmtree(to)
    for box in boxes.values():
        await box.close()
    return times


def main(arguments: list[str]) -> None:
    counts = [argument for argument in arguments if argument.isdigit()]
    with tempfile.TemporaryDirectory(prefix="etude-bench-") as folder:
        Path(folder).chmod(0o755)
        trees = {size: make_tree(Path(folder, size.replace(" ", "")), megabytes) for size, megabytes in SIZES.items()}
        times = asyncio.run(measure(trees, Path(folder), int(counts[0]) if counts else 100))
    medians = {name: statistics.median(values) for name, values in times.items()}
    if "--json" in arguments:
        print(json.dumps(medians, indent=1))
        return
    for name, values in times.items():
        print(f"{name:28}{medians[name]:9.2f} ms   (min {min(values):.2f}, n {len(values)})")
    if "bare bwrap true" in medians:
        print(f"{'exec / bare bwrap':28}{medians['bubblewrap exec true'] / medians['bare bwrap true']:9.2f} x")


if __name__ == "__main__":
    main(sys.argv[1:])
