"""Injected faults: for every kind an agent that recovers and one that does not, annotated exactly."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from etude.environments.annotations import annotated
from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import DrillTasks
from etude.environments.faults import FAULTS
from etude.environments.faults.schedule import read_schedule
from etude.environments.forks import EpisodeStore
from etude.errors import FaultsError, SessionError
from etude.models import Episode, Observation

TASKS = DrillTasks()
GIVE_UP = {"tool": "submit", "arguments": {"answer": "?"}}
Action = dict[str, Any]
Row = tuple[int, int | None, str, str, bool, bool | None, int | None]


def call(name: str, **arguments: Any) -> Action:
    return {"tool": name, "arguments": arguments}


def steps(task_id: str) -> list[Action]:
    """Return the calls that solve a drill, and the submission."""
    drill = TASKS.drill(task_id)
    solving = [call(name, **arguments) for name, arguments in drill.solution()]
    return [*solving, call("submit", answer=drill.answer)]


def find(family: str, level: int, fits: Callable[[str], bool]) -> str:
    return next(item for seed in range(200) if fits(item := f"drill-{family}-{seed}-l{level}"))


FILES = find("chain", 2, lambda item: TASKS.drill(item).workdir == "/cabinet" and not TASKS.drill(item).effects)
COPY = find("chain", 2, lambda item: bool(TASKS.drill(item).effects))
LOADS = find("stop", 4, lambda item: len(TASKS.drill(item).solution()) == 4)
READ = TASKS.drill(FILES).solution()[0][0]


def play(script: Callable[[DrillSession], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        session = DrillSession(TASKS, **options)
        try:
            return await script(session)
        finally:
            await session.close()

    return asyncio.run(run())


def episode_of(task_id: str, faults: str, *actions: Action) -> Episode:
    async def script(session: DrillSession) -> Episode:
        await session.reset(task_id=task_id, faults=faults)
        for action in actions:
            await session.step(action)
        return session.episode()

    episode: Episode = play(script)
    return episode


def value(episode: Episode) -> float:
    assert episode.reward is not None and episode.reward.valid
    return episode.reward.value


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


# --- When -------------------------------------------------------------------------------------------------------

SCHEDULED = """
import asyncio
from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import DrillTasks
async def main():
    tasks = DrillTasks()
    for index in range(40):
        session = DrillSession(tasks, faults="rate=0.5,seed=3")
        task_id = tasks.get_task("train", index).task_id
        await session.reset(task_id=task_id)
        for name, arguments in tasks.drill(task_id).solution():
            await session.step({"tool": name, "arguments": arguments})
        episode = session.episode()
        print([fault.model_dump() for fault in episode.injected], [turn.messages for turn in episode.turns])
asyncio.run(main())
"""


def test_the_same_seed_gives_the_same_faults_in_another_process() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", SCHEDULED], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    text = printed.pop()
    assert sum(f"'kind': '{kind}'" in text for kind in FAULTS.paths()) > 6


def test_another_seed_and_another_task_give_other_faults() -> None:
    schedule, other = read_schedule("rate=0.5,seed=3"), read_schedule("rate=0.5,seed=4")
    drawn = [[item.due(task, number) for number in range(50)] for item in (schedule, other) for task in ("a", "b")]
    assert len({str(item) for item in drawn}) == 4


def test_a_secret_hides_when_faults_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one the schedule stays what it was, or stored episodes would play differently."""
    drawn = []
    for secret in ("", "one", "other", "one"):
        monkeypatch.setenv("ETUDE_DRILL_SECRET", secret)
        schedule = read_schedule("rate=0.5,seed=3")
        assert "one" not in repr(schedule)
        drawn.append([schedule.due("a", number)[1] for number in range(50)])
    monkeypatch.delenv("ETUDE_DRILL_SECRET")
    assert drawn[0] == [read_schedule("rate=0.5,seed=3").due("a", number)[1] for number in range(50)]
    assert drawn[1] == drawn[3] and len({str(item) for item in drawn}) == 3
    assert read_schedule("seed=3").chance("a", 0) == 6004757793781576241


def test_about_the_rate_of_the_calls_is_struck_and_at_most_so_many() -> None:
    due = [read_schedule("rate=0.25").due("a", number)[1] for number in range(4000)]
    assert 0.22 < sum(map(bool, due)) / len(due) < 0.28
    assert set(filter(None, due)) == set(FAULTS.paths())
    first = steps(FILES)[0]
    assert len(episode_of(FILES, "rate=1,most=2,transient", *[first] * 6).injected) == 2


def test_a_fault_waits_for_a_call_that_it_fits() -> None:
    read, write, _ = steps(COPY)
    episode = episode_of(COPY, "partial_write@0", read, read, write)
    assert [(fault.turn, fault.kind) for fault in episode.injected] == [(2, "partial_write")]


def test_a_call_that_is_wrong_anyway_is_left_alone() -> None:
    episode = episode_of(FILES, "transient@0", call(READ, pth="x"), call("nothing"), steps(FILES)[0])
    assert [fault.turn for fault in episode.injected] == [2]


def test_submit_is_never_struck() -> None:
    assert episode_of(FILES, "transient@0,renamed@0,timeout@0", GIVE_UP).injected == []


def test_without_faults_nothing_changes() -> None:
    async def plain(session: DrillSession) -> list[Any]:
        first = await session.reset(task_id=FILES)
        observed = [first.model_dump(), *[(await session.step(action)).model_dump() for action in steps(FILES)]]
        return [*observed, session.state().model_dump(exclude={"episode_id", "token"})]

    assert play(plain) == play(plain, faults="rate=0")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("timeot", "Did you mean 'timeout'"),
        ("timeot@3", "Did you mean 'timeout'"),
        ("rat=0.5", "Did you mean 'rate'"),
        ("rate=2", "rate must be 0 to 1"),
        ("seed=x", "seed must be a number"),
    ],
)
def test_a_specification_that_cannot_be_read_says_why(spec: str, reason: str) -> None:
    with pytest.raises(FaultsError, match=reason):
        read_schedule(spec)
    with pytest.raises(SessionError, match=reason):
        episode_of(FILES, spec)


# --- Forks and replays ----------------------------------------------------------------------------------------


def test_an_episode_that_takes_over_an_id_has_nothing_of_the_earlier_ones_faults() -> None:
    async def script(session: DrillSession) -> Observation:
        await session.reset(task_id=FILES, episode_id="same", faults="timeout@0")
        await session.step(steps(FILES)[0])
        await session.reset(task_id=COPY, episode_id="same", faults="")
        await session.step({"text": "nothing yet"})
        token = session.state().token
        return await session.reset(fork_of="same", token=token)

    first: Observation = play(script, store=EpisodeStore(1 << 20))
    assert [message.role for message in first.messages] == ["user"]


def test_a_fork_has_the_faults_of_its_episode() -> None:
    first, second, third, submit = steps(FILES)
    store = EpisodeStore()

    async def script(session: DrillSession) -> None:
        await session.reset(task_id=FILES, faults="renamed@1")
        for action in (first, second, GIVE_UP):
            await session.step(action)
        source = session.state()
        other = DrillSession(TASKS, store=store)
        observed = await other.reset(fork_of=source.episode_id, turn=2, token=source.token)
        assert [message.content for message in observed.messages] == [
            message.content for turn in session.episode().turns[:2] for message in turn.messages
        ]
        name = next(iter({tool["function"]["name"] for tool in other.state().tools or []} - {"list_folders", "submit"}))
        for action in (call(name, **second["arguments"]), call(name, **third["arguments"]), submit):
            last = await other.step(action)
        assert last.reward == 1.0
        assert [(error.turn, error.recovered) for error in other.state().error_turns if error.injected] == [(1, True)]
        with pytest.raises(SessionError, match="not both"):
            await other.reset(fork_of=source.episode_id, token=source.token, faults="timeout@1")

    play(script, store=store)


def test_a_replay_meets_the_same_faults() -> None:
    first, second, third, submit = steps(FILES)
    actions = [first, second, second, third, submit]
    played = episode_of(FILES, "garbled@1", *actions)

    async def script(session: DrillSession) -> Episode:
        observed = await session.reset(task_id=FILES, faults="garbled@1", replay=actions)
        assert observed.done and observed.reward == 1.0
        return session.episode()

    again = play(script)
    assert again.error_turns == played.error_turns
    assert [turn.messages for turn in again.turns] == [turn.messages for turn in played.turns]


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
