"""The v1 taskset: tasks from a running server, each rollout a REST session of it.

verifiers runs tools in another process than the task's hooks, and the session's cookie, in the rollout's state, is what
both share. How an MCP server lists tools that only the rollout knows differs between mcp 1 and 2, so the tool server is
that of verifiers' own ``nemo-gym`` taskset, which each version ships for its mcp.
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

from .rollout import placed, responses_output

PATCH_FILE = "/tmp/solution.patch"


class EtudeTaskConfig(vf.TaskConfig):
    resources_url: str = "http://127.0.0.1:8000"
    """The server's address, as the machine of the environment workers sees it."""
    request_timeout: float = Field(1800.0, gt=0)
    """Seconds for one call: longer than the slowest test run or grade."""
    solutions: Path | None = None
    """A coding task set's folder, secret parts included, for ``validate`` alone; without it that check says nothing."""


class EtudeConfig(vf.TasksetConfig):
    split: str | None = None
    """Tasks of this split alone."""
    tools: SharedToolsetConfig = SharedToolsetConfig()
    task: EtudeTaskConfig = EtudeTaskConfig()


class EtudeData(vf.TaskData):
    row: dict[str, Any]
    """What ``/seed_session`` and ``/verify`` are sent: public parts alone."""


class EtudeTask(vf.Task[EtudeData, NeMoGymState, EtudeTaskConfig]):
    @property
    def key(self) -> str:
        return str(self.data.row["task_id"])

    _seeded: NeMoGymState | None = None

    async def setup(self, trace: vf.Trace, runtime: Runtime) -> None:
        state = self._seeded = trace.state
        state.resources_url = self.config.resources_url.rstrip("/")
        state.request_timeout = self.config.request_timeout
        tools = self.data.row["responses_create_params"]["tools"]
        state.direct_tools = {tool["name"]: tool for tool in tools}
        state.tool_names = list(state.direct_tools)
        answer = await state.post("seed_session", self.data.row)
        _json(answer)
        state.cookies.update(answer.cookies)

    @vf.reward(weight=1.0)
    async def solved(self, trace: vf.Trace) -> float:
        """The server's grade; raises when the machine failed, so that no score is recorded."""
        row = self.data.row
        answer = await trace.state.post("verify", {**row, "response": {"output": responses_output(trace.nodes)}})
        told = _json(answer)
        reward = float(told.pop("reward"))
        for echo in ("response", "responses_create_params", "task_id"):
            told.pop(echo, None)
        trace.info["error_turns"] = placed(told.pop("error_turns"), trace.nodes)
        trace.info["hints"] = told.pop("hints")
        trace.info["findings"] = told.pop("findings")
        trace.info["etude"] = told
        for name, value in told.items():
            if isinstance(value, (int, float)):
                trace.record_metric(name, float(value))
        return reward

    async def validate(self, runtime: Runtime) -> bool | None:
        """Whether the task's own solution scores 1, played with the agent's tools.

        Without ``solutions`` it is what this verifiers says of a task that has no such check: 0.3.1 True, 0.4 None.
        """
        state, patch = self._seeded, self._solution()
        assert state is not None
        if patch is not None:
            await state.post("write_file", {"path": PATCH_FILE, "content": patch})
            await state.post("bash", {"command": f"git apply --whitespace=nowarn {PATCH_FILE}"})
        told = _json(await state.post("verify", {**self.data.row, "response": None}))  # also ends the session
        return await super().validate(runtime) if patch is None else bool(told["reward"] == 1.0)

    def _solution(self) -> str | None:
        if self.config.solutions is None:
            return None
        for line in (self.config.solutions / "tasks.jsonl").read_text("utf-8").split("\n"):
            task = json.loads(line) if line.strip() else {}
            if task.get("task_id") == self.key:
                return str(task["patch"])
        raise ValueError(f"{self.config.solutions} has no task {self.key!r}: name the folder that the server serves")


class EtudeTaskset(vf.Taskset[EtudeTask, EtudeConfig]):
    @classmethod
    def toolsets(cls, config: EtudeConfig) -> list[Any]:
        return [NeMoGymToolset(config.tools)]

    def load(self) -> Iterator[EtudeTask]:
        client = SyncClient(self.config.task.resources_url)
        try:
            rows = client.rows(self.config.split)
        finally:
            client.close()
        for index, row in enumerate(rows):
            name = row["task_id"]
            prompt = row["responses_create_params"]["input"][0]["content"]
            yield EtudeTask(EtudeData(idx=index, id=name, name=name, prompt=prompt, row=row), self.config.task)


def _json(answer: httpx.Response) -> dict[str, Any]:
    """Raises RuntimeError with the server's own words."""
    if answer.is_success:
        return dict(answer.json())
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = answer.text[:200]
    raise RuntimeError(f"{answer.request.url.path} answered {answer.status_code}: {detail}")
