"""Drills and faults over the wire: the same routes, no task folder, nothing secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openenv.core import GenericEnvClient

from etude.client import connect
from etude.environments.drill.tasks import DrillTasks
from etude.errors import ServerError
from etude.server.app import create_app

TASKS = DrillTasks()


@pytest.fixture(scope="module")
def drills(light: Any) -> Iterator[Any]:
    with light.serving(create_app(TASKS, environment="drill")) as running:
        yield running


def actions(task_id: str) -> list[dict[str, Any]]:
    drill = TASKS.drill(task_id)
    steps = [*drill.solution(), ("submit", {"answer": drill.answer})]
    return [{"tool_calls": [{"id": "c1", "name": name, "arguments": json.dumps(given)}]} for name, given in steps]


@pytest.mark.parametrize("family", ["choose", "schema", "chain", "recover", "stop", "verbs"])
def test_etudes_client_plays_every_family_of_drills(drills: Any, family: str) -> None:
    task_id = f"drill-{family}-11-l3"
    with connect(drills.url) as client:
        first = client.reset(task_id=task_id)
        assert TASKS.drill(task_id).statement in (first.prompt or "")
        for action in actions(task_id):
            last = client.step(action)
        assert (last.done, last.reward) == (True, 1.0)
        episode = client.episode()
        assert (episode.end, episode.task_id, episode.grade) == ("submit", task_id, None)


def test_openenvs_stock_client_plays_drills(drills: Any) -> None:
    with GenericEnvClient(base_url=drills.url).sync() as client:
        result = client.reset(split="eval", index=2)
        assert result.observation["tools"][-1]["function"]["name"] == "submit"
        for action in actions(TASKS.get_task("eval", 2).task_id):
            result = client.step(action)
        assert result.done and result.reward == 1.0


def test_no_route_reveals_the_answer_of_a_drill(drills: Any) -> None:
    rows = httpx.get(f"{drills.url}/tasks", params={"limit": 500}).json()
    assert rows["total"] == len(TASKS) and len(rows["tasks"]) == 500
    drawn = [TASKS.by_id(row["task_id"]) for row in rows["tasks"]]
    for task, row in zip(drawn, rows["tasks"], strict=True):
        assert TASKS.drill(task.task_id).answer not in json.dumps(row)
    one = httpx.get(f"{drills.url}/tasks/drill-choose-123456").json()
    assert set(one) == set(drawn[0].public().model_dump())
    with connect(drills.url) as client:
        client.reset(task_id="drill-choose-123456")
        answer = TASKS.drill("drill-choose-123456").answer
        assert answer not in client.state().model_dump_json() + client.episode().model_dump_json()


def test_reset_can_request_faults(drills: Any) -> None:
    task_id = "drill-choose-11-l1"
    first, submit = actions(task_id)
    with connect(drills.url) as client:
        client.reset(task_id=task_id, faults="transient@0")
        struck = client.step(first)
        assert struck.messages[0].content.startswith("error transport_error: ")
        assert "inject" not in struck.model_dump_json()
        for action in (first, submit):
            last = client.step(action)
        assert last.reward == 1.0
        state = client.state()
        assert [(error.kind, error.injected, error.site) for error in state.error_turns][:1] == [
            ("transport_error", True, "recovery")
        ]
        assert [fault.kind for fault in state.injected] == ["transient"]
        with pytest.raises(ServerError, match="Did you mean 'timeout'"):
            client.reset(task_id=task_id, faults="timeot")


def test_server_injects_its_faults_into_every_episode(light: Any) -> None:
    task_id = "drill-choose-11-l1"
    app = create_app(TASKS, environment="drill", faults="renamed@0")
    with light.serving(app) as running, connect(running.url) as client:
        before = client.reset(task_id=task_id).tools
        client.step(actions(task_id)[0])
        now = client.state().tools
        assert now is not None and now != before
        client.reset(task_id=task_id, faults="")
        assert client.step(actions(task_id)[0]).messages[0].content.startswith("ok\n")


def test_fork_over_the_wire_keeps_the_faults(drills: Any) -> None:
    task_id = "drill-choose-11-l1"
    first, submit = actions(task_id)
    with connect(drills.url) as one, connect(drills.url) as other:
        one.reset(task_id=task_id, faults="garbled@0")
        one.step(first)
        state = one.state()
        seen = other.reset(fork_of=state.episode_id, turn=1, token=state.token)
        assert seen.messages == one.episode().turns[0].messages
        other.step(first)
        assert other.step(submit).reward == 1.0
        assert [fault.turn for fault in other.state().injected] == [0]
