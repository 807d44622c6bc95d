"""Admission: limits of sessions, fair queues for executions and gradings, and what a refused client reads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
from helpers.faulty_drills import TASKS, play
from prometheus_client.parser import text_string_to_metric_families

from etude.client import Client, connect
from etude.environments.session import Work, limiter
from etude.errors import ServerFull
from etude.models import Observation
from etude.server.admission import Admission, FairQueue, ServerBusy, ServerLimits, client_of
from etude.server.serving import serve

DRILL = "drill-schema-3-l2"


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


class Callers:
    """Callers of a queue that hold their slot until they are released; ``entered`` lists them in order."""

    def __init__(self, queue: FairQueue) -> None:
        self.queue = queue
        self.entered: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.gates: dict[str, asyncio.Event] = {}

    async def add(self, *names: str) -> None:
        """Add callers; the client of a caller is its first letter."""
        for name in names:
            self.gates[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._hold(name))
            await settle()

    async def release(self, name: str) -> None:
        self.gates[name].set()
        await self.tasks[name]
        await settle()

    async def _hold(self, name: str) -> None:
        async with self.queue.slot(name[0]):
            self.entered.append(name)
            await self.gates[name].wait()


def test_fair_queue_serves_clients_in_turn_when_one_has_many_callers() -> None:
    async def play() -> list[str]:
        callers = Callers(FairQueue(1))
        await callers.add("a1", "a2", "a3", "a4", "b1", "c1")
        assert callers.queue.waiting == 5
        while len(callers.entered) < 6:
            await callers.release(callers.entered[-1])
        await callers.release(callers.entered[-1])
        assert (callers.queue.running, callers.queue.waiting) == (0, 0)
        return callers.entered

    assert asyncio.run(play()) == ["a1", "a2", "b1", "c1", "a3", "a4"]


def test_fair_queue_loses_no_slot_when_callers_are_cancelled() -> None:
    async def play() -> None:
        callers = Callers(FairQueue(1))
        await callers.add("a1", "a2", "b1", "c1")
        callers.tasks["a2"].cancel()  # it waits
        await settle()
        assert callers.queue.waiting == 2
        callers.gates["a1"].set()
        await callers.tasks["a1"]  # the slot is granted to b1, which has not run yet
        callers.tasks["b1"].cancel()
        await settle()
        assert callers.entered[-1] == "c1"
        await callers.release("c1")
        assert (callers.queue.running, callers.queue.waiting) == (0, 0)

    asyncio.run(play())


def test_drill_takes_a_slot_for_each_tool_call_and_another_for_its_grading() -> None:
    works: list[Work] = []

    @asynccontextmanager
    async def recorded(work: Work) -> AsyncIterator[None]:
        works.append(work)
        yield

    async def script(session: Any) -> None:
        limiter.set(recorded)
        drill = TASKS.drill(DRILL)
        await session.reset(task_id=DRILL)
        calls = [{"tool": name, "arguments": arguments} for name, arguments in drill.solution()]
        for call in calls:
            await session.step(call)
        assert works == ["execution"] * len(calls) and calls
        last = await session.step({"tool": "submit", "arguments": {"answer": drill.answer}})
        assert last.reward == 1.0 and works[len(calls) :] == ["grading"]

    play(script)


class QueuedSession:
    """Wraps a light session: ``submit`` is a grading that waits for ``go``, and so does the reset of ``held``."""

    go = threading.Event()
    waits = threading.Semaphore(0)

    def __init__(self, light: Any, tasks: Any) -> None:
        self._session = light.LightSession(tasks)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def reset(self, **arguments: Any) -> Observation:
        if arguments.get("episode_id") == "held":
            self.waits.release()
            await asyncio.to_thread(self.go.wait, 60)
        return await self._session.reset(**arguments)

    async def step(self, action: Mapping[str, Any]) -> Observation:
        submits = action["tool_calls"][0]["name"] == "submit"
        async with limiter.get()("grading" if submits else "execution"):
            if submits:
                self.waits.release()
                await asyncio.to_thread(self.go.wait, 60)
            return await self._session.step(action)


def gauges(url: str) -> dict[str, float]:
    """The metrics of the queues, by name and queue."""
    families = text_string_to_metric_families(httpx.get(f"{url}/metrics").text)
    return {
        f"{sample.name} {sample.labels['queue']}": sample.value
        for family in families
        for sample in family.samples
        if "queue" in sample.labels
    }


@pytest.fixture
def queued(light: Any) -> Iterator[Any]:
    """A server with one slot in each queue, whose gradings wait."""
    tasks = light.task_set()
    QueuedSession.go.clear()
    limits = ServerLimits(gradings=1, executions=1)
    with light.serving(
        light.light_app(tasks, make_session=lambda: QueuedSession(light, tasks), limits=limits)
    ) as running:
        yield running
        QueuedSession.go.set()


def test_steps_do_not_wait_when_every_grading_slot_is_in_use(queued: Any, light: Any) -> None:
    async def play(url: str) -> None:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Client(url)) for _ in range(6)]
            for client in clients:
                await client.reset()
            ends = [asyncio.create_task(client.step(light.SUBMIT)) for client in clients[:5]]
            await asyncio.to_thread(QueuedSession.waits.acquire)
            for number in range(20):
                await clients[5].step(light.say(str(number)))
            seen = await asyncio.to_thread(gauges, url)
            assert (seen["etude_running grading"], seen["etude_slots grading"]) == (1, 1)
            assert seen["etude_waiting execution"] == 0
            QueuedSession.go.set()
            assert all(observation.done for observation in await asyncio.gather(*ends))

    asyncio.run(play(queued.url))
    assert gauges(queued.url)["etude_running grading"] == 0


def test_reset_waits_when_every_execution_slot_is_in_use(queued: Any) -> None:
    async def reset(name: str) -> str:
        async with Client(queued.url) as client:
            return (await client.reset(episode_id=name)).prompt or ""

    async def play() -> None:
        held = asyncio.create_task(reset("held"))
        await asyncio.to_thread(QueuedSession.waits.acquire)
        second = asyncio.create_task(reset("second"))
        waiting = await asyncio.to_thread(queued.wait_until, lambda: gauges(queued.url)["etude_waiting execution"] == 1)
        assert waiting and not second.done()
        QueuedSession.go.set()
        assert await held and await second

    asyncio.run(play())
    assert gauges(queued.url)["etude_running execution"] == 0


def test_client_gets_429_and_the_others_go_on_when_it_has_all_its_sessions(light: Any) -> None:
    app = light.light_app(limits=ServerLimits(sessions=3, client_sessions=1))
    with light.serving(app) as served, connect(served.url) as one:
        one.reset()
        with (
            connect(served.url) as second,
            pytest.raises(ServerFull) as full,
        ):
            second.reset()
        advice = "raise ETUDE_CLIENT_SESSIONS (--client-sessions) on the server, or retry after 5 seconds"
        assert str(full.value) == f"1/1 sessions of this client in use: {advice}"
        answer = httpx.post(f"{served.url}/seed_session", json={"split": "train", "index": 0})
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "5")
        assert answer.json()["detail"] == str(full.value)
        other = httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"))
        assert other.post(f"{served.url}/seed_session", json={"split": "train", "index": 0}).status_code == 200
        refused = [line for line in httpx.get(f"{served.url}/metrics").text.splitlines() if 'reason="client"' in line]
        assert 'etude_refused_total{reason="client"} 2.0' in refused


def test_refusal_names_the_mean_time_between_the_last_ends() -> None:
    admission = Admission(ServerLimits(sessions=2))
    with pytest.raises(ServerBusy, match="retry after 5 seconds"):
        admission.check(2, 0)
    for _ in range(3):
        admission.ended()
    with pytest.raises(ServerBusy, match="retry after 1 seconds"):
        admission.check(2, 0)
    admission.check(1, 1)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("testclient", "testclient"),
    ],
)
def test_client_is_named_by_its_address(host: str, name: str) -> None:
    assert client_of({"type": "http", "client": (host, 1234)}) == name
    assert client_of({"type": "http"}) == ""


@pytest.mark.parametrize(
    ("variable", "value", "least"),
    [("ETUDE_EXECUTIONS", "0", 1), ("ETUDE_GRADINGS", "two", 1), ("ETUDE_CLIENT_SESSIONS", "-1", 0)],
)
def test_serve_prints_one_line_when_a_limit_is_no_number(
    variable: str, value: str, least: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    assert serve(None, port=0) == 1
    assert capfd.readouterr().err == f"error: {variable} is {value!r}: give a number, {least} or more\n"
