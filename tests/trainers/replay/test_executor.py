"""Executed values, on a served drill."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from etude.client import Client
from etude.errors import ServerInfrastructureError
from etude.models import Episode
from etude.trainers.replay.executor import Executor, Value, recorded
from etude.trainers.replay.prefixes import State
from etude.trainers.replay.settings import ValueSettings

UNKNOWN = {"tool": "no_such_tool", "arguments": {}}


def values(
    url: str, state: State, *actions: dict[str, Any], settings: ValueSettings | None = None, **options: Any
) -> tuple[list[Value | None], Executor]:
    async def all_of_them() -> tuple[list[Value | None], Executor]:
        async with Client(url) as client:
            executor = Executor(client, settings, **options)
            return [await executor.value(state, action) for action in actions], executor

    return asyncio.run(all_of_them())


def test_an_action_that_errs_is_worth_less_than_one_that_does_not(
    url: str, erred: Episode, solution: list[dict[str, Any]]
) -> None:
    found, _ = values(url, State(erred, 1), UNKNOWN, solution[1])
    assert found[0] is not None and found[1] is not None
    assert (found[0].score, found[0].error) == (-1.0, "tool_not_found")
    assert (found[1].score, found[1].error, found[1].solved) == (0.0, "", None)


def test_the_first_reach_replays_and_the_next_forks(url: str, erred: Episode, solution: list[dict[str, Any]]) -> None:
    found, _ = values(url, State(erred, 2), solution[1], UNKNOWN)
    assert [each.how for each in found if each] == ["replay", "fork"]


def test_an_episode_that_the_server_keeps_is_forked(
    url: str, kept: tuple[Episode, str], solution: list[dict[str, Any]]
) -> None:
    episode, token = kept
    found, _ = values(url, State(episode, 1), solution[1], tokens={episode.episode_id: token})
    assert [each.how for each in found if each] == ["fork"]


def test_submitting_is_judged_by_the_reward(url: str, erred: Episode, solution: list[dict[str, Any]]) -> None:
    wrong = {"tool": "submit", "arguments": {"answer": "no"}}
    found, _ = values(url, State(erred, len(erred.turns) - 1), solution[-1], wrong)
    assert [(each.score, each.solved) for each in found if each] == [(1.0, True), (-1.0, False)]


def following(actions: list[dict[str, Any]], seen: list[int]) -> Callable[[State], Awaitable[dict[str, Any] | None]]:
    async def follow(state: State) -> dict[str, Any] | None:
        seen.append(state.turn)
        assert [turn.messages for turn in state.past[-1:]][0], "the state holds what was played"
        return actions[len(seen) - 1] if len(seen) <= len(actions) else None

    return follow


def test_a_continuation_that_solves_proves_the_action(url: str, erred: Episode, solution: list[dict[str, Any]]) -> None:
    seen: list[int] = []
    settings = ValueSettings(follow=len(solution))
    found, _ = values(url, State(erred, 1), solution[1], settings=settings, follow=following(solution[2:], seen))
    assert found[0] is not None
    assert (found[0].score, found[0].solved, found[0].turns) == (1.0, True, len(solution) - 1)
    assert seen == list(range(2, len(solution)))


def test_a_continuation_that_does_not_get_there_says_nothing(
    url: str, erred: Episode, solution: list[dict[str, Any]]
) -> None:
    found, _ = values(
        url, State(erred, 1), solution[1], settings=ValueSettings(follow=1), follow=following([UNKNOWN], [])
    )
    assert found[0] is not None and (found[0].score, found[0].solved) == (0.0, None)


def test_a_state_that_is_not_the_stored_one_has_no_values(url: str, erred: Episode) -> None:
    other = erred.model_copy(deep=True)
    other.turns[0].messages[0].content = "ok\nsomething else"
    found, executor = values(url, State(other, 1), UNKNOWN)
    assert found == [None]
    assert executor.problems == {"the episode went otherwise when it was played again": 1}
    gone = erred.model_copy(update={"task_id": "drill-none"})
    found, executor = values(url, State(gone, 1), UNKNOWN)
    assert found == [None] and "the state cannot be reached" in next(iter(executor.problems))


def test_a_probe_of_tests_needs_tests(url: str, erred: Episode, solution: list[dict[str, Any]]) -> None:
    found, executor = values(url, State(erred, 1), solution[1], settings=ValueSettings(probe="tests"))
    assert found == [None] and executor.problems == {"there are no visible tests to run": 1}


@pytest.mark.parametrize("where", ["state", "run_tests"])
def test_a_machine_that_fails_costs_one_value(
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
    found, executor = values(url, State(erred, 1), UNKNOWN, solution[1], settings=settings)
    assert found[0] is None and any(f"the machine of {where} failed" in reason for reason in executor.problems)
    assert sum(executor.problems.values()) == (1 if where == "state" else 2), "a drill has no tests"
    assert where == "run_tests" or (found[1] is not None and found[1].score == 0.0)


def test_what_the_episode_itself_tells(erred: Episode) -> None:
    assert [recorded(State(erred, turn)).score for turn in range(3)] == [0.0, -1.0, 0.0]
    assert recorded(State(erred, 1)).error == "tool_not_found"
    assert recorded(State(erred, len(erred.turns) - 1)) == Value(1.0, "recorded", "", True)
