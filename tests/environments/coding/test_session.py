"""The session: what an episode is, how it ends, and what cannot be done with it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from etude import hints
from etude.environments.annotations import annotated
from etude.environments.coding import session as coding
from etude.environments.coding.session import CodingSession
from etude.environments.running import Budget
from etude.environments.tasks.task_set import TaskSet
from etude.environments.tool_protocol import NOT_RUN
from etude.errors import InfrastructureError, SessionError
from etude.models import Episode, ErrorTurn, Observation, Task

SOLUTION = "    return sum(values)\n"
SOLVE = {
    "tool": "edit_file",
    "arguments": {"path": "src/tally/core.py", "old": "    raise NotImplementedError\n", "new": SOLUTION},
}
SUBMIT = {"tool": "submit"}
TALK = {"text": "I think about it."}


def bash(command: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": "bash", "arguments": {"command": command, **arguments}}


def play(tasks: TaskSet, script: Callable[[CodingSession], Awaitable[Any]], **options: Any) -> Any:
    """Run ``script`` with a session that is closed afterwards."""

    async def run() -> Any:
        session = CodingSession(tasks, **options)
        try:
            return await script(session)
        finally:
            await session.close()

    return asyncio.run(run())


def actions(tasks: TaskSet, *played: dict[str, Any], **options: Any) -> tuple[list[Observation], CodingSession]:
    """Reset, then play the actions; the observations and the session."""

    async def script(session: CodingSession) -> tuple[list[Observation], CodingSession]:
        return [await session.reset(), *[await session.step(action) for action in played]], session

    result: tuple[list[Observation], CodingSession] = play(tasks, script, **options)
    return result


def test_a_reset_shows_the_statement_the_tools_and_nothing_secret(tasks: TaskSet, task: Task) -> None:
    (first,), _ = actions(tasks)
    assert task.problem_statement in (first.prompt or "")
    assert first.workdir == "/workspace"
    assert [tool["function"]["name"] for tool in first.tools or []][-1] == "submit"
    assert (first.done, first.reward, first.messages) == (False, 0.0, [])
    shown = first.model_dump_json()
    for secret in ("test_hidden", "result += value", task.PASS_TO_PASS[0]):
        assert secret not in shown


def test_a_solved_episode_scores_one(tasks: TaskSet) -> None:
    (*_, last), session = actions(tasks, SOLVE, SUBMIT)
    assert (last.done, last.reward) == (True, 1.0)
    episode = session.episode()
    assert (episode.end, len(episode.turns)) == ("submit", 2)
    assert episode.reward is not None and episode.reward.components["fail_to_pass"] == 1.0
    assert [change.path for change in episode.diff] == ["src/tally/core.py"]
    assert episode.grade is not None and episode.grade.diff_sha256


def test_an_episode_without_work_scores_zero(tasks: TaskSet) -> None:
    (*_, last), session = actions(tasks, SUBMIT)
    assert (last.done, last.reward) == (True, 0.0)
    assert session.state().reward is not None and session.state().reward.valid  # type: ignore[union-attr]


def test_the_hidden_tests_are_nowhere_in_the_workspace(tasks: TaskSet) -> None:
    look = "grep -rl test_hidden /workspace /tmp; git log --all --oneline | wc -l; git status --short"
    (_, outcome), _ = actions(tasks, bash(look))
    assert outcome.messages[0].content == "ok\n1\n"


def test_calls_run_in_order_and_stop_at_submit(tasks: TaskSet) -> None:
    turn = {
        "tool_calls": [
            {"id": "a", "name": "bash", "arguments": {"command": "echo one > f"}},
            {"id": "b", "name": "bash", "arguments": "{"},
            {"id": "c", "name": "bash", "arguments": {"command": "cat f"}},
            {"id": "d", "name": "submit", "arguments": {}},
            {"id": "e", "name": "bash", "arguments": {"command": "echo late"}},
        ]
    }
    (_, last), _ = actions(tasks, turn)
    assert [message.tool_call_id for message in last.messages] == ["a", "b", "c", "d", "e"]
    contents = [message.content for message in last.messages]
    assert contents[0] == "ok"
    assert contents[1].startswith("error malformed_call: ")
    assert contents[2:] == ["ok\none\n", "ok\nsubmitted", NOT_RUN]
    assert last.done


def test_a_turn_of_text_is_answered_and_two_in_a_row_end_the_episode(tasks: TaskSet) -> None:
    (_, first, _, third, last), session = actions(tasks, TALK, bash("true"), TALK, TALK)
    assert (first.messages[0].role, first.done, third.done) == ("user", False, False)
    assert last.done
    assert session.episode().end == "no_tool_call"
    assert session.episode().reward is not None


@pytest.mark.parametrize(
    ("budget", "turns"),
    [(Budget(turns=2), 2), (Budget(tokens=30), 1), (Budget(seconds=0.0), 1)],
)
def test_a_budget_ends_the_episode_and_what_is_there_is_graded(tasks: TaskSet, budget: Budget, turns: int) -> None:
    async def script(session: CodingSession) -> Observation:
        await session.reset()
        observation = await session.step(SOLVE)
        while not observation.done:
            observation = await session.step(bash("true"))
        assert session.episode().end == "budget"
        assert session.state().step_count == turns
        return observation

    assert play(tasks, script, budget=budget).reward == 1.0


def test_replay_gives_the_same_observations_and_the_same_reward(tasks: TaskSet) -> None:
    played = [bash("echo x; date +%Y > /dev/null; exit 2"), {"tool": "run_tests"}, {"tool": "nope"}, SOLVE, SUBMIT]
    observations, session = actions(tasks, *played)
    stored = session.episode()

    async def again(other: CodingSession) -> tuple[Observation, Any]:
        return await other.reset(replay=[turn.action for turn in stored.turns]), other.episode()

    replayed, episode = play(tasks, again)
    assert replayed.messages == [message for observation in observations for message in observation.messages]
    assert (replayed.done, replayed.reward) == (True, 1.0)
    assert episode.error_turns == stored.error_turns
    assert episode.reward == stored.reward
    assert episode.grade == stored.grade


def test_a_replayed_prefix_can_be_continued(tasks: TaskSet) -> None:
    async def script(session: CodingSession) -> Observation:
        first = await session.reset(replay=[SOLVE])
        assert (first.done, len(first.messages)) == (False, 1)
        return await session.step(SUBMIT)

    assert play(tasks, script).reward == 1.0


def test_error_turns_are_the_same_as_from_the_transcript(tasks: TaskSet) -> None:
    _, session = actions(tasks, {"tool": "grep"}, bash("exit 4"), bash("true"), bash("sleep 9", timeout_s=0.2))
    episode = session.episode()
    assert [error.kind for error in episode.error_turns] == ["tool_not_found", "nonzero_exit", "timeout"]
    messages = json.loads(json.dumps(hints.transcript(episode)))
    for transcript in (hints.transcript(episode), messages):
        assert hints.annotate(transcript, episode.tools, episode.files) == episode.error_turns
    assert session.state().error_turns == episode.error_turns


def test_a_turn_is_annotated_only_when_the_state_is_read(tasks: TaskSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Annotating a long transcript takes longer than most turns, and each turn would repeat it."""
    lengths: list[int] = []

    def counted(episode: Episode) -> list[ErrorTurn]:
        lengths.append(len(episode.turns))
        return annotated(episode)

    monkeypatch.setattr("etude.environments.annotations.annotated", counted)

    async def script(session: CodingSession) -> list[str]:
        await session.reset()
        for _ in range(3):
            await session.step(bash("exit 4"))
        assert lengths == []
        kinds = [error.kind for error in session.state().error_turns]
        assert session.episode().error_turns == session.state().error_turns and lengths == [3]
        await session.step(SUBMIT)
        session.state()
        assert lengths == [3, 4]
        return list(kinds)

    assert play(tasks, script)[0] == "nonzero_exit"


def test_annotations_are_in_the_observation_only_when_requested(tasks: TaskSet) -> None:
    (_, quiet), _ = actions(tasks, bash("exit 4"))
    assert quiet.annotations is None
    (_, failed, fine), _ = actions(tasks, bash("exit 4"), bash("true"), annotate="observation")
    assert [error.kind for error in failed.annotations or []] == ["nonzero_exit"]
    assert fine.annotations == []


def test_fewer_tools_can_be_given(tasks: TaskSet) -> None:
    async def script(session: CodingSession) -> Observation:
        first = await session.reset(tools=["submit", "bash"])
        assert [tool["function"]["name"] for tool in first.tools or []] == ["bash", "submit"]
        return await session.step({"tool": "read_file", "arguments": {"path": "x"}})

    assert play(tasks, script).messages[0].content.startswith("error tool_not_found: ")


def test_seed_and_episode_id_are_honoured(tasks: TaskSet) -> None:
    async def script(session: CodingSession) -> Any:
        await session.reset(seed=7, episode_id="mine")
        return session.episode()

    episode = play(tasks, script)
    assert (episode.seed, episode.episode_id) == (7, "mine")


def test_a_seed_chooses_the_same_task_every_time(task: Task) -> None:
    many = TaskSet([task.model_copy(update={"task_id": f"t{n}", "instance_id": f"t{n}"}) for n in range(20)])

    async def script(session: CodingSession) -> list[str | None]:
        chosen = []
        for seed in (1, 2, 3, 1, 2, 3):
            await session.reset(seed=seed)
            chosen.append(session.state().task_id)
        return chosen

    chosen = play(many, script)
    assert chosen[:3] == chosen[3:]
    assert len(set(chosen)) > 1


def test_a_reset_drops_what_the_last_episode_did(tasks: TaskSet) -> None:
    async def script(session: CodingSession) -> str:
        await session.reset()
        await session.step(bash("echo x > left; echo y > /tmp/left; rm README.md src -rf"))
        await session.reset()
        return (await session.step(bash("ls left /tmp/left; git status --short"))).messages[0].content

    answer = play(tasks, script)
    assert "left" in answer and "No such file" in answer
    assert " D " not in answer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task_id": "tally-totla"}, "Did you mean 'tally-total'"),
        ({"split": "trian", "index": 0}, "Did you mean 'train'"),
        ({"split": "train", "index": 5}, "out of range"),
        ({"task_id": "tally-total", "index": 0}, "not both"),
        ({"annotate": "everywhere"}, "annotate must be"),
        ({"tools": ["bahs"]}, "Did you mean 'bash'"),
        ({"replay": [1]}, "replay must be a list of actions"),
        ({"replay": [SUBMIT, SUBMIT]}, "after the end"),
        ({"fork_of": "x", "turn": 1}, "no episode 'x' is kept"),
        ({"episode_id": "a\nb"}, "episode_id"),
    ],
)
def test_a_reset_that_makes_no_sense_says_so(tasks: TaskSet, arguments: dict[str, Any], message: str) -> None:
    async def script(session: CodingSession) -> None:
        with pytest.raises(SessionError, match=message):
            await session.reset(**arguments)

    play(tasks, script)


def test_an_empty_task_set_is_an_error_with_the_remedy() -> None:
    async def script(session: CodingSession) -> None:
        with pytest.raises(SessionError, match="etude generate"):
            await session.reset()

    play(TaskSet([]), script)


def test_steps_outside_an_episode_are_errors(tasks: TaskSet) -> None:
    async def script(session: CodingSession) -> None:
        with pytest.raises(SessionError, match="reset first"):
            await session.step(SUBMIT)
        await session.reset()
        await session.step(SUBMIT)
        before = session.episode()
        with pytest.raises(SessionError, match="episode is over"):
            await session.step(SUBMIT)
        assert session.episode() == before
        await session.close()
        await session.close()
        with pytest.raises(SessionError, match="closed"):
            await session.step(SUBMIT)
        with pytest.raises(SessionError, match="closed"):
            await session.reset()

    play(tasks, script)


def test_an_episode_that_is_left_is_closed_and_not_scored(tasks: TaskSet) -> None:
    async def script(session: CodingSession) -> Any:
        await session.reset()
        await session.step(SOLVE)
        await session.close()
        return session.episode()

    episode = play(tasks, script)
    assert episode.end == "closed"
    assert episode.reward.valid is False


def test_close_cuts_off_a_running_turn(tasks: TaskSet) -> None:
    async def script(session: CodingSession) -> None:
        await session.reset()
        turn = asyncio.create_task(session.step(bash("echo begun; sleep 100")))
        await asyncio.wait({turn}, timeout=0.2)
        assert session.state().step_count == 0
        with pytest.raises(SessionError, match="one call at a time"):
            await session.step(SUBMIT)
        await asyncio.wait_for(session.close(), 10)
        with pytest.raises(SessionError, match="closed"):
            await turn

    play(tasks, script)


def test_a_cancelled_turn_voids_the_episode_and_the_next_reset_works(tasks: TaskSet) -> None:
    async def script(session: CodingSession) -> None:
        await session.reset()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.step(bash("sleep 100")), 0.3)
        with pytest.raises(SessionError, match="void"):
            await session.step(SUBMIT)
        reward = session.state().reward
        assert reward is not None and not reward.valid
        await session.reset()
        assert (await session.step(bash("echo alive"))).messages[0].content == "ok\nalive\n"

    play(tasks, script)


def test_a_machine_that_fails_voids_the_episode(tasks: TaskSet, task: Task) -> None:
    broken = TaskSet([task.model_copy(update={"test_patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"})])

    async def script(session: CodingSession) -> None:
        with pytest.raises(InfrastructureError):
            await session.reset()
        with pytest.raises(SessionError):
            await session.step(SUBMIT)

    play(broken, script)


def test_a_workspace_full_of_files_scores_zero_and_says_why(tasks: TaskSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etude.environments.coding.session.MAX_CHANGES", 50)
    (*_, last), session = actions(tasks, bash("for n in $(seq 60); do echo > src/tally/m$n.py; done"), SOLVE, SUBMIT)
    assert (last.done, last.reward) == (True, 0.0)
    grade = session.episode().grade
    assert grade is not None and grade.reward.valid
    assert "more than 50 paths" in grade.end_cause


def test_sessions_at_once_do_not_see_each_other(tasks: TaskSet) -> None:
    async def one(number: int) -> str:
        session = CodingSession(tasks)
        try:
            await session.reset()
            await session.step(bash(f"echo {number} > mine; sleep 0.2"))
            return (await session.step(bash("cat mine; ls /tmp"))).messages[0].content
        finally:
            await session.close()

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(8)))

    assert asyncio.run(all_of_them()) == [f"ok\n{number}\n" for number in range(8)]


def test_a_slow_reset_does_not_delay_other_sessions(tasks: TaskSet, monkeypatch: pytest.MonkeyPatch) -> None:
    created, prepare = threading.Event(), coding._prepare

    async def script(session: CodingSession) -> Observation:
        # One shared thread stands for a machine whose shared threads are all taken.
        loop, started = asyncio.get_running_loop(), asyncio.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))

        def slow(*settings: Any) -> Any:
            loop.call_soon_threadsafe(started.set)
            created.wait(60)
            return prepare(*settings)

        await session.reset()
        await session.step(SOLVE)
        monkeypatch.setattr(coding, "_prepare", slow)
        other = CodingSession(tasks)
        waiting = asyncio.create_task(other.reset())
        await started.wait()
        try:
            return await asyncio.wait_for(session.step(SUBMIT), 60)
        finally:
            created.set()
            await waiting
            await other.close()

    last: Observation = play(tasks, script)
    assert last.reward == 1.0
