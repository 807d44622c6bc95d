"""Medians of the times to start an episode: a reset, a fork before turn t, and a replay of the actions before turn t.

    python benchmarks/fork.py [--source pypi:cachetools==5.5.0] [--rounds N] [--backend bubblewrap] [--json]

Run it on an idle machine. The Snapshot is built first (a minute when it is not cached). One episode of 30 turns is the
source of the forks, which run in another session. ``save`` is the time to store a turn's state: after a turn that
changed nothing, and after one that appended to a file.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from etude.benchmarks.output import parser_of, show
from etude.environments.agents import scripted
from etude.environments.coding.session import CodingSession
from etude.environments.forks import EpisodeStore
from etude.environments.sandbox import open_sandbox
from etude.environments.snapshots import build_snapshot, make_patch
from etude.environments.tasks.task_set import TaskSet
from etude.environments.tasks.task_trees import materials
from etude.models import GeneratorRef, Task

TURNS = (1, 10, 30)
LENGTH = 30


def make_task(source: str) -> Task:
    """Return a task whose first longer source file is to be written again; nothing here is graded."""
    snapshot = build_snapshot(source)
    files = sorted(snapshot.tree.glob("src/*/*.py")) or sorted(snapshot.tree.glob("*/*.py"))
    path = next(file for file in files if file.stat().st_size > 2000)
    name, content = path.relative_to(snapshot.tree).as_posix(), path.read_bytes()
    exercise = b"".join(content.splitlines(keepends=True)[:20])
    return Task(
        task_id="fork",
        snapshot=snapshot.ref,
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement=f"Write {name} again.",
        patch=make_patch({name: exercise}, {name: content}),
        workspace_patch=make_patch({name: content}, {name: exercise}),
        source_globs=[name],
        verifier=snapshot.verifier,
    )


def actions_of(task: Task) -> list[dict[str, Any]]:
    """Return thirty turns that read, write and run the tests; one in the middle writes the solution."""
    rounds: list[dict[str, Any]] = [
        {"tool": "bash", "arguments": {"command": "git status --short; ls; echo note >>notes.txt"}},
        {"tool": "list_files", "arguments": {}},
        {"tool": "write_file", "arguments": {"path": "scratch/try.py", "content": "print('try')\n" * 50}},
        {"tool": "bash", "arguments": {"command": "python scratch/try.py | tail -1; python -m compileall -q ."}},
        {"tool": "run_tests", "arguments": {}},
        {"tool": "search", "arguments": {"pattern": "def "}},
    ]
    played = [rounds[number % len(rounds)] for number in range(LENGTH)]
    played[12:13] = scripted.solution(task).actions[:1]
    return played


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    """Return the milliseconds of a call."""
    started = time.perf_counter()
    await call()
    return (time.perf_counter() - started) * 1e3


async def measure(task: Task, backend: str, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of every reset, fork, replay and save, and the size of the stored states."""
    tasks, store, played, times = TaskSet([task]), EpisodeStore(), actions_of(task), dict[str, list[float]]()
    source = CodingSession(tasks, backend=backend, store=store)
    plain = CodingSession(tasks, backend=backend, store=EpisodeStore(max_bytes=0))
    other = CodingSession(tasks, backend=backend, store=store)
    try:
        task_id = task.task_id
        await source.reset(task_id=task_id)
        times["turn"] = [await timed(partial(source.step, action)) for action in played]
        state = source.state()
        await other.reset(task_id=task_id)
        for number in range(rounds):
            times.setdefault("reset", []).append(await timed(lambda: other.reset(task_id=task_id)))
            for turn in TURNS:
                fork = {"fork_of": state.episode_id, "turn": turn, "token": state.token}
                times.setdefault(f"fork, turn {turn}", []).append(await timed(partial(other.reset, **fork)))
                if number < 3:
                    replay = {"task_id": task_id, "replay": played[:turn]}
                    spent = await timed(partial(plain.reset, **replay))
                    times.setdefault(f"replay, turn {turn}", []).append(spent)
        times |= await saves(task, backend, rounds)
        times["kept KiB"] = [store.bytes / 1024]
        return times
    finally:
        for session in (source, plain, other):
            await session.close()


async def saves(task: Task, backend: str, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of storing a sandbox's state."""
    times: dict[str, list[float]] = {"save, nothing new": [], "save, one edit": []}
    sandbox = await open_sandbox(materials(task).agent_layers, backend=backend)
    try:
        await sandbox.exec("python -m compileall -q .; git status")
        await sandbox.save()
        for _ in range(rounds):
            times["save, nothing new"].append(await timed(sandbox.save))
            await sandbox.exec("echo more >>notes.txt")
            times["save, one edit"].append(await timed(sandbox.save))
        return times
    finally:
        await sandbox.close()


def main() -> None:
    """Run the benchmark."""
    parser = parser_of(__doc__, rounds=50)
    parser.add_argument("--source", default="pypi:cachetools==5.5.0")
    parser.add_argument("--backend", default="bubblewrap")
    options = parser.parse_args()
    task = make_task(options.source)
    times = asyncio.run(measure(task, options.backend, options.rounds))

    def line(name: str, median: float) -> str:
        p90 = sorted(times[name])[int(len(times[name]) * 0.9)]
        return f"{name:22} p50 {median:9.1f}   p90 {p90:9.1f}   ({len(times[name])} times)"

    show({name: statistics.median(values) for name, values in times.items()}, options.json, line)


if __name__ == "__main__":
    main()
