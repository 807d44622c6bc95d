"""Rates at which drills are made, and played over the socket.

    python benchmarks/drill.py [--tasks N] [--episodes N] [--sessions N] [--json]

``tasks`` rows with their tools are made one after the other in this process. ``episodes`` solutions are played through
Etude's client over websockets, ``sessions`` at a time, against `etude serve --env drill` in another process. Resets are
played too, but only steps are counted. Rates per second of wall time depend on what else the machine does; rates per
second of user CPU, of the server and of the client, do not.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from etude.benchmarks.output import parser_of, show
from etude.client import Client
from etude.environments.drill.families import FAMILIES
from etude.environments.drill.tasks import DrillTasks, Name


def generation(number: int) -> dict[str, float]:
    """Return the rates of making tasks."""
    tasks, families = DrillTasks(), sorted(FAMILIES.paths())
    started, cpu = time.perf_counter(), time.process_time()
    for seed in range(number):
        task, drill = tasks.generate(Name(families[seed % len(families)], seed, None))
        assert task.problem_statement and drill.tools
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {"tasks per second": number / wall, "tasks per CPU second": number / cpu}


def solutions(episodes: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return task ids with the actions that solve them."""
    tasks = DrillTasks()
    result = []
    for index in range(episodes):
        task_id = tasks.get_task("train", index).task_id
        drill = tasks.drill(task_id)
        actions = [
            {"text": "", "tool_calls": [{"id": f"c{number}", "name": name, "arguments": json.dumps(arguments)}]}
            for number, (name, arguments) in enumerate([*drill.solution(), ("submit", {"answer": drill.answer})])
        ]
        result.append((task_id, actions))
    return result


@contextmanager
def server(sessions: int) -> Iterator[tuple[str, int]]:
    """Yield the address and the process id of a fresh server."""
    command = [sys.executable, "-P", "-m", "etude.cli", "serve", "--env", "drill", "--port", "0"]
    environment = {**os.environ, "MAX_CONCURRENT_ENVS": str(sessions)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[1], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def user_seconds(pid: int) -> float:
    """Return the user CPU time of a process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # noqa: PTH123 - no file of ours
        return int(file.read().rpartition(") ")[2].split()[11]) / os.sysconf("SC_CLK_TCK")


async def play(url: str, episodes: list[tuple[str, list[dict[str, Any]]]], sessions: int) -> int:
    """Play the episodes and return the number of steps. Raises AssertionError when a solution fails."""
    waiting, steps = iter(episodes), count()

    async def session() -> None:
        async with Client(url) as client:
            for task_id, actions in waiting:
                await client.reset(task_id=task_id)
                for action in actions:
                    last = await client.step(action)
                    next(steps)
                assert (last.done, last.reward) == (True, 1.0), task_id

    await asyncio.gather(*(session() for _ in range(sessions)))
    return next(steps)


def socket_steps(number: int, sessions: int) -> dict[str, float]:
    """Return the rates of playing episodes over the socket."""
    episodes = solutions(number)
    with server(sessions) as (url, pid):
        asyncio.run(play(url, episodes[:50], sessions))
        server_before, client_before, started = user_seconds(pid), os.times().user, time.perf_counter()
        steps = asyncio.run(play(url, episodes, sessions))
        wall, client_cpu = time.perf_counter() - started, os.times().user - client_before
        server_cpu = user_seconds(pid) - server_before
    return {
        "steps": steps,
        "steps per second": steps / wall,
        "steps per CPU second of the server": steps / server_cpu,
        "steps per CPU second of the client": steps / client_cpu,
    }


def main() -> None:
    """Run the benchmark."""
    options = parser_of(__doc__, tasks=20_000, episodes=3000, sessions=16).parse_args()
    rows = generation(options.tasks) | socket_steps(options.episodes, options.sessions)
    show(rows, options.json, lambda name, value: f"{name:36} {value:10,.0f}")


if __name__ == "__main__":
    main()
