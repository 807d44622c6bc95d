"""Tests of the executor on a served drill."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from etude.client import Client
from etude.errors import ServerInfrastructureError
from etude.models import Episode
from etude.trainers.replay.settings import ValueSettings
from etude.trainers.replay.turns.executor import Executor, Value, recorded
from etude.trainers.replay.turns.prefixes import State

UNKNOWN = {"tool": "no_such_tool", "arguments": {}}


def values(
    url: str, state: State, *actions: dict[str, Any], settings: ValueSettings | None = None, **options: Any
) -> tuple[list[Value | None], Executor]:
    async def all_of_them() -> tuple[list[Value | None], Executor]:
        async with Client(url) as client:
            executor = Executor(client, settings, **options)
            return [await executor.value(state, action) for action in actions], executor

    return asyncio.run(all_of_them())


def test_value_is_lower_when_the_action_errs(url: str, erred: Episode, solution: list[dict[str, Any]]) -> None:
    results, _ = values(url, State(erred, 1), UNKNOWN, solution[1])
    assert results[0] is not None and results[1] is not None
    assert (results[0].score, results[0].error) == (-1.0, "tool_not_found")
    assert (results[1].score, results[1].error, results[1].solved) == (0.0, "", None)


def test_executor_replays_first_and_forks_the_next_time(
    url: str, erred: Episode, solution: list[dict[str, Any]]
) -> None:
    results, _ = values(url, State(erred, 2), solution[1], UNKNOWN)
    assert [value.source for value in results if value] == ["replay", "fork"]


def test_executor_forks_an_episode_that_the_server_stores(
    url: str, stored_episode: tuple[Episode, str], solution: list[dict[str, Any]]
) -> None:
    episode, token = stored_episode
    results, _ = values(url, State(episode, 1), solution[1], tokens={episode.episode_id: token})
    assert [value.source for value in results if value] == ["fork"]


def test_value_is_the_reward_when_the_action_submits(url: str, erred: Episode, solution: list[dict[str, Any]]) -> None:
    wrong = {"tool": "submit", "arguments": {"answer": "no"}}
    results, _ = values(url, State(erred, len(erred.turns) - 1), solution[-1], wrong)
    assert [(value.score, value.solved) for value in results if value] == [(1.0, True), (-1.0, False)]


def following(
    actions: list[dict[str, Any]], followed: list[int]
) -> Callable[[State], Awaitable[dict[str, Any] | None]]:
    async def follow(state: State) -> dict[str, Any] | None:
        followed.append(state.turn)
        assert [turn.messages for turn in state.past[-1:]][0], "the state contains the turns played so far"
        return actions[len(followed) - 1] if len(followed) <= len(actions) else None

    return follow


def test_value_is_one_when_the_continuation_solves_the_task(
    url: str, erred: Episode, solution: list[dict[str, Any]]
) -> None:
    followed: list[int] = []
    settings = ValueSettings(follow=len(solution))
    results, _ = values(url, State(erred, 1), solution[1], settings=settings, follow=following(solution[2:], followed))
    assert results[0] is not None
    assert (results[0].score, results[0].solved, results[0].turns) == (1.0, True, len(solution) - 1)
    assert followed == list(range(2, len(solution)))


def test_value_is_zero_when_the_continuation_does_not_end(
    url: str, erred: Episode, solution: list[dict[str, Any]]
) -> None:
    results, _ = values(
        url, State(erred, 1), solution[1], settings=ValueSettings(follow=1), follow=following([UNKNOWN], [])
    )
    assert results[0] is not None and (results[0].score, results[0].solved) == (0.0, None)


def test_value_is_none_when_the_state_differs_from_the_stored_one(url: str, erred: Episode) -> None:
    other = erred.model_copy(deep=True)
    other.turns[0].messages[0].content = "ok\nsomething else"
    results, executor = values(url, State(other, 1), UNKNOWN)
    assert results == [None]
    assert executor.problems == {"replaying the recorded actions gave different observations": 1}
    gone = erred.model_copy(update={"task_id": "drill-none"})
    results, executor = values(url, State(gone, 1), UNKNOWN)
    assert results == [None] and "the state cannot be reached" in next(iter(executor.problems))


def test_value_is_none_when_there_are_no_tests_to_probe_with(
    url: str, erred: Episode, solution: list[dict[str, Any]]
) -> None:
    results, executor = values(url, State(erred, 1), solution[1], settings=ValueSettings(probe="tests"))
    assert results == [None] and executor.problems == {"the task has no visible tests to run": 1}


@pytest.mark.parametrize("where", ["state", "run_tests"])
def test_executor_loses_one_value_when_the_machine_fails(
    where: str, url: str, erred: Episode, solution: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, honest = [f"the machine of {where} failed"], {"state": Client.state, "step": Client.step}

    async def state(client: Client) -> Any:
        if where == "state" and failures:
            raise ServerInfrastructureError(failures.pop())
        return await honest["state"](client)  # type: ignore[call-arg]

    async def step(client: Client, action: Any) -> Any:
        if where == action.get("tool") and failures:
            raise ServerInfrastructureError(failures.pop())
        return await honest["step"](client, action)  # type: ignore[call-arg]

    monkeypatch.setattr(Client, "state", state)
    monkeypatch.setattr(Client, "step", step)
    settings = ValueSettings(probe="tests") if where == "run_tests" else None
    results, executor = values(url, State(erred, 1), UNKNOWN, solution[1], settings=settings)
    assert results[0] is None and any(f"the machine of {where} failed" in reason for reason in executor.problems)
    assert sum(executor.problems.values()) == (1 if where == "state" else 2), "a drill has no tests"
    assert where == "run_tests" or (results[1] is not None and results[1].score == 0.0)


def test_recorded_value_comes_from_the_stored_episode(erred: Episode) -> None:
    assert [recorded(State(erred, turn)).score for turn in range(3)] == [0.0, -1.0, 0.0]
    assert recorded(State(erred, 1)).error == "tool_not_found"
    assert recorded(State(erred, len(erred.turns) - 1)) == Value(1.0, "recorded", "", True)
