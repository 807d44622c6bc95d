"""Requests and answers of the HTTP routes, as they are in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from openenv.core.env_server.mcp_types import JsonRpcError
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ...environments.reset_args import ResetArgs
from ...models import EpisodeEnd, ErrorTurn, Finding, PublicTask, SandboxReport, ToolMessage

Tools = list[dict[str, Any]]
"""Schemas of tools, in OpenAI's format for functions."""


class Refusal(BaseModel):
    """An answer that is not the one asked for."""

    detail: str = Field(description="What is wrong, and what to do.")


class InvalidValue(BaseModel):
    """A part of a request that has the wrong type or is out of range."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="Kind of the mistake.")
    loc: list[str | int] = Field(description="Where it is, from `body`, `path` or `query` on.")
    msg: str = Field(description="What is wrong.")


class InvalidRequest(BaseModel):
    """An answer to a request whose parts have wrong types."""

    detail: list[InvalidValue]


class ServerIndex(BaseModel):
    """The endpoints of a server, and how many tasks each split has."""

    name: str
    about: str
    play: dict[str, str]
    read: dict[str, str]
    tasks: dict[str, int]


class Alive(BaseModel):
    """The answer of a process that runs."""

    status: Literal["ok"]


class Health(BaseModel):
    """OpenEnv's answer of a process that runs."""

    status: Literal["healthy", "unhealthy", "degraded"]


class Readiness(BaseModel):
    """Whether a new episode can start."""

    ready: bool
    reason: str = Field(description="Why no episode can start; empty when one can.")
    tasks: int = Field(ge=0)
    sessions: int = Field(ge=0, description="Open sessions.")
    limit: int = Field(ge=1, description="Sessions that may be open.")


class TaskPage(BaseModel):
    """A page of public rows."""

    total: int = Field(ge=0, description="Tasks in the split, or in all splits.")
    tasks: list[PublicTask]


class Row(BaseModel):
    """A row for `/seed_session`, in NeMo Gym's format."""

    responses_create_params: dict[str, Any] = Field(description="What the policy reads, in OpenAI's Responses format.")
    agent_ref: dict[str, str]
    task_id: str
    key: str = Field(description="Secret of the row: a client that sends the whole row can grade its session.")
    repo: str
    licence: str
    features: dict[str, Any]


class RowPage(BaseModel):
    """A page of rows for `/seed_session`."""

    total: int = Field(ge=0, description="Tasks in the split, or in all splits.")
    rows: list[Row]


class Shown(BaseModel):
    """What the agent is shown."""

    prompt: str | None = Field(default=None, description="The statement; after a reset.")
    tools: Tools | None = Field(default=None, description="Schemas of the tools; after a reset.")
    workdir: str | None = Field(default=None, description="Where the repository is; after a reset.")
    messages: list[ToolMessage] = Field(default=[], description="Results of the turn's calls.")
    annotations: list[ErrorTurn] | None = Field(default=None, description="Error turns, if the reset asked for them.")


class Played(BaseModel):
    """The result of a reset or of a turn."""

    observation: Shown
    reward: float | None = Field(default=None, ge=0, le=1, description="0 until the episode has ended.")
    done: bool = Field(default=False, description="Whether the episode has ended.")
    metadata: dict[str, Any] | None = None


class ResetBody(ResetArgs):
    """Arguments of a reset; absent and null are the same. The task is `task_id`, or `index` in `split`, or drawn."""

    model_config = ConfigDict(extra="forbid")

    seed: int | None = Field(default=None, ge=0)
    tools: list[str] | Literal["restricted"] | None = None  # type: ignore[assignment]


class StepBody(BaseModel):
    """One turn. Any object is an action: nothing that a model can emit is refused."""

    model_config = ConfigDict(extra="allow")

    action: dict[str, Any]
    timeout_s: float | None = Field(default=None, gt=0, description="Not used: tools have their own limits.")
    request_id: str | None = Field(default=None, max_length=255, description="Not used: send X-Request-Id.")


class SeedBody(BaseModel):
    """A row, or any object with arguments of a reset that name a task."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"anyOf": [{"required": [name]} for name in ("task_id", "index", "split", "fork_of")]},
    )

    task_id: str | None = None
    split: str | None = None
    index: int | None = None


class Seeded(BaseModel):
    """The first view of a REST session's episode."""

    episode_id: str
    task_id: str
    workdir: str | None
    prompt: str
    tools: Tools


class CallBody(BaseModel):
    """A call whose name is in the body."""

    model_config = ConfigDict(extra="allow")

    name: JsonValue = Field(description="Name of the tool; any value is a turn.")
    arguments: JsonValue = Field(default={}, description="The tool's arguments; any value is a turn.")


class VerifyBody(BaseModel):
    """The row that seeded the session, field by field, with the rollout."""

    model_config = ConfigDict(extra="allow")

    responses_create_params: JsonValue = Field(description="That of the row; hosts may rewrite it.")
    response: JsonValue = Field(description="The rollout, as an object of OpenAI's Responses API.")


class Verified(VerifyBody):
    """The grade, in NeMo Gym's format; each component is also a number at the top level."""

    reward: float = Field(ge=0, le=1)
    reward_components: dict[str, float]
    passed_fractions: dict[str, float]
    error_turns: list[ErrorTurn]
    n_error_turns: int = Field(ge=0)
    hints: str = Field(description="The hints as one text; empty without any.")
    n_findings: int = Field(ge=0)
    assurance: Literal["in_process", "out_of_process"]
    findings: list[Finding]
    end: EpisodeEnd | None
    sandbox: SandboxReport | None
    task_id: str
    episode_id: str


class SplitBody(BaseModel):
    """The split that is meant."""

    model_config = ConfigDict(extra="forbid")

    split: str


class PlaceBody(SplitBody):
    """The place of a task."""

    index: int


class RangeBody(SplitBody):
    """A range of tasks; `stop` is not part of it."""

    start: int | None = None
    stop: int | None = None


class Split(BaseModel):
    """A split of the task set."""

    name: str
    type: Literal["train", "validation", "test"]


class TaskList(BaseModel):
    """Public rows of a split."""

    tasks: list[PublicTask]
    env_name: str


class TaskRange(BaseModel):
    """Public rows of a range."""

    tasks: list[PublicTask]


class TaskCount(BaseModel):
    """The number of tasks in a split."""

    num_tasks: int = Field(ge=0)


class OneTask(BaseModel):
    """A public row."""

    task: PublicTask


class JsonRpcAnswer(BaseModel):
    """A result or an error of JSON-RPC."""

    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"]
    id: str | int | None
    result: JsonValue = None
    error: JsonRpcError | None = None


class ViewIndex(BaseModel):
    """What the viewer's list shows."""

    model_config = ConfigDict(extra="allow")

    cursor: str = Field(description="Give it as `after`: rows are sent when something has changed since.")
    rows: list[dict[str, Any]]
