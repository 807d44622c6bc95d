"""The timed actions of a sandbox, the same for every project. Only the standard library: peers' interpreters load it.

- ``start``: create a sandbox whose workspace is a copy of the tree, and run its first command.
- ``exec``: run ``true`` in a running sandbox.
- ``reset``: return a workspace that a command changed to the tree. Without such a call: stop, and start again.
- ``fork``: bring a second sandbox to the state of one in which ``TURNS`` commands ran. Without such a call: start one
  and run the commands again.
- ``grade``: start a fresh sandbox, change a module as an agent's diff would, run the workspace's tests with unittest,
  and remove the sandbox. The tests fail without the change.
- ``many``: ``MANY`` sandboxes at once, each running ``EACH`` commands; milliseconds of one command.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

TURNS, MANY, EACH = 10, 16, 5
WRITE = "echo written >> by_agent.txt; mkdir -p new; head -c 100000 /dev/zero > new/zeros"
CHANGE = "sed -i 's/a - b/a + b/' bench_sum.py"
TESTS = "PATH=/usr/bin:/usr/local/bin:$PATH python3 -m unittest -q bench_test_sum 2>&1"
"""A solution and its tests, for the modules of ``campaign.make_tree``; the Python of the system, not one of a shim."""
READ = "cat by_agent.txt 2>/dev/null; true"


class Side(Protocol):
    """One sandbox of a project."""

    async def start(self, tree: Path) -> None:
        """Create the sandbox with a copy of the tree as its workspace."""

    async def run(self, command: str) -> str:
        """Run a shell command in the workspace and return its output. Raises for a command that fails."""

    async def stop(self) -> None:
        """Remove the sandbox and its workspace."""


async def timed(action: Callable[[], Awaitable[Any]]) -> float:
    """Return the milliseconds of an awaited call."""
    started = time.perf_counter()
    await action()
    return (time.perf_counter() - started) * 1e3


async def measure(make: Callable[[], Side], tree: Path, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each action. Raises AssertionError where a project does not do what is timed."""
    times: dict[str, list[float]] = {name: [] for name in ("start", "exec", "reset", "fork", "grade", "many")}
    await _started(make(), tree, stop=True)  # what happens once for a process is not measured
    assert await _fails(make(), tree), "the tests pass without the change"
    for _ in range(rounds):
        side, other = make(), make()
        times["start"].append(await timed(partial(_started, side, tree)))
        for _ in range(5):
            times["exec"].append(await timed(partial(side.run, "true")))
        await side.run(WRITE)
        assert "written" in await side.run(READ), "the sandbox lost what a command wrote"
        times["reset"].append(await timed(partial(_reset, side, tree)))
        assert "written" not in await side.run(READ), "the reset left what a command wrote"
        for _ in range(TURNS):
            await side.run(WRITE)
        await other.start(tree)
        times["fork"].append(await timed(partial(_forked, side, other, tree)))
        assert (await other.run(READ)).count("written") == TURNS, "the fork has another state"
        await side.stop()
        await other.stop()
        times["grade"].append(await timed(partial(_graded, make(), tree)))
    sides = [make() for _ in range(MANY)]
    for side in sides:
        await side.start(tree)
    for _ in range(3):
        spent = await timed(lambda: asyncio.gather(*map(_busy, sides)))
        times["many"].append(spent / (MANY * EACH))
    for side in sides:
        await side.stop()
    return times


async def _started(side: Side, tree: Path, stop: bool = False) -> None:
    await side.start(tree)
    await side.run("true")
    if stop:
        await side.stop()


async def _reset(side: Any, tree: Path) -> None:
    if hasattr(side, "reset"):
        await side.reset()
        return
    await side.stop()
    await side.start(tree)


async def _forked(side: Any, other: Any, tree: Path) -> None:
    """Bring ``other``, which has just started, to the state of ``side``; without a fork the commands run again."""
    if hasattr(side, "fork_to"):
        await side.fork_to(other)
        return
    for _ in range(TURNS):
        await other.run(WRITE)


async def _fails(side: Side, tree: Path) -> bool:
    """Return whether the tests fail on the unchanged tree."""
    await side.start(tree)
    result = await side.run(f"{TESTS} >/dev/null && echo passed || echo failed")
    await side.stop()
    return result.strip().endswith("failed")


async def _graded(side: Side, tree: Path) -> None:
    await side.start(tree)
    await side.run(CHANGE)
    await side.run(TESTS)
    await side.stop()


async def _busy(side: Side) -> None:
    for _ in range(EACH):
        await side.run("true")


def main(make: Callable[[str], Side]) -> None:
    """Run a peer's script: ``python SCRIPT KIND TREE ROUNDS``; print the times as one line of JSON.

    ``make`` returns a sandbox of a kind. The line is the last one, since some projects print as they run.
    """
    kind, tree, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    times = asyncio.run(measure(lambda: make(kind), tree, rounds))
    print(json.dumps(times), flush=True)
