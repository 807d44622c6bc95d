"""Sessions that break under a rollout, and what that costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from etude.client import ConnectionLost, Infrastructure
from etude.models import Observation, State
from etude.trainers.playing import play
from etude.trainers.rollouts import Written
from etude.trainers.sampling import Batcher


class Broken:
    """A session whose resets fail so many times, on behalf of all sessions; then its episodes are over at once."""

    def __init__(self, failures: list[Exception]) -> None:
        self.failures, self.resets = failures, 0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Broken]:
        yield self

    async def reset(self, **task: Any) -> Observation:
        self.resets += 1
        if self.failures:
            raise self.failures.pop()
        return Observation(done=True, prompt="?")

    async def state(self) -> State:
        return State(task_id="a", episode_id="e")


class Plain:
    def prompt(self, messages: Any, tools: Any) -> Written:
        return Written([1, 2], 1)


def played(sessions: Broken) -> list[str]:
    there: Any = sessions
    chat: Any = Plain()
    return [done.task_id for done in asyncio.run(play([{"task_id": "a"}], chat, Batcher(lambda ids, rooms: []), there))]


@pytest.mark.parametrize("failure", [Infrastructure, ConnectionLost])
def test_a_session_or_a_machine_that_fails_at_the_start_costs_one_new_try(failure: type[Exception]) -> None:
    once, twice = Broken([failure("gone")]), Broken([failure("gone"), failure("gone")])
    assert (played(once), once.resets) == (["a"], 2)
    with pytest.raises(failure, match="gone"):
        played(twice)
    assert twice.resets == 2
