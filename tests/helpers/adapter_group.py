"""A group of rollouts as prime-rl's orchestrator asks for them, with verifiers' own parts alone.

The taskset is loaded here; agents and tools live in an environment server, a process of its own; each rollout ships its
task's data there and comes back as one episode. Prints what a trainer reads of it, as JSON.

    python group.py CONFIG.json MODEL_URL GROUP_SIZE
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.configs.client import EvalClientConfig
from verifiers.v1.serve import EnvClient, env_config_data, serve_env
from verifiers.v1.utils.loaders import resolve_env_config


async def group(client: EnvClient, task: Any, model_url: str, size: int) -> list[Any]:
    """The traces of ``size`` rollouts of one task."""
    model = EvalClientConfig(base_url=model_url, api_key_var="NO_KEY")
    data = task.data.model_dump(mode="json")
    runs = [client.run(model, "scripted", vf.SamplingConfig(), data) for _ in range(size)]
    episodes = await asyncio.gather(*runs)
    return [trace for episode in episodes for trace in episode.traces]


async def play(config: Any, address: str, model_url: str, size: int) -> list[dict[str, Any]]:
    client = EnvClient(address)
    await client.wait_for_server_startup()
    found = []
    for task in list(vf.load_taskset(config.taskset))[:2]:
        traces = await group(client, task, model_url, size)
        rewards = [trace.reward for trace in traces]
        told = [{"ok": trace.ok, "info": trace.info, "nodes": len(trace.nodes)} for trace in traces]
        found.append({"key": task.key, "rewards": rewards, "traces": told})
    await client.close()
    return found


def main() -> None:
    config = resolve_env_config(json.loads(Path(sys.argv[1]).read_text()))
    spawn = multiprocessing.get_context("spawn")
    addresses = spawn.Queue()
    about = {"config_data": env_config_data(config), "address": "tcp://127.0.0.1:0", "address_queue": addresses}
    server = spawn.Process(target=serve_env, kwargs={"max_workers": 2, **about})
    server.start()
    try:
        print("\n" + json.dumps(asyncio.run(play(config, addresses.get(timeout=300), sys.argv[2], int(sys.argv[3])))))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
