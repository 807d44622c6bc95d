"""A server under load: real coding tasks in many sessions at once, through the WebSocket client.

``python benchmarks/load.py [--tasks DIR] [--episodes 2000] [--sessions 1,16,64,256,512] [--workers N] [--json]`` starts
``etude serve`` and plays the tasks' own solutions; the episodes are divided among the numbers of sessions. Without
--tasks a few tasks are generated from isodate 0.7.2. It prints for each number of sessions the throughput, the times of
reset, step and grade, the errors, how busy the cores were, and the memory of the server afterwards; then that of an
idle session, measured before all others, the time of a step beside gradings, and what a stopped server leaves:
processes, mounts, control groups, temporary files.

The exit code is 1 when an episode failed, a solution did not score 1, something was left, or a step beside gradings
took more than three times as long as alone (95th percentiles).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etude.benchmarks.load_parts.playing import idle, play, steps_beside_gradings
from etude.benchmarks.load_parts.server_process import ServerProcess, machine_ticks, serving
from etude.environments.tasks.task_set import TaskSet
from etude.models import Task

SOURCE = ["pypi:isodate==0.7.2", "--generators", "bug_operator,fd_function", "--count", "3", "--seed", "7"]
LIMIT = 3.0
"""How many times as long a step may take beside gradings."""


def generate(folder: Path) -> Path:
    """Generate tasks into a folder and return it."""
    command = [sys.executable, "-m", "etude.cli", "generate", *SOURCE, "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


async def measure(server: ServerProcess, tasks: Sequence[Task], options: argparse.Namespace) -> dict[str, Any]:
    """Return all numbers of a running server."""
    levels = [int(number) for number in options.sessions.split(",")]
    await play(server.url, tasks, 1, len(tasks))  # every tree is unpacked once
    number = min(64, max(levels))
    waiting = await idle(server.url, tasks, number, lambda: (server.server_mib(), len(server.processes())))
    memory: dict[str, Any] = {**waiting, "server MiB before": round(server.server_mib(), 1)}
    idle_processes = len(server.processes())
    rows, errors = {}, {}
    for sessions in levels:
        worked, ticks = machine_ticks()
        times, wall_s = await play(server.url, tasks, sessions, max(sessions, options.episodes // len(levels)))
        server.processes()
        rows[sessions] = times.row(wall_s) | {"CPU %": busy_share(worked, ticks)}
        rows[sessions]["server MiB"] = round(server.server_mib())
        errors |= times.errors
    played = sum(int(row["episodes"]) for row in rows.values())
    memory["server MiB after"] = round(server.server_mib(), 1)
    grown = memory["server MiB after"] - memory["server MiB before"]
    memory["KiB per ended session"] = round(1024 * grown / max(1, played), 2)
    memory |= {"processes before": idle_processes, "processes after": len(server.processes())}
    alone, beside = await steps_beside_gradings(server.url, tasks, options.steps, options.graders)
    steps = {"step p95 ms alone": alone, "beside gradings": beside, "ratio": round(beside / alone, 2)}
    return {"load": rows, "errors": errors, "memory": memory, "steps": steps}


def busy_share(worked: int, ticks: int) -> int:
    """Return the percentage of all cores' time that was used since two earlier counts of ``machine_ticks``."""
    now, total = machine_ticks()
    return round(100 * (now - worked) / max(1, total - ticks))


def show(numbers: dict[str, Any]) -> None:
    """Print the tables."""
    rows: dict[int, dict[str, Any]] = numbers["load"]
    names = list(next(iter(rows.values())))
    print("| sessions | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    for sessions, row in rows.items():
        print(f"| {sessions} | " + " | ".join(str(row[name]) for name in names) + " |")
    for part in ("errors", "memory", "steps"):
        print(f"\n{part}: " + (", ".join(f"{name} {value}" for name, value in numbers[part].items()) or "none"))
    print("\nleft behind: " + ("; ".join(numbers["left behind"]) or "nothing"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, help="folder of a task set of the coding environment")
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--sessions", default="1,16,64,256,512")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200, help="steps that are timed beside gradings")
    parser.add_argument("--graders", type=int, default=4, help="sessions that are graded beside them")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server and the temporary folders go too
    most = max(int(number) for number in options.sessions.split(","))
    with tempfile.TemporaryDirectory() as folder:
        tasks_dir = options.tasks or generate(Path(folder) / "tasks")
        tasks = list(TaskSet.load(tasks_dir))
        with serving(tasks_dir, most + options.graders + 1, options.workers) as server:
            numbers = asyncio.run(measure(server, tasks, options))
            server.process.terminate()
            server.process.wait(120)
            numbers["left behind"] = server.traces.left()
    print(json.dumps(numbers, indent=1)) if options.json else show(numbers)
    rows = numbers["load"].values()
    whole = all(row["errors"] == 0 and row["solved"] == row["episodes"] for row in rows)
    return 0 if whole and not numbers["left behind"] and numbers["steps"]["ratio"] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
