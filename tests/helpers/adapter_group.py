"""Groups of rollouts as prime-rl's orchestrator requests them, with verifiers' own parts alone.

The taskset is loaded here; agents and tools run in an environment server, another process. Each rollout sends its
task's data there and returns as one episode. Prints the fields that a trainer reads, as JSON.

    python adapter_group.py CONFIG.json MODEL_URL GROUP_SIZE
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
    """Play ``size`` rollouts of one task and return their traces."""
    model = EvalClientConfig(base_url=model_url, api_key_var="NO_KEY")
    data = task.data.model_dump(mode="json")
    runs = [client.run(model, "scripted", vf.SamplingConfig(), data) for _ in range(size)]
    episodes = await asyncio.gather(*runs)
    return [trace for episode in episodes for trace in episode.traces]


async def play(config: Any, address: str, model_url: str, size: int) -> list[dict[str, Any]]:
    client = EnvClient(address)
    await client.wait_for_server_startup()
    groups = []
    for task in list(vf.load_taskset(config.taskset))[:2]:
        traces = await group(client, task, model_url, size)
        rewards = [trace.reward for trace in traces]
        fields = [{"ok": trace.ok, "info": trace.info, "nodes": len(trace.nodes)} for trace in traces]
        groups.append({"key": task.key, "rewards": rewards, "traces": fields})
    await client.close()
    return groups


def main() -> None:
    config = resolve_env_config(json.loads(Path(sys.argv[1]).read_text()))
    spawn = multiprocessing.get_context("spawn")
    addresses = spawn.Queue()
    options = {"config_data": env_config_data(config), "address": "tcp://127.0.0.1:0", "address_queue": addresses}
    server = spawn.Process(target=serve_env, kwargs={"max_workers": 2, **options})
    server.start()
    try:
        print("\n" + json.dumps(asyncio.run(play(config, addresses.get(timeout=300), sys.argv[2], int(sys.argv[3])))))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
