"""Chaos: real coding tasks on a real server while sandboxes, sockets and the server itself fail.

Run it on Linux: ``python benchmarks/chaos.py [--seconds N] [--seed N] [--players N] [--tasks DIR] [--json]``.
It prints how often each fault was injected, and exits with 1 when a promise was broken.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from etude.benchmarks.chaos_parts.episodes import Played, Players
from etude.benchmarks.chaos_parts.server_process import RECONNECT_S, ServerProcess
from etude.benchmarks.output import parser_of, show
from etude.environments.tasks.task_set import TaskSet
from etude.generators.generate import generate

SAMPLE = Path(__file__).parents[1] / "tests" / "data" / "scales"
KILLS_S = 60.0
"""Mean seconds between two kills of the server."""
SANDBOX_KILLS_S = 4.0
"""Mean seconds between two kills of a process below the server."""


@dataclass
class Report:
    """Counts of a run."""

    seconds: float = 0.0
    episodes: int = 0
    injected: dict[str, int] = field(default_factory=dict)
    """How often each fault was injected."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """Episodes by outcome."""
    sandboxes: dict[str, int] = field(default_factory=dict)
    """Episodes by the backend that played them."""
    agent_saw_a_failure: int = 0
    """Graded episodes in which the agent read that one of its actions had failed, so that no reward is expected."""
    broken: list[str] = field(default_factory=list)
    """Promises that were broken."""


def make_tasks(out: Path, seed: int) -> Path:
    """Generate the tasks of the sample package into a folder, and return it."""
    generate([str(SAMPLE)], generators=["fd_function"], count=4, seed=seed, out=out)
    return out


async def run_chaos(tasks: Path, folder: Path, *, seconds: float, seed: int, players: int) -> Report:
    """Play and inject faults for a time; return the counts."""
    server = ServerProcess(tasks, folder)
    server.start()
    await server.wait_until_healthy()
    report, injected = Report(), Counter[str]()
    episodes: list[Played] = []
    task_list = list(TaskSet.load(tasks))
    began = time.monotonic()
    end = began + seconds

    async def play(number: int) -> None:
        stream, source = random.Random(f"{seed}/player/{number}"), Players(server, task_list)
        while time.monotonic() < end:
            episodes.append(await source.play(stream))
            if episodes[-1].outcome in ("lost", "refused"):
                await server.wait_until_healthy()

    async def kill_processes() -> None:
        stream = random.Random(f"{seed}/processes")
        while time.monotonic() < end:
            await asyncio.sleep(stream.expovariate(1 / SANDBOX_KILLS_S))
            injected["kill -9 of a process below the server"] += server.kill_sandbox_process(stream)

    async def kill_server() -> None:
        stream = random.Random(f"{seed}/server")
        while True:
            await asyncio.sleep(stream.uniform(0.5, 1.5) * KILLS_S)
            if time.monotonic() > end:
                return
            server.kill()
            injected["kill -9 of the server, and its restart"] += 1
            server.start()
            await server.wait_until_healthy()

    async def watch() -> None:
        while time.monotonic() < end:
            server.look()
            await asyncio.sleep(0.5)

    injectors = [asyncio.create_task(each()) for each in (kill_processes, kill_server, watch)]
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(players):
                group.create_task(play(number))
        for task in injectors[::2]:
            await task
        injectors[1].cancel()
        await asyncio.wait({injectors[1]})
        await server.wait_until_healthy()
        report.seconds = time.monotonic() - began
        report.broken += await _check_end(server, task_list)
    finally:
        for task in injectors:
            task.cancel()
        code = server.stop()
    if code != 0:
        report.broken.append(f"SIGTERM ended the server with {code}")
    report.broken += [f"left behind: {name}" for name in await server.leftovers()]
    report.broken += _check_grades(server, episodes)
    for episode in episodes:
        injected[episode.fault] += episode.injected
        report.broken += episode.problems
    report.episodes = len(episodes)
    report.injected = {name: count for name, count in sorted(injected.items()) if name != "none"}
    report.outcomes = dict(sorted(Counter(episode.outcome for episode in episodes).items()))
    report.sandboxes = dict(Counter(episode.sandbox for episode in episodes if episode.sandbox))
    if len(report.sandboxes) > 1:
        report.broken.append(f"episodes were played in sandboxes of different strength: {report.sandboxes}")
    report.agent_saw_a_failure = sum(episode.outcome == "graded" and not episode.clean for episode in episodes)
    return report


async def _check_end(server: ServerProcess, tasks: list[Any]) -> list[str]:
    """Return what is wrong with the server when nothing fails any more: sessions that stay, a wrong reward."""
    problems = []
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        for _ in range(2 * (RECONNECT_S + 60)):
            ready = (await http.get(f"{server.url}/readyz")).json()
            if not ready["sessions"]:
                break
            await asyncio.sleep(0.5)
    if ready["sessions"] or not ready["ready"]:
        problems.append(f"the server is not idle at the end: {ready}")
    stream = random.Random(0)
    last = Played("after-the-chaos", "oracle", "none")
    source = Players(server, tasks)
    source.faults = {"none": source.faults["none"]}
    while last.agent != "oracle" or last.outcome == "lost":
        last = await source.play(stream)
    if (last.outcome, last.reward) != ("graded", 1.0):
        problems.append(f"the first episode after the chaos is {last.outcome} with {last.reward}: {last.cause}")
    return problems


def _check_grades(server: ServerProcess, episodes: list[Played]) -> list[str]:
    """Return what is wrong with the grades: a right solution with 0, a wrong one with 1, two grades, a lost grade."""
    problems, stored = [], server.stored()
    for episode in episodes:
        if episode.outcome != "graded":
            continue
        if episode.agent == "oracle" and episode.clean and episode.reward != 1.0:
            problems.append(
                f"a correct solution was scored {episode.reward}: {episode}; {server.evidence(episode.episode_id)}"
            )
        if episode.agent == "noop" and episode.reward != 0.0:
            problems.append(f"an empty solution was scored {episode.reward}: {episode}")
        if stored.get(episode.episode_id) != episode.reward:
            problems.append(f"the store has {stored.get(episode.episode_id)} of a graded episode: {episode}")
    return problems + [
        f"episode {name} was graded {count} times" for name, count in server.gradings().items() if count > 1
    ]


def main() -> None:
    """Run the chaos with tasks of the sample package."""
    parser = parser_of(__doc__, seconds=600, seed=1, players=4)
    parser.add_argument("--tasks", type=Path, help="play this folder instead of tasks of the sample package")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        tasks = options.tasks or make_tasks(folder / "tasks", options.seed)
        chosen = {"seconds": options.seconds, "seed": options.seed, "players": options.players}
        report = asyncio.run(run_chaos(tasks, folder, **chosen))
    rows = {**asdict(report), "seconds": round(report.seconds)}
    show(rows, options.json, lambda title, value: f"{title:20} {value}")
    sys.exit(1 if report.broken else 0)


if __name__ == "__main__":
    main()
