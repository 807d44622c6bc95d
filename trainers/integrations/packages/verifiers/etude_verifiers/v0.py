"""The v0 environment: each rollout is one session over ``etude.client``, and each response of the model one turn."""

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
        "this version of verifiers has no v0 environments; use the taskset etude-verifiers, or verifiers<0.4"
    ) from error


def load(url: str, split: str | None = None, **options: Any) -> EtudeEnv:
    """Return an environment over the server's tasks of ``split``, for training and evaluation.

    Without a split it trains on ``train`` and is evaluated on ``eval``, or on ``train`` when ``eval`` is empty. Raises
    ServerError, also when there are no tasks.
    """
    with SyncClient(url) as client:
        train = client.rows(split or "train")
        held_out = train if split else client.rows("eval") or train
    if not train:
        raise ServerError(
            f"{url} serves no tasks of the split {split or 'train'!r}; serve some with `etude serve --tasks DIR`"
        )
    rows = [*train, *held_out]
    tools = {row["task_id"]: [_tool(tool) for tool in row["responses_create_params"]["tools"]] for row in rows}
    rubric = Rubric(funcs=[solved], weights=[1.0])
    rubric.add_metric(n_error_turns)
    return EtudeEnv(url, tools, dataset=_dataset(train), eval_dataset=_dataset(held_out), rubric=rubric, **options)


def _dataset(rows: Sequence[Mapping[str, Any]]) -> Any:
    prompts = [row["responses_create_params"]["input"] for row in rows]
    infos = [{"task_id": row["task_id"]} for row in rows]
    return Dataset.from_dict({"prompt": prompts, "answer": [""] * len(rows), "info": infos})


def _tool(tool: Mapping[str, Any]) -> Any:
    return Tool(**{key: tool[key] for key in ("name", "description", "parameters")})


async def solved(state: Any) -> float:
    """Return the server's grade; a rollout without one has ``state["error"]`` and is not used."""
    return float(state["etude_reward"]["value"]) if state.get("etude_reward") else 0.0


async def n_error_turns(state: Any) -> float:
    """Return the number of error turns."""
    return float(len(state.get("error_turns") or []))


class EtudeEnv(MultiTurnEnv):  # type: ignore[misc, unused-ignore]
    """Environment over the sessions of one server; ``tools`` maps task ids to tools, which differ among drills."""

    def __init__(self, url: str, tools: Mapping[str, list[Any]], **options: Any) -> None:
        super().__init__(**options)
        self.url = url
        self._tools = tools
        self._clients: dict[str, Client] = {}

    async def setup_state(self, state: Any) -> Any:
        """Start the rollout's session."""
        client = self._clients[state["trajectory_id"]] = Client(self.url)
        try:
            await client.connect()
            await client.reset(task_id=state["info"]["task_id"])
        except ServerError as error:
            raise Error(str(error)) from error
        state["tool_defs"] = self._tools[state["info"]["task_id"]]
        return state

    async def env_response(self, messages: Any, state: Any, **options: Any) -> Any:
        """Play the whole last message as one turn; nothing that a model writes is a protocol error."""
        try:
            observation = await self._clients[state["trajectory_id"]].step(_action(messages[-1]))
        except ServerError as error:
            raise Error(str(error)) from error
        answers = [_answer(message) for message in observation.messages]
        if observation.done:
            state["final_env_response"] = answers
        return answers

    @cleanup
    async def grade(self, state: Any) -> None:
        """End the episode, which is graded as it is, and store the server's annotations.

        A rollout that verifiers cut short (``max_turns``) ends like that of an agent without further calls.
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
        server_state = await client.state()
        if server_state.end is None and server_state.step_count < turns:  # cut short before the last message was played
            await client.step(_action(state["trajectory"][-1]["completion"][-1]))
            server_state = await client.state()
        for _ in range(2):
            if server_state.end is None:
                await client.step({"text": ""})
                server_state = await client.state()
        if server_state.reward is None or not server_state.reward.valid:
            raise ServerError("the episode has no valid grade; play it again")
        errors = [error.model_dump(mode="json") for error in server_state.error_turns if error.turn < turns]
        state["etude_reward"] = server_state.reward.model_dump(mode="json")
        state["error_turns"] = errors
        state["hints"] = "\n".join(dict.fromkeys(hint["text"] for error in errors for hint in error["hints"]))
        state["findings"] = [finding.model_dump(mode="json") for finding in server_state.findings]
        annotations = {name: state[name] for name in ("error_turns", "hints", "findings", "etude_reward")}
        state["info"] = {**state["info"], **annotations}
        for number, step in enumerate(state["trajectory"]):
            step["extras"]["error_turns"] = [error for error in errors if error["turn"] == number]


def _action(message: Any) -> dict[str, Any]:
    """Return verifiers' assistant message, pydantic or dict, as an action."""
    fields = message if isinstance(message, dict) else message.model_dump()
    calls: Sequence[Any] = fields.get("tool_calls") or []
    return {"text": fields.get("content"), "tool_calls": [_call(call) for call in calls]}


def _call(call: Any) -> dict[str, Any]:
    fields = call if isinstance(call, dict) else call.model_dump()
    inner = fields.get("function") or fields
    return {"id": fields.get("id"), "name": inner.get("name"), "arguments": inner.get("arguments")}


def _answer(message: Any) -> Any:
    if message.role == "tool":
        return ToolMessage(tool_call_id=message.tool_call_id, content=message.content)
    return UserMessage(content=message.content)
