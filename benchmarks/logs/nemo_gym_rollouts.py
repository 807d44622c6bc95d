"""Rollouts of NeMo Gym 0.4, written by its rollout collection and simple agent, each server a process on 127.0.0.1.

    uv venv --python 3.12 TOOL && uv pip install --python TOOL/bin/python nemo-gym==0.4.0
    TOOL/bin/python benchmarks/logs/nemo_gym_rollouts.py OUT

The model server plays the answers of ``chat_endpoint`` in the Responses format; the resources server has two tools.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from chat_endpoint import FINAL, QUESTION, answers
from fastapi import FastAPI, Request
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.rollout_collection import RolloutCollectionConfig, RolloutCollectionHelper
from nemo_gym.server_utils import ServerClient
from note_tools import read_text, shell
from omegaconf import OmegaConf
from pydantic import BaseModel
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig

HOST, HEAD, TOOLS, MODEL, AGENT = "127.0.0.1", 18761, 18762, 18763, 18764
CONFIG: dict[str, Any] = {
    "head_server": {"host": HOST, "port": HEAD},
    "notes": {
        "resources_servers": {"notes": {"host": HOST, "port": TOOLS, "entrypoint": "app.py", "domain": "coding"}}
    },
    "policy_model": {"responses_api_models": {"scripted": {"host": HOST, "port": MODEL, "entrypoint": "app.py"}}},
    "simple_agent": {"responses_api_agents": {"simple_agent": {"host": HOST, "port": AGENT, "entrypoint": "app.py"}}},
    "global_aiohttp_connector_limit": 10,
    "global_aiohttp_connector_limit_per_host": 10,
}


class Collection(RolloutCollectionHelper):
    """The rollout collection, connected to the head server below."""

    def setup_server_client(self, head_server_config: BaseServerConfig | None = None) -> ServerClient:
        return super().setup_server_client(head_server_config or BaseServerConfig(host=HOST, port=HEAD))


class ShellArguments(BaseModel):
    command: str


class ReadArguments(BaseModel):
    path: str


class Notes(SimpleResourcesServer):
    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/shell")(self.shell)
        app.post("/read_text")(self.read)
        return app

    async def shell(self, body: ShellArguments) -> dict[str, str]:
        return {"output": shell(body.command)}

    async def read(self, body: ReadArguments) -> dict[str, str]:
        return {"output": read_text(body.path)}

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        said = body.response.output[-1].model_dump_json()
        return BaseVerifyResponse(**body.model_dump(), reward=float(FINAL in said))


def model_app() -> FastAPI:
    app = FastAPI()

    @app.post("/v1/responses")
    async def responses(request: Request) -> dict[str, Any]:
        asked = await request.json()
        number = len({item["id"].split("-")[1] for item in asked["input"] if item.get("id")})
        message = answers()[number]
        output: list[dict[str, Any]] = []
        if message["content"]:
            text = {"type": "output_text", "text": message["content"], "annotations": []}
            output.append(
                {
                    "id": f"msg-{number}",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [text],
                }
            )
        for call in message.get("tool_calls", []):
            fields = {
                "id": f"fc-{number}-{call['id']}",
                "call_id": call["id"],
                "status": "completed",
                **call["function"],
            }
            output.append({"type": "function_call", **fields})
        shared = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": asked.get("tools", [])}
        return {
            "id": f"resp-{number}",
            "object": "response",
            "created_at": 1700000000.0,
            "model": "scripted",
            "output": output,
            **shared,
        }

    return app


def tool(name: str, argument: str, description: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string"}},
        "required": [argument],
        "additionalProperties": False,
    }
    return {"type": "function", "name": name, "description": description, "parameters": schema, "strict": True}


def head_app() -> FastAPI:
    app = FastAPI()

    @app.get("/global_config_dict_yaml")
    async def config() -> str:
        return json.dumps(CONFIG)

    return app


def apps() -> dict[str, tuple[Callable[[], FastAPI], int]]:
    """Return the servers by name: each makes its application, and has a port."""
    head = BaseServerConfig(host=HOST, port=HEAD)
    client = ServerClient(head_server_config=head, global_config_dict=OmegaConf.create(CONFIG))
    place = {"host": HOST, "entrypoint": "app.py"}
    notes = BaseResourcesServerConfig(name="notes", port=TOOLS, domain="coding", **place)
    tools = {"type": "resources_servers", "name": "notes"}
    model = {"type": "responses_api_models", "name": "policy_model"}
    config = SimpleAgentConfig(
        name="simple_agent", port=AGENT, max_steps=10, resources_server=tools, model_server=model, **place
    )
    return {
        "head": (head_app, HEAD),
        "model": (model_app, MODEL),
        "tools": (Notes(config=notes, server_client=client).setup_webserver, TOOLS),
        "agent": (SimpleAgent(config=config, server_client=client).setup_webserver, AGENT),
    }


def serve(name: str) -> None:
    """Run one server until it is terminated."""
    make, port = apps()[name]
    uvicorn.run(make(), host=HOST, port=port, log_level="error")


def collect(out: Path) -> None:
    """Collect one rollout in the current folder and copy its file to ``out``."""
    params = {
        "input": [{"role": "system", "content": "Answer with the tools."}, {"role": "user", "content": QUESTION}],
        "tools": [tool("shell", "command", "Run a command."), tool("read_text", "path", "Read a file.")],
    }
    agent = {"type": "responses_api_agents", "name": "simple_agent"}
    row = {"task_id": "notes-1", "responses_create_params": params, "agent_ref": agent}
    Path("rows.jsonl").write_text(json.dumps(row) + "\n")
    config = RolloutCollectionConfig(
        input_jsonl_fpath="rows.jsonl",
        output_jsonl_fpath="rollouts.jsonl",
        num_repeats=1,
        upload_rollouts_to_wandb=False,
        disable_aggregation=True,
    )
    asyncio.run(Collection().run_from_config(config))
    out.mkdir(parents=True, exist_ok=True)
    (out / "rollouts.jsonl").write_bytes(Path("rollouts.jsonl").read_bytes())


def main(out: Path) -> None:
    servers = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("notes.txt").write_text("one\ntwo\n")
        try:
            for name in ("head", "model", "tools", "agent"):
                servers.append(subprocess.Popen([sys.executable, __file__], env={**os.environ, "SERVER": name}))
            for port in (HEAD, MODEL, TOOLS, AGENT):
                while socket.socket().connect_ex((HOST, port)):
                    time.sleep(0.2)
            collect(out)
        finally:
            for server in servers:
                server.terminate()
                server.wait()


if __name__ == "__main__":
    if "SERVER" in os.environ:
        serve(os.environ["SERVER"])
    else:
        main(Path(sys.argv.pop(1)).resolve())  # NeMo Gym reads the arguments too
