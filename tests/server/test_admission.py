"""Admission: limits of sessions, fair queues for executions and gradings, and what a refused client reads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from etude.client import Client, connect
from etude.environments.drill.session import DrillSession
from etude.environments.session import Work, limiter
from etude.errors import ServerFull
from etude.models import Observation
from etude.server.admission import Admission, FairQueue, ServerBusy, ServerLimits, client_of
from etude.server.serving import serve


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


def test_sessions_run_tools_and_gradings_in_their_own_slots() -> None:
    works: list[Work] = []

    @asynccontextmanager
    async def recorded(work: Work) -> Any:
        works.append(work)
        yield

    async def play() -> None:
        session = DrillSession()
        limiter.set(recorded)
        first = await session.reset()
        assert works == [] and first.tools is not None
        await session.step({"tool_calls": [{"id": "1", "name": "submit", "arguments": {}}]})
        assert works == ["grading"]
        await session.close()

    asyncio.run(play())


class QueuedSession:
    """Wraps a light session: ``say`` runs as an execution, ``submit`` as a grading that waits for ``go``."""

    go = threading.Event()
    grading = threading.Semaphore(0)

    def __init__(self, light: Any, tasks: Any) -> None:
        self._session = light.LightSession(tasks)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def step(self, action: Mapping[str, Any]) -> Observation:
        submits = action["tool_calls"][0]["name"] == "submit"
        async with limiter.get()("grading" if submits else "execution"):
            if submits:
                self.grading.release()
                await asyncio.to_thread(self.go.wait, 60)
            return await self._session.step(action)


def test_steps_do_not_wait_when_every_grading_slot_is_in_use(light: Any) -> None:
    tasks = light.task_set()
    limits = ServerLimits(gradings=1, executions=1)
    app = light.light_app(tasks, make_session=lambda: QueuedSession(light, tasks), limits=limits)

    def gauges(url: str) -> dict[str, float]:
        families = text_string_to_metric_families(httpx.get(f"{url}/metrics").text)
        return {
            f"{sample.name} {sample.labels['queue']}": sample.value
            for family in families
            for sample in family.samples
            if "queue" in sample.labels
        }

    async def play(url: str) -> None:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Client(url)) for _ in range(6)]
            for client in clients:
                await client.reset()
            ends = [asyncio.create_task(client.step(light.SUBMIT)) for client in clients[:5]]
            await asyncio.to_thread(QueuedSession.grading.acquire)
            for number in range(20):
                await clients[5].step(light.say(str(number)))
            seen = await asyncio.to_thread(gauges, url)
            assert (seen["etude_running grading"], seen["etude_slots grading"]) == (1, 1)
            assert seen["etude_waiting execution"] == 0
            QueuedSession.go.set()
            assert all(observation.done for observation in await asyncio.gather(*ends))

    with light.serving(app) as served:
        asyncio.run(play(served.url))
        assert gauges(served.url)["etude_running grading"] == 0


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
