"""The v0 environment: each rollout is one session over ``etude.client``, each model response one turn of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etude.client import Client, SyncClient
from etude.errors import ServerError

try:
    from datasets import Dataset
    from verifiers import Error, MultiTurnEnv, Rubric, cleanup
    from verifiers.types import Tool, ToolMessage, UserMessage
except ImportError as error:
    raise ImportError(
        "this verifiers has no v0 environments: use the taskset etude-verifiers, or verifiers<0.4"
    ) from error


def load(url: str, split: str | None = None, **options: Any) -> EtudeEnv:
    """The server's tasks as an environment: those of ``split``, to train on and to be evaluated on; without one it
    trains on ``train`` and is evaluated on ``eval``, or on ``train`` where there is none. Raises ServerError, also when
    there are no tasks."""
    client = SyncClient(url)
    try:
        learned = client.rows(split or "train")
        held_out = learned if split else client.rows("eval") or learned
    finally:
        client.close()
    if not learned:
        raise ServerError(f"{url} serves no tasks of the split {split or 'train'!r}: `etude serve --tasks DIR`")
    tools = {
        row["task_id"]: [_tool(tool) for tool in row["responses_create_params"]["tools"]]
        for row in (*learned, *held_out)
    }
    rubric = Rubric(funcs=[solved], weights=[1.0])
    rubric.add_metric(n_error_turns)
    return EtudeEnv(url, tools, dataset=_dataset(learned), eval_dataset=_dataset(held_out), rubric=rubric, **options)


def _dataset(rows: Sequence[Mapping[str, Any]]) -> Any:
    return Dataset.from_list(
        [
            {"prompt": row["responses_create_params"]["input"], "answer": "", "info": {"task_id": row["task_id"]}}
            for row in rows
        ]
    )


def _tool(tool: Mapping[str, Any]) -> Any:
    return Tool(**{key: tool[key] for key in ("name", "description", "parameters")})


async def solved(state: Any) -> float:
    """The server's grade. A rollout without one has ``state["error"]`` and is no sample."""
    return float(state["etude_reward"]["value"]) if state.get("etude_reward") else 0.0


async def n_error_turns(state: Any) -> float:
    return float(len(state.get("error_turns") or []))


class EtudeEnv(MultiTurnEnv):  # type: ignore[misc, unused-ignore]
    """``tools`` are each task's own, by its id: those of drills differ."""

    def __init__(self, url: str, tools: Mapping[str, list[Any]], **options: Any) -> None:
        super().__init__(**options)
        self.url = url
        self._tools = tools
        self._clients: dict[str, Client] = {}

    async def setup_state(self, state: Any) -> Any:
        client = self._clients[state["trajectory_id"]] = Client(self.url)
        try:
            await client.connect()
            await client.reset(task_id=state["info"]["task_id"])
        except ServerError as error:
            raise Error(str(error)) from error
        state["tool_defs"] = self._tools[state["info"]["task_id"]]
        return state

    async def env_response(self, messages: Any, state: Any, **options: Any) -> Any:
        """Plays the last message whole: what the model made is never an error of the protocol."""
        try:
            seen = await self._clients[state["trajectory_id"]].step(_action(messages[-1]))
        except ServerError as error:
            raise Error(str(error)) from error
        answers = [_answer(message) for message in seen.messages]
        if seen.done:
            state["final_env_response"] = answers
        return answers

    @cleanup
    async def grade(self, state: Any) -> None:
        """End the episode, which is graded as it is, and keep what the server says about it.

        A rollout that verifiers cut short (``max_turns``) ends like an agent that calls nothing any more.
        """
        client = self._clients.pop(state["trajectory_id"], None)
        if client is None:
            return
        try:
            if state.get("error") is None:
                await self._finish(client, state)
        except ServerError as error:
            state["error"] = Error(str(error))
        finally:
            await client.close()

    async def _finish(self, client: Client, state: Any) -> None:
        turns = len(state["trajectory"])
        told = await client.state()
        if told.end is None and told.step_count < turns:  # cut short: the last message has not been played
            await client.step(_action(state["trajectory"][-1]["completion"][-1]))
            told = await client.state()
        for _ in range(2):
            if told.end is None:
                await client.step({"text": ""})
                told = await client.state()
        if told.reward is None or not told.reward.valid:
            raise ServerError("the episode has no valid grade")
        errors = [error.model_dump(mode="json") for error in told.error_turns if error.turn < turns]
        state["etude_reward"] = told.reward.model_dump(mode="json")
        state["error_turns"] = errors
        state["hints"] = "\n".join(dict.fromkeys(hint["text"] for error in errors for hint in error["hints"]))
        state["findings"] = [finding.model_dump(mode="json") for finding in told.findings]
        about = {name: state[name] for name in ("error_turns", "hints", "findings", "etude_reward")}
        state["info"] = {**state["info"], **about}
        for number, step in enumerate(state["trajectory"]):
            step["extras"]["error_turns"] = [error for error in errors if error["turn"] == number]


def _action(message: Any) -> dict[str, Any]:
    """verifiers' assistant message, pydantic or dict, as an action."""
    given = message if isinstance(message, dict) else message.model_dump()
    calls: Sequence[Any] = given.get("tool_calls") or []
    return {"text": given.get("content"), "tool_calls": [_call(call) for call in calls]}


def _call(call: Any) -> dict[str, Any]:
    given = call if isinstance(call, dict) else call.model_dump()
    inner = given.get("function") or given
    return {"id": given.get("id"), "name": inner.get("name"), "arguments": inner.get("arguments")}


def _answer(message: Any) -> Any:
    if message.role == "tool":
        return ToolMessage(tool_call_id=message.tool_call_id, content=message.content)
    return UserMessage(content=message.content)
