"""inspect_ai: a task whose solver plays episodes, and a scorer that passes on the server's grade."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageTool, ChatMessageUser, get_model
from inspect_ai.scorer import Score, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState, solver
from inspect_ai.tool import ToolInfo

from ....client import SyncClient
from ....errors import ServerError
from ..episodes import Episode
from ..sessions import Sessions
from .turns import annotations_of, inspect_action, on_sessions

ROLES = {"tool": ChatMessageTool, "user": ChatMessageUser}


@task
def etude(url: str = "http://127.0.0.1:8000", split: str = "train", first: int = 100) -> Task:
    """Return the first tasks of a split. The metadata of a played sample has the annotations; no model reads them."""
    with SyncClient(url) as client:
        inputs = {row["task_id"]: row["responses_create_params"]["input"][0] for row in client.rows(split)[:first]}
    samples = [Sample(prompt["content"], id=name) for name, prompt in inputs.items()]
    return Task(samples, solver=play(Sessions(url)), scorer=grade())


@solver
def play(sessions: Sessions) -> Any:
    async def solve(state: TaskState, generate: Any) -> TaskState:
        episode = Episode(sessions)
        try:
            started = await on_sessions(sessions, episode.begin({"task_id": state.sample_id}, wait=True))
            tools = [ToolInfo.model_validate(tool["function"]) for tool in started.tools or []]
            with suppress(ServerError):  # the episode is void, and its outcome says why
                while not episode.over:
                    state.output = await get_model().generate(state.messages, tools)
                    answer = await on_sessions(sessions, episode.step(inspect_action(state.output.message)))
                    state.messages += [state.output.message, *(ROLES[m.role](**dict(m)) for m in answer.messages)]
            state.metadata["etude"] = annotations_of(await on_sessions(sessions, episode.settle()))
        finally:  # a limit or an error ends the episode ungraded; nothing is awaited: the scope may be cancelled
            sessions.submit(episode.leave())
        return state

    return solve


@scorer(metrics=[mean(), stderr()])
def grade() -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        if (result := state.metadata.get("etude", {})).get("valid"):
            return Score(value=result["reward"], explanation=result["end"], metadata=result)
        return Score.unscored(reason="scoring_failed", explanation=result.get("problem"))  # no metric counts it

    return score
