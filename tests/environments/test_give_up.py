"""The tool ``give_up``: who is offered it, and how an episode ends that was given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from etude.environments.actions import call, turn
from etude.environments.coding.session import CodingSession
from etude.environments.tasks.task_set import TaskSet
from etude.models import CHANGED_TEST, IMPOSSIBLE, MAY_GIVE_UP, TWIN_OF, Episode, Observation, Task

SECRET = {IMPOSSIBLE: True, TWIN_OF: "tally-total", CHANGED_TEST: "tests/test_hidden.py::test_total"}


def with_features(task: Task, **features: Any) -> Task:
    return task.model_copy(update={"features": {**task.features, **features}})


def played(task: Task, *actions: dict[str, Any], **reset: Any) -> tuple[Observation, list[Observation], Episode]:
    async def play() -> tuple[Observation, list[Observation], Episode]:
        session = CodingSession(TaskSet([task]))
        try:
            first = await session.reset(task_id=task.task_id, **reset)
            return first, [await session.step(action) for action in actions], session.episode()
        finally:
            await session.close()

    return asyncio.run(play())


GIVE_UP = turn("", call("give_up", reason="the statement  contradicts\nitself"), call("bash", command="true"))


def test_giving_up_ends_the_episode_with_reward_zero_and_no_finding(task: Task) -> None:
    _, (last,), episode = played(with_features(task, **{MAY_GIVE_UP: True}), GIVE_UP)
    assert [message.content for message in last.messages] == ["ok\ngiven up", "not run: episode ended"]
    assert (last.done, last.reward, episode.end, episode.findings) == (True, 0.0, "give_up", [])
    assert episode.reward is not None and episode.reward.valid and episode.reward.value == 0.0
    assert episode.grade is not None
    assert episode.grade.end_cause == "the agent gave up: the statement contradicts itself"


def test_an_impossible_task_and_its_original_look_the_same(task: Task) -> None:
    original = with_features(task, **{MAY_GIVE_UP: True})
    twin = with_features(original, **SECRET)
    shown = [played(item)[0] for item in (original, twin)]
    assert shown[0] == shown[1]
    assert shown[0].tools is not None and shown[0].tools[-1]["function"]["name"] == "give_up"
    assert shown[0].prompt is not None and shown[0].prompt.endswith("with the reason: it ends the episode.\n")
    assert twin.public() == original.public()
    assert not any(name in twin.public().model_dump_json() for name in (*SECRET, "test_hidden"))


def test_a_row_for_export_offers_it_as_an_episode_does(task: Task) -> None:
    offered = with_features(task, **{MAY_GIVE_UP: True})
    row = asyncio.run(CodingSession(TaskSet([offered])).row(offered))
    first = played(offered)[0]
    assert (row.prompt, row.tools) == (first.prompt, first.tools)


def test_give_up_is_an_unknown_tool_where_the_task_does_not_offer_it(task: Task) -> None:
    first, (answer,), episode = played(task, turn("", call("give_up", reason="x")))
    assert answer.messages[0].content.startswith("error tool_not_found:") and not answer.done
    assert first.prompt is not None and "give_up" not in first.prompt and episode.end is None


def test_giving_up_without_a_reason_is_a_wrong_call(task: Task) -> None:
    _, (answer,), _ = played(with_features(task, **{MAY_GIVE_UP: True}), turn("", call("give_up")))
    assert answer.messages[0].content.startswith("error invalid_args:") and not answer.done


@pytest.mark.parametrize("fault", ["timeout@0", "withdrawn@0"])
def test_faults_leave_giving_up_alone(task: Task, fault: str) -> None:
    _, (answer,), _ = played(with_features(task, **{MAY_GIVE_UP: True}), GIVE_UP, faults=fault)
    assert answer.done
