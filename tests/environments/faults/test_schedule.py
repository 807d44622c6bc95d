"""When faults strike: by seed, rate and secret, and only calls that they fit."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from helpers.faulty_drills import COPY, FILES, GIVE_UP, READ, call, episode_of, play, steps

from etude.environments.drill.session import DrillSession
from etude.environments.faults import FAULTS
from etude.environments.faults.schedule import read_schedule
from etude.errors import FaultsError, SessionError

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
