"""Injected faults: for every kind an agent that recovers and one that does not, annotated exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from helpers.faulty_drills import COPY, FILES, GIVE_UP, LOADS, READ, Action, call, episode_of, play, steps, value

from etude.environments.annotations import annotated
from etude.environments.drill.session import DrillSession
from etude.environments.faults import FAULTS
from etude.models import Episode, Observation

Row = tuple[int, int | None, str, str, bool, bool | None, int | None]


def rows(episode: Episode) -> list[Row]:
    return [
        (error.turn, error.call_index, error.kind, error.site, error.injected, error.recovered, error.turns_to_recover)
        for error in episode.error_turns
    ]


@dataclass(frozen=True)
class Case:
    """What is played up to the struck call, what follows it in the agent that recovers, and the expected annotation.

    ``more`` are the errors that the agent makes while it recovers.
    """

    task_id: str
    before: list[Action]
    struck: Action
    recovery: list[Action]
    kind: str
    status: str
    more: tuple[Row, ...] = ()


def in_files(kind: str, status: str, *recovery: Action, more: tuple[Row, ...] = ()) -> Case:
    first, second, third, submit = steps(FILES)
    again = list(recovery) or [second]
    return Case(FILES, [first], second, [*again, third, submit], kind, status, more)


def cases() -> dict[str, Case]:
    first, second, third, submit = steps(FILES)
    path = second["arguments"]["path"]
    new_name, new_argument = changed_names()
    read, write, end = steps(COPY)
    weigh, *loads, close, sealed = steps(LOADS)
    return {
        "transient": in_files("transport_error", "error transport_error: connection reset by the tool server"),
        "timeout": in_files("timeout", "error timeout: the tool server did not answer in time"),
        "permission": in_files("nonzero_exit", "error permission_denied: permission denied"),
        "rate_limit": in_files("transport_error", "error transport_error: rate limit: too many calls, try again"),
        "truncated": in_files("injected_fault", "ok"),
        "garbled": in_files("injected_fault", "ok"),
        "withdrawn": in_files(
            "tool_not_found",
            f"error tool_not_found: there is no tool '{READ}'. The tools are: list_folders, submit",
            *[call("list_folders")] * 3,
            second,
            more=((3, 0, "wasteful", "erring", False, True, 2), (4, 0, "wasteful", "erring", False, True, 1)),
        ),
        "renamed": Case(
            FILES,
            [first],
            second,
            [call(new_name, **second["arguments"]), call(new_name, **third["arguments"]), submit],
            "tool_not_found",
            f"error tool_not_found: there is no tool '{READ}'; did you mean '{new_name}'?",
        ),
        "changed_schema": Case(
            FILES,
            [first],
            second,
            [call(READ, **{new_argument: path}), call(READ, **{new_argument: third["arguments"]["path"]}), submit],
            "invalid_args",
            f"error invalid_args: {READ} has no argument 'path'",
        ),
        "stale_read": Case(LOADS, [weigh, *loads], weigh, [weigh, close, sealed], "injected_fault", "ok"),
        "partial_write": Case(COPY, [read], write, [write, end], "nonzero_exit", "error io_error: wrote "),
    }


def changed_names() -> tuple[str, str]:
    """Return the names of the tool and its argument after the fault, as the agent reads them in the answer."""
    renamed = episode_of(FILES, "renamed@1", *steps(FILES)[:2]).injected[0]
    changed = episode_of(FILES, "changed_schema@1", *steps(FILES)[:2]).injected[0]
    assert renamed.tools is not None and changed.tools is not None
    name = next(iter({tool["function"]["name"] for tool in renamed.tools} - {"list_folders", "submit"}))
    tool = next(tool["function"] for tool in changed.tools if tool["function"]["name"] == READ)
    return name, tool["parameters"]["required"][0]


CASES = cases()


def test_every_kind_that_fits_a_drill_has_a_case() -> None:
    """Check all kinds but one: a drill's tools do not run commands, so they have no working directory."""
    assert set(CASES) == set(FAULTS.paths()) - {"wrong_directory"}


def test_a_tool_that_takes_a_path_never_runs_in_the_wrong_directory() -> None:
    episode = episode_of(FILES, "wrong_directory@0", *steps(FILES))
    assert episode.injected == [] and value(episode) == 1.0


@pytest.mark.parametrize("kind", CASES)
def test_an_agent_that_recovers_is_annotated_exactly_and_scores_one(kind: str) -> None:
    case = CASES[kind]
    turn = len(case.before)
    episode = episode_of(case.task_id, f"{kind}@{turn}", *case.before, case.struck, *case.recovery)
    assert [(fault.kind, fault.turn, fault.call, fault.tool) for fault in episode.injected] == [
        (kind, turn, turn, case.struck["tool"])
    ]
    assert rows(episode) == [(turn, 0, case.kind, "recovery", True, True, 1), *case.more]
    assert episode.error_turns[0].call_id == episode.injected[0].call_id
    assert episode.error_turns[0].evidence.startswith(case.status)
    assert value(episode) == 1.0


@pytest.mark.parametrize("kind", CASES)
def test_an_agent_that_does_not_recover_is_annotated_exactly_and_scores_zero(kind: str) -> None:
    case = CASES[kind]
    turn = len(case.before)
    episode = episode_of(case.task_id, f"{kind}@{turn}", *case.before, case.struck, {"text": "Hm."}, {"text": "Hm."})
    assert rows(episode) == [
        (turn, 0, case.kind, "recovery", True, False, None),
        (turn + 1, None, "style", "erring", False, False, None),
        (turn + 2, None, "style", "erring", False, None, None),
    ]
    assert value(episode) == 0.0


@pytest.mark.parametrize("kind", CASES)
def test_a_submission_right_after_a_fault_is_not_a_recovery(kind: str) -> None:
    case = CASES[kind]
    turn = len(case.before)
    episode = episode_of(case.task_id, f"{kind}@{turn}", *case.before, case.struck, GIVE_UP)
    assert rows(episode) == [(turn, 0, case.kind, "recovery", True, False, None)]
    assert value(episode) == 0.0


@pytest.mark.parametrize("kind", CASES)
def test_results_of_faults_do_not_reveal_the_injection(kind: str) -> None:
    case = CASES[kind]

    async def script(session: DrillSession) -> Observation:
        await session.reset(task_id=case.task_id, faults=f"{kind}@{len(case.before)}")
        for action in case.before:
            await session.step(action)
        return await session.step(case.struck)

    observed = play(script).model_dump_json()
    for word in ("inject", "fault", "withheld", "on purpose", *({kind} - {"timeout", "permission"})):
        assert word not in observed.lower(), observed
    assert not re.search(r"(timeout|after|within) \d", observed), "a duration is named that did not pass"


@pytest.mark.parametrize("kind", ["renamed", "changed_schema", "withdrawn"])
def test_a_changed_tool_is_the_agents_error_in_a_later_turn(kind: str) -> None:
    first, second, *_ = steps(FILES)
    episode = episode_of(FILES, f"{kind}@1", first, second, second)
    assert [fault.turn for fault in episode.injected] == [1]
    calls = [(error.turn, error.injected, error.site) for error in episode.error_turns if error.call_index is not None]
    assert calls == [(1, True, "recovery"), (2, False, "erring")]


def test_a_changed_tool_is_injected_for_every_call_of_its_first_turn() -> None:
    first, second, *_ = steps(FILES)
    both = {"tool_calls": [{"id": item, "name": READ, "arguments": second["arguments"]} for item in ("a", "b")]}
    episode = episode_of(FILES, "renamed@1", first, both)
    assert [(fault.turn, fault.call_index, fault.call_id) for fault in episode.injected] == [(1, 0, "a"), (1, 1, "b")]


def test_calls_with_the_same_id_are_annotated_separately() -> None:
    first, second, third, submit = (
        {"tool_calls": [{"id": "same", "name": item["tool"], "arguments": item["arguments"]}]} for item in steps(FILES)
    )
    episode = episode_of(FILES, "garbled@1", first, second, second, third, submit)
    assert [error.turn for error in episode.error_turns if error.injected] == [1]
    assert value(episode) == 1.0


def test_an_id_that_looks_like_the_place_of_a_fault_excuses_nothing() -> None:
    first, second, *_ = steps(FILES)
    wrong = {"tool_calls": [{"id": "1:0", "name": "nothing", "arguments": {}}]}
    episode = episode_of(FILES, "transient@1", first, second, wrong)
    assert [(error.turn, error.injected) for error in episode.error_turns] == [(1, True), (2, False)]


@pytest.mark.parametrize("kind", ["renamed", "changed_schema", "withdrawn"])
def test_the_state_lists_the_tools_as_they_are_now(kind: str) -> None:
    first, second, *_ = steps(FILES)

    async def script(session: DrillSession) -> None:
        before = (await session.reset(task_id=FILES, faults=f"{kind}@1")).tools
        await session.step(first)
        assert session.state().tools is None
        await session.step(second)
        now = session.state().tools
        assert now is not None and now != before
        assert session.episode().tools == before
        names = {tool["function"]["name"] for tool in now}
        assert (READ in names) == (kind == "changed_schema")
        for _ in range(3):
            await session.step(call("list_folders"))
        after = [tool["function"]["name"] for tool in session.state().tools or []]
        assert (READ in after) == (kind != "renamed")

    play(script)


def test_errors_of_a_renamed_tool_use_the_new_names() -> None:
    name, _ = changed_names()
    first, second, *_ = steps(FILES)
    episode = episode_of(FILES, "renamed@1", first, second, call(name, pth="x"), call(name, path=3))
    for turn in episode.turns[2:]:
        assert turn.messages[0].name == name
        assert turn.messages[0].content.startswith(f"error invalid_args: {name}")


def test_a_host_annotates_a_stored_episode_alike() -> None:
    for kind, case in CASES.items():
        episode = episode_of(case.task_id, f"{kind}@{len(case.before)}", *case.before, case.struck, *case.recovery)
        stored = Episode.model_validate_json(episode.model_dump_json())
        assert annotated(stored) == episode.error_turns, kind


def test_hints_for_a_fault_are_in_the_state_and_not_in_the_observation() -> None:
    first, second, *_ = steps(FILES)

    async def script(session: DrillSession) -> None:
        await session.reset(task_id=FILES, faults="renamed@1")
        await session.step(first)
        observed = await session.step(second)
        hint_texts = [hint.text for error in session.state().error_turns for hint in error.hints]
        assert hint_texts and not any(text in observed.model_dump_json() for text in hint_texts)
        await session.reset(task_id=FILES, faults="renamed@0", annotate="observation")
        shown = await session.step(first)
        assert [(error.kind, error.injected) for error in shown.annotations or []] == [("tool_not_found", True)]

    play(script)


def test_stated_and_injected_faults_of_a_drill_are_both_recorded() -> None:
    task_id = "drill-recover-7-l1"
    actions = steps(task_id)
    episode = episode_of(task_id, "transient@0", actions[0], *actions)
    assert [(fault.turn, fault.kind) for fault in episode.injected][0] == (0, "transient")
    assert len(episode.injected) == 2 and value(episode) == 1.0


def test_a_hint_names_only_the_tools_of_its_turn() -> None:
    """Err in the first turn, and rename the tool in the second."""

    async def script(session: DrillSession) -> Episode:
        first = await session.reset(task_id=FILES, faults="renamed@0")
        before = {tool["function"]["name"] for tool in first.tools or []}
        await session.step({"text": "let me think"})
        for action in steps(FILES)[:1] * 2:
            await session.step(action)
        episode = session.episode()
        after = {tool["function"]["name"] for fault in episode.injected for tool in fault.tools or []}
        assert after - before
        early, *later = episode.error_turns
        assert early.kind == "style" and not [name for name in after - before if name in early.hints[0].text]
        assert any(name in hint.text for error in later for hint in error.hints for name in after - before)
        return episode

    play(script)
