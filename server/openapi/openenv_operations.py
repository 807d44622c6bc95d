"""The operations of OpenEnv's own routes, by method and path."""

from __future__ import annotations

from typing import Any

from openenv.core.env_server.mcp_types import JsonRpcRequest
from openenv.core.env_server.types import EnvironmentMetadata, SchemaResponse

from ...environments import openenv as wire
from . import bodies, examples
from .answers import BAD_PLACE, BROKEN, INVALID, NO_MCP, NOT_PLAYED, WRONG_NAME
from .operation import TEXT, Answer, Operation

_NAME = {"env_name": "etude"}


def _task_api(name: str, summary: str, body: Any, example: Any, shape: Any, answer: Any) -> Operation:
    answers = {200: Answer("As asked.", shape, answer), 400: BAD_PLACE, 404: WRONG_NAME, 422: INVALID}
    return Operation(name, "OpenEnv", summary, answers, body=body, bodies={"example": example}, parameters=_NAME)


OPENENV: dict[str, Operation] = {
    "GET /health": Operation(
        "check_health",
        "OpenEnv",
        "Answer while the process runs, as OpenEnv does",
        {200: Answer("It runs.", bodies.Health, {"status": "healthy"})},
        probe=True,
    ),
    "POST /reset": Operation(
        "reset",
        "OpenEnv",
        "Start an episode that ends with the answer",
        {200: Answer("The first observation.", bodies.Played, examples.RESET), 409: NOT_PLAYED, 422: INVALID}
        | {503: BROKEN},
        body=bodies.ResetBody,
        bodies={"task": {"task_id": examples.TASK_ID}, "drawn": {"seed": 7}},
        body_required=False,
    ),
    "POST /step": Operation(
        "step",
        "OpenEnv",
        "Play one turn; without a session there is no episode, so play over /ws",
        {200: Answer("The observation.", bodies.Played, examples.STEP), 409: NOT_PLAYED, 422: INVALID, 503: BROKEN},
        body=bodies.StepBody,
        bodies={"call": {"action": {"tool_calls": [examples.CALL]}}, "tools": {"action": {"type": "list_tools"}}},
    ),
    "GET /state": Operation(
        "get_state",
        "OpenEnv",
        "Return the state of a session that has played nothing",
        {200: Answer("The state.", wire.State, examples.NO_STATE)},
    ),
    "GET /metadata": Operation(
        "get_metadata",
        "OpenEnv",
        "Describe the environment",
        {200: Answer("The description.", EnvironmentMetadata, examples.METADATA)},
    ),
    "GET /schema": Operation(
        "get_schemas",
        "OpenEnv",
        "Return the JSON schemas of actions, observations and states",
        {200: Answer("The schemas.", SchemaResponse, examples.SCHEMAS)},
    ),
    "POST /mcp": Operation(
        "call_mcp",
        "OpenEnv",
        "Answer a JSON-RPC request of MCP: initialize, tools/list, tools/call",
        {
            200: Answer("The result, or an error, in the body.", bodies.JsonRpcAnswer, examples.RPC_ANSWER),
            202: Answer("A notification was taken.", None, None, (TEXT,)),
            404: NO_MCP,
        },
        "`initialize` starts an episode with the arguments in the query (`?task_id=ID`) and names its session in "
        "`Mcp-Session-Id`, which later requests send.",
        body=JsonRpcRequest,
        bodies={"tools": examples.RPC},
    ),
    "DELETE /mcp": Operation(
        "close_mcp",
        "OpenEnv",
        "End the session of an MCP client, which `Mcp-Session-Id` names",
        {200: Answer("It has ended.", {"type": "object"}, {"closed": True}), 404: NO_MCP},
    ),
    "GET /list_environments": Operation(
        "list_environments",
        "OpenEnv",
        "Name the environment of the other routes",
        {200: Answer("Its name.", {"type": "array", "items": {"type": "string"}}, ["etude"])},
    ),
    "GET /{env_name}/splits": Operation(
        "list_splits",
        "OpenEnv",
        "List the splits",
        {
            200: Answer(
                "The splits.",
                {"type": "array", "items": {"$ref": "#/components/schemas/Split"}},
                [{"name": "train", "type": "train"}],
            ),
            404: WRONG_NAME,
            422: INVALID,
        },
        parameters=_NAME,
    ),
    "POST /{env_name}/tasks": _task_api(
        "list_tasks_of_split",
        "List the tasks of a split",
        bodies.SplitBody,
        {"split": "train"},
        bodies.TaskList,
        {"tasks": [examples.TASK], "env_name": "etude"},
    ),
    "POST /{env_name}/num_tasks": _task_api(
        "count_tasks",
        "Count the tasks of a split",
        bodies.SplitBody,
        {"split": "train"},
        bodies.TaskCount,
        {"num_tasks": 1000},
    ),
    "POST /{env_name}/task": _task_api(
        "get_task_at",
        "Return the task at a place",
        bodies.PlaceBody,
        {"split": "train", "index": 0},
        bodies.OneTask,
        {"task": examples.TASK},
    ),
    "POST /{env_name}/task_range": _task_api(
        "list_task_range",
        "List a range of the tasks of a split",
        bodies.RangeBody,
        {"split": "train", "start": 0, "stop": 1},
        bodies.TaskRange,
        {"tasks": [examples.TASK]},
    ),
}
