"""A stand-in of a vLLM server with a real, small policy: it samples, pauses, and takes weights as TRL sends them.

HTTP requests are those of TRL's client and of our completions. What NCCL would carry goes through ``INBOX``, a queue in
this process, so server and trainer must share the process; the rollout worker may be another one.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import torch
from helpers.completions_engine import JsonHandler
from transformers import DynamicCache
from trl.experimental.async_grpo import async_grpo_trainer, async_rollout_worker, packing, weight_transfer

from etude.trainers.asynchronous import worker

INBOX: queue.Queue[tuple[str, torch.Tensor] | None] = queue.Queue()
Sampler = Callable[[dict[str, Any]], list[int] | None]
"""Returns the ids of a turn for a request's body, or None to sample them from the policy."""


class PolicyServer(ThreadingHTTPServer):
    """Server of one policy; ``script`` may write turns in its place, which the policy then scores."""

    daemon_threads = True

    def __init__(self, model: Any, script: Sampler | None = None, context: int = 8192) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model, self.script, self.context = model.eval(), script, context
        self.requests: list[tuple[str, Any]] = []
        self.updates: list[list[str]] = []
        """Names of the weights of each update."""
        self._lock, self._running = threading.Lock(), threading.Event()
        self._running.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def get(self, path: str) -> Any:
        config = {"weight_transfer_config": {"backend": "nccl"}}
        config["model_config"] = {"logprobs_mode": "processed_logprobs", "dtype": "torch.float32"}
        return {
            "/health": {},
            "/v1/models": {"data": [{"id": "served", "max_model_len": self.context}]},
            "/server_info": {"vllm_config": config},
            "/get_world_size": {"world_size": 1},
        }[path]

    def post(self, path: str, body: Any) -> Any:
        if path == "/v1/completions":
            self._running.wait()
            with self._lock:
                return self._complete(body)
        if path in ("/pause", "/resume"):
            self._running.clear() if path == "/pause" else self._running.set()
        if path == "/update_weights":
            self._update(body["update_info"])
        return {"success": True}

    @torch.no_grad()
    def _update(self, info: dict[str, Any]) -> None:
        """Receive the weights that the request announces, in its order, and copy them into the policy."""
        parameters = dict(self.model.named_parameters())
        for name, shape, dtype in zip(info["names"], info["shapes"], info["dtype_names"], strict=True):
            received = INBOX.get(timeout=60)
            assert received is not None and received[0] == name
            assert list(received[1].shape) == shape and str(received[1].dtype) == f"torch.{dtype}"
            parameters[name].copy_(received[1])
        assert INBOX.get(timeout=60) is None
        self.updates.append(list(info["names"]))

    @torch.no_grad()
    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(body["seed"] % 2**31)
        written = self.script(body) if self.script else None
        cache, unread = DynamicCache(), list(body["prompt"])
        ids: list[int] = []
        scores: list[float] = []
        while len(ids) < (len(written) if written is not None else body["max_tokens"]):
            logits = self.model(input_ids=torch.tensor([unread]), past_key_values=cache, use_cache=True).logits[0, -1]
            logps = (logits.float() / body["temperature"]).log_softmax(-1)
            chosen = int(torch.multinomial(logps.exp(), 1, generator=generator))
            ids.append(chosen if written is None else written[len(ids)])
            scores.append(float(logps[ids[-1]]))
            unread = [ids[-1]]
            if ids[-1] in body["stop_token_ids"]:
                break
        stopped = bool(ids) and ids[-1] in body["stop_token_ids"]
        choice = {
            "index": 0,
            "text": "",
            "token_ids": ids,
            "prompt_token_ids": body["prompt"],
            "finish_reason": "stop" if stopped else "length",
            "logprobs": {"token_logprobs": scores},
        }
        return {"model": body["model"], "choices": [choice]}


class Handler(JsonHandler):
    """Handler that records each request's path and body in ``PolicyServer.requests``."""

    server: PolicyServer

    def do_GET(self) -> None:
        self._reply(self.server.get(self.path.partition("?")[0]), None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or "null")
        self._reply(self.server.post(self.path.partition("?")[0], body), body)

    def _reply(self, answer: Any, body: Any) -> None:
        self.server.requests.append((self.path.partition("?")[0], body))
        self.send_json(200, answer)


@contextmanager
def serving(model: Any, script: Sampler | None = None) -> Iterator[PolicyServer]:
    with PolicyServer(model, script) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


# --- in place of vLLM's package and of the GPU --------------------------------------------------------------------


class Engine:
    """In place of vLLM's sender of weights through NCCL."""

    @staticmethod
    def trainer_init(info: Any) -> Any:
        return SimpleNamespace(group=SimpleNamespace(store=None, socket=None))

    @staticmethod
    def trainer_send_weights(iterator: Any, trainer_args: Any) -> None:
        for name, weight in iterator:
            INBOX.put((name, weight.detach().clone()))
        INBOX.put(None)


class Kernel:
    """In place of Flash Attention 3, which runs on GPUs alone: the same function, for float32 on the CPU."""

    @staticmethod
    def flash_attn_varlen_func(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        ends_q: torch.Tensor,
        ends_k: torch.Tensor,
        longest_q: int,
        longest_k: int,
        *,
        softmax_scale: float,
        causal: bool,
        window_size: tuple[int, int],
    ) -> torch.Tensor:
        """Return the attention [T, H, D] of queries [T, H, D]; the causal mask is aligned at the end of the keys."""
        assert causal and window_size == (-1, -1)
        parts, repeats = [], query.size(1) // key.size(1)
        for place in range(len(ends_q) - 1):
            asking = query[ends_q[place] : ends_q[place + 1]].transpose(0, 1)
            span = slice(ends_k[place], ends_k[place + 1])
            keys, values = (x[span].repeat_interleave(repeats, 1).transpose(0, 1) for x in (key, value))
            depth = torch.arange(keys.size(1))
            later = depth > depth[-asking.size(1) :, None]
            weights = (asking @ keys.transpose(1, 2) * softmax_scale).masked_fill(later, -torch.inf).softmax(-1)
            parts.append((weights @ values).transpose(0, 1))
        return torch.cat(parts)


class Loop(worker.EpisodeLoop):
    """The loop of the spawned process, where aiohttp, which vLLM installs, may be missing; our sessions use httpx."""

    async def _run_loops(self, stop_event: Any) -> None:
        if not hasattr(async_rollout_worker, "aiohttp"):
            async_rollout_worker.aiohttp = SimpleNamespace(ClientSession=_NoSession, TCPConnector=lambda limit: None)
        await super()._run_loops(stop_event)


class _NoSession:
    def __init__(self, connector: Any) -> None:
        pass

    async def __aenter__(self) -> _NoSession:
        return self

    async def __aexit__(self, *error: Any) -> None:
        pass


def pretend_vllm(monkeypatch: Any) -> None:
    """Let TRL believe that vLLM and a GPU are here, and send weights through ``INBOX``."""
    monkeypatch.setattr(async_rollout_worker, "is_vllm_available", lambda *names, **more: True)
    monkeypatch.setattr(async_rollout_worker, "is_aiohttp_available", lambda: True)
    monkeypatch.setattr(weight_transfer, "is_vllm_available", lambda *names, **more: True)
    replaced = {
        "get_ip": lambda: "127.0.0.1",
        "get_open_port": lambda: 0,
        "NCCLWeightTransferEngine": Engine,
        "NCCLTrainerSendWeightsArgs": lambda **arguments: SimpleNamespace(**arguments),
    }
    for name, value in replaced.items():
        monkeypatch.setattr(weight_transfer, name, value, raising=False)
    monkeypatch.setattr(weight_transfer, "_HAS_STATEFUL_TRAINER_ENGINE", False)
    monkeypatch.setattr(worker.EpisodeWorker, "_loop_cls", Loop)
    monkeypatch.setattr(packing, "_flash_attn", lambda: Kernel)
    monkeypatch.setattr(async_grpo_trainer, "get_peak_flops_per_device", lambda accelerator, dtype: None)
