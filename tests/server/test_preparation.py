"""Tasks that are prepared before the server says that it is ready."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest
from helpers.serve_process import etude_serve
from typer.testing import CliRunner

from etude.cli.app import app
from etude.client import connect
from etude.environments.drill.session import DrillSession
from etude.errors import SnapshotError
from etude.models import Task
from etude.server.app import create_app
from etude.server.preparation import Preparation, read_prepare

TASKS = DrillSession.tasks()
FIRST = [TASKS.get_task(TASKS.list_splits()[0], index).task_id for index in range(3)]


class Prepared(DrillSession):
    """Drills whose preparation waits for a gate, and fails for one task."""

    seen: list[str]
    closed: int
    gate: asyncio.Event
    unprepared = ""

    async def prepare(self, task: Task) -> None:
        if task.task_id == self.unprepared:
            raise SnapshotError("its archive is gone")
        await self.gate.wait()
        await asyncio.sleep(0)
        type(self).seen.append(task.task_id)

    async def close(self) -> None:
        type(self).closed += 1
        await super().close()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ETUDE_PREPARE", raising=False)
    for name, value in {"seen": [], "closed": 0, "gate": asyncio.Event(), "unprepared": ""}.items():
        monkeypatch.setattr(Prepared, name, value, raising=False)


def test_first_tasks_are_prepared_in_order_and_their_sessions_closed() -> None:
    async def prepared() -> list[str]:
        preparation = Preparation(TASKS, lambda: Prepared(TASKS), 3)
        reasons = [preparation.reason]
        preparation.start()
        Prepared.gate.set()
        for _ in range(100):
            await asyncio.sleep(0)
            reasons.append(preparation.reason)
        await preparation.stop()
        return list(dict.fromkeys(reasons))

    assert asyncio.run(prepared()) == [f"preparing tasks: {done} of 3 done" for done in range(3)] + [""]
    assert (Prepared.seen, Prepared.closed) == (FIRST, 3)


def test_task_that_cannot_be_prepared_is_logged_and_the_next_one_follows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Prepared, "unprepared", FIRST[1])

    async def prepared() -> None:
        preparation = Preparation(TASKS, lambda: Prepared(TASKS), 3)
        preparation.start()
        Prepared.gate.set()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not preparation.reason

    with caplog.at_level(logging.WARNING):
        asyncio.run(prepared())
    assert Prepared.seen == [FIRST[0], FIRST[2]]
    assert f"task {FIRST[1]} cannot be prepared: its archive is gone" in caplog.text


def test_defect_of_an_environment_is_logged_and_the_next_task_follows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: Prepared, task: Task) -> None:
        raise KeyError("no such field")

    monkeypatch.setattr(Prepared, "prepare", broken)

    async def prepared() -> int:
        preparation = Preparation(TASKS, lambda: Prepared(TASKS), 2)
        preparation.start()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not preparation.reason
        return preparation.done

    assert asyncio.run(prepared()) == 2
    assert caplog.text.count("KeyError: 'no such field'") == 2


def test_readyz_waits_for_the_preparation_while_sessions_may_already_play(light: Any) -> None:
    with light.serving(create_app(TASKS, make_session=lambda: Prepared(TASKS), prepare=2)) as running:
        answer = httpx.get(f"{running.url}/readyz")
        assert (answer.status_code, answer.json()["reason"]) == (503, "preparing tasks: 0 of 2 done")
        with connect(running.url) as client:
            assert client.reset(seed=1).prompt
    assert Prepared.seen == []  # the server stops although the gate is closed


def test_served_tasks_become_ready_when_they_are_prepared() -> None:
    with etude_serve("--env", "drill", "--prepare", "3") as server:
        for _ in range(200):
            answer = httpx.get(f"{server.url}/readyz")
            if answer.status_code == 200:
                break
        assert answer.json()["ready"]


def test_number_is_read_from_the_variable_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (read_prepare(), read_prepare(4)) == (0, 4)
    monkeypatch.setenv("ETUDE_PREPARE", "7")
    assert (read_prepare(), read_prepare(4)) == (7, 4)
    monkeypatch.setenv("ETUDE_PREPARE", "many")
    with pytest.raises(ValueError, match="ETUDE_PREPARE is 'many': give a number of tasks, 0 or more"):
        read_prepare()
    with pytest.raises(ValueError, match="give a number of tasks, 0 or more"):
        read_prepare(-1)
    refused = CliRunner().invoke(app, ["serve", "--env", "drill", "--prepare", "-1"])
    assert refused.exit_code == 2
