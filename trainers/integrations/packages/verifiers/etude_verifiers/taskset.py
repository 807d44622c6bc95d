"""The v1 taskset: tasks from a running Etude server; each rollout is one of its REST sessions.

verifiers runs tools and the task's hooks in different processes; both find the session's cookie in the rollout's state.
How an MCP server lists tools that depend on the rollout differs between mcp 1 and 2, so the tool server is that of
verifiers' own ``nemo-gym`` taskset, which each version of verifiers ships for its mcp.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import verifiers.v1 as vf
from pydantic import Field
from verifiers.v1.mcp import SharedToolsetConfig
from verifiers.v1.runtimes import Runtime
from verifiers.v1.tasksets.nemo_gym.toolset import NeMoGymState, NeMoGymToolset

from etude.client import SyncClient

from .rollout import place_errors, responses_output, turn_rewards

PATCH_FILE = "/tmp/solution.patch"


class EtudeTaskConfig(vf.TaskConfig):
    """Configuration of a task: the server, its timeout, and the solutions for ``validate``."""

    resources_url: str = "http://127.0.0.1:8000"
    """Address of the server, as seen from the machine of the environment workers."""
    request_timeout: float = Field(1800.0, gt=0)
    """Seconds for one call: longer than the slowest test run or grade."""
    solutions: Path | None = None
    """Folder of a coding task set, secret parts included, for ``validate`` alone; None skips that check."""


class EtudeConfig(vf.TasksetConfig):
    """Configuration of the taskset."""

    split: str | None = None
    """Split whose tasks are played; None plays all."""
    tools: SharedToolsetConfig = SharedToolsetConfig()
    """Configuration of verifiers' tool server."""
    task: EtudeTaskConfig = EtudeTaskConfig()
    """Configuration of each task."""


class EtudeData(vf.TaskData):
    """Data of a task."""

    row: dict[str, Any]
    """Row for ``/seed_session`` and ``/verify``; it has public parts alone."""


class EtudeTask(vf.Task[EtudeData, NeMoGymState, EtudeTaskConfig]):
    """One task, played in a session of the server."""

    @property
    def key(self) -> str:
        """Return the task's id."""
        return str(self.data.row["task_id"])

    _seeded: NeMoGymState | None = None

    async def setup(self, trace: vf.Trace, runtime: Runtime) -> None:
        """Start a session, and list its tools in the rollout's state."""
        state = self._seeded = trace.state
        state.resources_url = self.config.resources_url.rstrip("/")
        state.request_timeout = self.config.request_timeout
        tools = self.data.row["responses_create_params"]["tools"]
        state.direct_tools = {tool["name"]: tool for tool in tools}
        state.tool_names = list(state.direct_tools)
        response = await state.post("seed_session", self.data.row)
        _json(response)
        state.cookies.update(response.cookies)

    @vf.reward(weight=1.0)
    async def solved(self, trace: vf.Trace) -> float:
        """Return the server's grade. Raises RuntimeError when the machine failed, so that no score is recorded."""
        row = self.data.row
        response = await trace.state.post("verify", {**row, "response": {"output": responses_output(trace.nodes)}})
        reply = _json(response)
        reward = float(reply.pop("reward"))
        for echo in ("response", "responses_create_params", "task_id"):
            reply.pop(echo, None)
        trace.info["error_turns"] = place_errors(reply.pop("error_turns"), trace.nodes)
        trace.info["turn_rewards"] = turn_rewards(trace.info["error_turns"], trace.nodes)
        trace.info["hints"] = reply.pop("hints")
        trace.info["findings"] = reply.pop("findings")
        trace.info["etude"] = reply
        for name, value in reply.items():
            if isinstance(value, (int, float)):
                trace.record_metric(name, float(value))
        return reward

    async def validate(self, runtime: Runtime) -> bool | None:
        """Return whether the task's own solution, played with the agent's tools, scores 1.

        Without ``solutions`` return what this version of verifiers returns for a task without the check: True in 0.3.1,
        None in 0.4.
        """
        state, patch = self._seeded, self._solution()
        assert state is not None
        if patch is not None:
            await state.post("write_file", {"path": PATCH_FILE, "content": patch})
            await state.post("bash", {"command": f"git apply --whitespace=nowarn {PATCH_FILE}"})
        reply = _json(await state.post("verify", {**self.data.row, "response": None}))  # also ends the session
        return await super().validate(runtime) if patch is None else bool(reply["reward"] == 1.0)

    def _solution(self) -> str | None:
        if self.config.solutions is None:
            return None
        for line in (self.config.solutions / "tasks.jsonl").read_text("utf-8").split("\n"):
            task = json.loads(line) if line.strip() else {}
            if task.get("task_id") == self.key:
                return str(task["patch"])
        raise ValueError(f"{self.config.solutions} has no task {self.key!r}; name the folder that the server serves")


class EtudeTaskset(vf.Taskset[EtudeTask, EtudeConfig]):
    """The tasks of a running server."""

    @classmethod
    def toolsets(cls, config: EtudeConfig) -> list[Any]:
        """Return verifiers' tool server for REST sessions."""
        return [NeMoGymToolset(config.tools)]

    def load(self) -> Iterator[EtudeTask]:
        """Yield the server's tasks."""
        with SyncClient(self.config.task.resources_url) as client:
            rows = client.rows(self.config.split)
        for index, row in enumerate(rows):
            name = row["task_id"]
            prompt = row["responses_create_params"]["input"][0]["content"]
            yield EtudeTask(EtudeData(idx=index, id=name, name=name, prompt=prompt, row=row), self.config.task)


def _json(response: httpx.Response) -> dict[str, Any]:
    """Return a response's JSON. Raises RuntimeError with the server's own message."""
    if response.is_success:
        return dict(response.json())
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = response.text[:200]
    raise RuntimeError(f"{response.request.url.path} answered {response.status_code}: {detail}")
