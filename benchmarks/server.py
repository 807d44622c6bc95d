"""Cost of the wire: medians over loopback, with a session that answers a turn with its text.

Run it anywhere: ``python benchmarks/server.py [--turns N] [--sessions N] [--json]``.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time

from etude.benchmarks.output import parser_of, show
from etude.cli.bench.echo_server import TASK, EchoSession
from etude.client import Client
from etude.environments.tasks.task_set import TaskSet
from etude.server.app import create_app
from etude.server.serving import listen, uvicorn_server

TURN = {"text": "x" * 500, "tool_calls": []}


async def episode_ms(url: str, turns: int) -> tuple[float, list[float]]:
    """Return the milliseconds of connect, reset and close together, and those of each turn."""
    started = time.perf_counter()
    async with Client(url) as client:
        await client.reset()
        opened = time.perf_counter()
        times = []
        for _ in range(turns):
            before = time.perf_counter()
            await client.step(TURN)
            times.append((time.perf_counter() - before) * 1000)
        closing = time.perf_counter()
    return (opened - started + time.perf_counter() - closing) * 1000, times


async def measure(url: str, turns: int, sessions: int) -> dict[str, float]:
    """Return the medians of one session and of many at once."""
    await episode_ms(url, 10)
    _, alone = await episode_ms(url, turns)
    opened = [(await episode_ms(url, 0))[0] for _ in range(50)]
    started = time.perf_counter()
    together = await asyncio.gather(*(episode_ms(url, turns) for _ in range(sessions)))
    seconds = time.perf_counter() - started
    return {
        "turn, one session (ms)": statistics.median(alone),
        "connect + reset + close (ms)": statistics.median(opened),
        f"turn, {sessions} sessions at once (ms)": statistics.median(ms for _, times in together for ms in times),
        f"turns per second, {sessions} sessions at once": sessions * turns / seconds,
    }


def main() -> None:
    """Run the benchmark."""
    options = parser_of(__doc__, turns=200, sessions=64).parse_args()
    app = create_app(TaskSet([TASK]), make_session=EchoSession, max_sessions=options.sessions)
    listening = listen("127.0.0.1", 0)
    server = uvicorn_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    numbers = asyncio.run(measure(url, options.turns, options.sessions))
    server.should_exit = True
    thread.join()
    show(numbers, options.json, lambda name, value: f"{name:45} {value:10.2f}")


if __name__ == "__main__":
    main()
