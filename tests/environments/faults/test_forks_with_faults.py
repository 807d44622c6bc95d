"""Forks and replays of episodes with faults."""

from __future__ import annotations

import pytest
from helpers.faulty_drills import COPY, FILES, GIVE_UP, TASKS, call, episode_of, play, steps

from etude.environments.drill.session import DrillSession
from etude.environments.forks import EpisodeStore
from etude.errors import SessionError
from etude.models import Episode, Observation


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
