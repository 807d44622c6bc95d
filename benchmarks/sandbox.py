"""Medians measured in one run: bare bwrap, and each backend's exec and reset through the public API.

    python benchmarks/sandbox.py [ROUNDS] [--json]

Run it on an idle machine.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from etude.benchmarks.output import parser_of, show
from etude.environments.sandbox import SANDBOX_UID, Layers, Sandbox, available, open_sandbox

BARE = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
SIZES = {"1 MB": 1, "100 MB": 100}


def make_tree(folder: Path, megabytes: int) -> Path:
    """Write a tree of 64 KiB files, owned by the sandbox user if this process is root, and return its folder."""
    for number in range(megabytes * 16):
        path = folder / f"d{number % 50}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(65536))
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{SANDBOX_UID}:{SANDBOX_UID}", str(folder)], check=True)
    return folder


def bare() -> None:
    """Run ``true`` in bare bwrap."""
    pid = os.posix_spawnp(BARE[0], BARE, {"PATH": os.environ["PATH"]})
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit(f"{' '.join(BARE)} failed")


def copy(tree: Path, target: Path) -> None:
    """Copy a tree with ``cp -a``."""
    subprocess.run(["cp", "-a", str(tree), str(target)], check=True)


def timed(action: Callable[[], object]) -> float:
    """Return the milliseconds of a call."""
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1e3


async def timed_await(action: Callable[[], Awaitable[object]]) -> float:
    """Return the milliseconds of an awaited call."""
    started = time.perf_counter()
    await action()
    return (time.perf_counter() - started) * 1e3


async def run_true(sandbox: Sandbox) -> None:
    """Run ``true`` in a sandbox."""
    assert (await sandbox.exec(["true"])).exit_code == 0


async def measure(trees: dict[str, Path], scratch: Path, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each action, measured in turns, so that a busy moment affects all alike."""
    times: dict[str, list[float]] = {}
    backends = [name for name, reason in available().items() if reason is None]
    sandboxes = {
        (name, size): await open_sandbox(Layers(trees[size]), backend=name) for name in backends for size in trees
    }
    for number in range(rounds):
        if "bubblewrap" in backends:
            times.setdefault("bare bwrap true", []).append(timed(bare))
        for name in backends:
            call = partial(run_true, sandboxes[name, "1 MB"])
            times.setdefault(f"{name} exec true", []).append(await timed_await(call))
        # Copies of the large tree would take most of the time.
        if number % 10 == 0:
            for (name, size), sandbox in sandboxes.items():
                await sandbox.exec("echo written >by-the-agent; mkdir -p new; head -c 1000000 /dev/zero >new/zeros")
                times.setdefault(f"{name} reset {size}", []).append(await timed_await(sandbox.reset))
            for size, tree in trees.items():
                target = scratch / f"copy-{number}-{size.replace(' ', '')}"
                times.setdefault(f"cp -a {size}", []).append(timed(partial(copy, tree, target)))
                shutil.rmtree(target)
    for sandbox in sandboxes.values():
        await sandbox.close()
    return times


def main() -> None:
    """Run the benchmark."""
    parser = parser_of(__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="etude-bench-") as folder:
        Path(folder).chmod(0o755)
        trees = {size: make_tree(Path(folder, size.replace(" ", "")), megabytes) for size, megabytes in SIZES.items()}
        times = asyncio.run(measure(trees, Path(folder), options.rounds))
    medians = {name: statistics.median(values) for name, values in times.items()}

    def line(name: str, median: float) -> str:
        return f"{name:28}{median:9.2f} ms   (min {min(times[name]):.2f}, n {len(times[name])})"

    show(medians, options.json, line)
    if "bare bwrap true" in medians and not options.json:
        print(f"{'exec / bare bwrap':28}{medians['bubblewrap exec true'] / medians['bare bwrap true']:9.2f} x")


if __name__ == "__main__":
    main()
