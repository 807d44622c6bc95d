"""The OpenEnv environment in-process: the contract that needs no server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers import light_server
from openenv.core.env_server.serialization import serialize_observation

from etude.environments.openenv import Action, EtudeEnvironment, Observation, State
from etude.environments.wire_values import MAX_DEPTH, LeftBehind, plain
from etude.errors import InfrastructureError, SessionError, redact_paths
from etude.models import PublicTask, Reward


@pytest.fixture(scope="module")
def light() -> ModuleType:
    return light_server


@pytest.fixture
def make(light: Any) -> Callable[..., EtudeEnvironment]:
    tasks = light.task_set()
    return lambda **options: EtudeEnvironment(tasks, lambda: light.LightSession(tasks), **options)


def act(**fields: Any) -> Action:
    return Action.model_validate(fields)


def test_the_constructor_makes_no_session(light: Any) -> None:
    environment = EtudeEnvironment(light.task_set(), lambda: pytest.fail("a session was made"))
    assert environment.SUPPORTS_CONCURRENT_SESSIONS
    assert environment.num_tasks("train") == 3 and environment.state == State()
    environment.close()
    environment.close()


def test_the_reward_is_built_from_rubrics(make: Callable[..., EtudeEnvironment], light: Any) -> None:
    async def scenario() -> None:
        environment = make()
        await environment.reset_async(task_id="light-1")
        names = [name for name, _ in environment.rubric.named_rubrics()]
        assert names == ["fail_to_pass", "pass_to_pass", "no_confirmed_finding"]
        last = await environment.step_async(act(**light.SUBMIT))
        scores = {name: rubric.last_score for name, rubric in environment.rubric.named_rubrics()}
        assert scores == {"fail_to_pass": 0.0, "pass_to_pass": 1.0, "no_confirmed_finding": 1.0}
        assert last.done and last.reward == 0.0 == environment.rubric.last_score
        await environment.close_async()

    asyncio.run(scenario())


def test_a_grade_that_contradicts_its_components_is_no_score(make: Callable[..., EtudeEnvironment], light: Any) -> None:
    async def scenario() -> None:
        environment = make()
        await environment.reset_async()
        session = environment._session
        assert session is not None
        graded = session.standing
        session.standing = lambda: _with_reward(graded(), 0.5)  # type: ignore[method-assign]
        with pytest.raises(InfrastructureError):
            await environment.step_async(act(**light.SUBMIT))
        assert environment.state.reward is not None and not environment.state.reward.valid
        await environment.close_async()

    asyncio.run(scenario())


def _with_reward(standing: Any, value: float) -> Any:
    record = standing.record
    if record.reward is None:
        return standing
    return standing._replace(record=record.model_copy(update={"reward": Reward(value=value)}))


def test_calls_out_of_order_are_session_errors(make: Callable[..., EtudeEnvironment], light: Any) -> None:
    async def scenario() -> None:
        environment = make()
        with pytest.raises(SessionError, match="reset first"):
            await environment.step_async(act(**light.SUBMIT))
        await environment.reset_async()
        await environment.close_async()
        await environment.close_async()
        for late in (environment.step_async(act(**light.SUBMIT)), environment.reset_async()):
            with pytest.raises(SessionError, match="closed"):
                await late

    asyncio.run(scenario())


def test_state_answers_while_a_step_runs_and_close_ends_that_step(
    make: Callable[..., EtudeEnvironment], light: Any
) -> None:
    async def scenario() -> None:
        environment = make()
        await environment.reset_async(episode_id="e")
        light.LightSession.hanging.clear()
        step = asyncio.create_task(environment.step_async(act(tool="hang")))
        await asyncio.to_thread(light.LightSession.hanging.wait, 20)
        assert environment.state.episode_id == "e" and environment.busy
        await environment.close_async()
        with pytest.raises(SessionError, match="was closed"):
            await step

    asyncio.run(scenario())


def test_a_cut_off_call_voids_the_episode(make: Callable[..., EtudeEnvironment], light: Any) -> None:
    async def scenario() -> None:
        environment = make()
        await environment.reset_async()
        light.LightSession.hanging.clear()
        step = asyncio.create_task(environment.step_async(act(tool="hang")))
        await asyncio.to_thread(light.LightSession.hanging.wait, 20)
        step.cancel()
        await asyncio.wait({step})
        assert step.cancelled()
        with pytest.raises(SessionError, match="cut off"):
            await environment.step_async(act(**light.SUBMIT))
        assert environment.state.reward is not None and not environment.state.reward.valid
        assert (await environment.reset_async()).prompt
        await environment.close_async()

    asyncio.run(scenario())


def test_the_synchronous_face_plays_without_a_loop(make: Callable[..., EtudeEnvironment], light: Any) -> None:
    environment = make()
    environment.reset(task_id="light-2")
    environment.step(act(**light.say("answer-2")))
    assert environment.step(act(**light.SUBMIT)).reward == 1.0
    closed = light.LightSession.closed_count
    environment.close()
    assert light.LightSession.closed_count == closed + 1


def test_an_episode_left_behind_reaches_the_archive_without_seed_and_grade(
    make: Callable[..., EtudeEnvironment], light: Any
) -> None:
    previous: list[tuple[str, str, LeftBehind]] = []

    async def scenario() -> None:
        environment = make(archive=lambda *row: previous.append(row))
        await environment.reset_async(episode_id="one", seed=5)
        await environment.step_async(act(**light.SUBMIT))
        await environment.reset_async(episode_id="two")
        await environment.close_async()
        assert [(name, token) for name, token, _ in previous] == [
            ("one", environment.token),
            ("two", environment.token),
        ]

    asyncio.run(scenario())
    served = previous[0][2].served()
    assert not {"seed", "grade"} & served.keys() and served["reward"]["value"] == 0.0


def test_reset_arguments_are_checked_by_name_and_type(make: Callable[..., EtudeEnvironment]) -> None:
    async def refused(**arguments: Any) -> str:
        with pytest.raises(SessionError) as error:
            await make().reset_async(**arguments)
        return str(error.value)

    assert "Did you mean 'split'?" in asyncio.run(refused(splt="train"))
    assert asyncio.run(refused(seed="1")) == "reset: seed must be an integer, got '1'"
    assert asyncio.run(refused(episode_id="x" * 300)).startswith("reset: episode_id must be 1 to 255 printable char")
    assert asyncio.run(refused(replay={})).startswith(
        "reset: replay must be a list of actions, each a JSON object, got"
    )


def test_the_task_provider_shows_public_rows_only(make: Callable[..., EtudeEnvironment]) -> None:
    environment = make()
    rows = [*environment.list_tasks("train"), environment.get_task("test", 0), *environment.get_task_range("train", 1)]
    assert {type(row) for row in rows} == {PublicTask} and len(rows) == 6
    for wrong in (lambda: environment.get_task("train", -1), lambda: environment.list_tasks("dev")):
        with pytest.raises(IndexError):
            wrong()


def test_absent_fields_are_absent_on_the_wire() -> None:
    assert serialize_observation(Observation(messages=[])) == {
        "observation": {"messages": []},
        "reward": 0.0,
        "done": False,
    }


def test_an_action_comes_back_as_it_was_given() -> None:
    settings = {"text": "t", "metadata": "m", "extra": [1, {"x": None}], "tool_calls": None}
    assert Action.model_validate(settings).raw() == settings


def test_cleaning_removes_what_cannot_be_stored() -> None:
    deep: Any = "bottom"
    for _ in range(MAX_DEPTH * 3):
        deep = [deep]
    assert "(nested too deep)" in repr(plain(deep)) and "bottom" not in repr(plain(deep))
    assert plain({"\ud800": "a\udfff"}) == {"?": "a?"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot open /root/.cache/etude/x: denied", "cannot open <path>: denied"),
        ("in /workspace/src/a.py and /opt/etude/env/bin", "in /workspace/src/a.py and /opt/etude/env/bin"),
        ("bind='/tmp/x y/z' failed\nat /usr/lib", "bind='<path> y/z' failed at <path>"),
        ("", "unknown cause"),
    ],
)
def test_infrastructure_errors_name_no_host_path(text: str, shown: str) -> None:
    assert redact_paths(text) == shown
