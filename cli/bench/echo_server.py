"""Etude's server with sessions that answer at once, for the cost of the wire alone: ``python -m ... PORT SESSIONS``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ...environments.session import Standing
from ...environments.tasks.task_set import TaskSet
from ...models import Episode, GeneratorRef, Observation, State, Task, ToolMessage
from ...server.app import create_app
from ...server.serving import listen, uvicorn_server

TASK = Task(task_id="echo", problem_statement="Echo.", generator=GeneratorRef(name="hand", version="1", seed=0))


class EchoSession:
    """A session that answers a turn with its text."""

    turns = 0

    async def reset(self, **arguments: Any) -> Observation:
        return Observation(prompt=TASK.problem_statement, tools=[], workdir="/workspace")

    async def step(self, action: Mapping[str, Any]) -> Observation:
        self.turns += 1
        return Observation(messages=[ToolMessage(tool_call_id="c1", name="echo", content=str(action.get("text")))])

    def state(self) -> State:
        return State(episode_id="echo", task_id=TASK.task_id, step_count=self.turns)

    def standing(self) -> Standing:
        return Standing(self.episode(), "", self.episode)

    def episode(self) -> Episode:
        return Episode(episode_id="echo", task_id=TASK.task_id, prompt=TASK.problem_statement)

    async def close(self) -> None:
        return None


def main() -> None:
    """Serve until the process is stopped."""
    port, sessions = int(sys.argv[1]), int(sys.argv[2])
    app = create_app(TaskSet([TASK]), make_session=EchoSession, max_sessions=sessions)
    uvicorn_server(app).run(sockets=[listen("127.0.0.1", port)])


if __name__ == "__main__":
    main()
