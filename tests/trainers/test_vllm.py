"""vLLM: the configuration of TRL, and complete steps with a scripted server that answers vLLM's HTTP requests.

vLLM need not be installed. TRL's client, generation and trainer are the real ones; what they would send through NCCL
is recorded instead.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from datasets import Dataset
from helpers.model_factory import qwen
from helpers.scripted_policy import ASKED, TASKS, tasks_by_question
from helpers.tokenizer_factory import tokenizer
from trl import GRPOConfig
from trl.generation import vllm_client, vllm_generation

from etude.errors import RecipeError
from etude.trainers.chat.chat_policy import TemplateChat
from etude.trainers.grpo.generation import generate
from etude.trainers.grpo.objectives import objective
from etude.trainers.grpo.parts import ChannelWeights, Parts
from etude.trainers.grpo.trainer import EtudeTrainer
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.rollouts.dataset_rows import reset_rows
from etude.trainers.rollouts.session_pool import Limits
from etude.trainers.run import preflight
from etude.trainers.run.builder import grpo_arguments

END = "<|im_end|>"
Answer = Callable[[list[int], int], list[int]]


def recipe(**generation: Any) -> Recipe:
    return parse({"model": {"name": "some/model"}, "environment": {"serve": "drill"}, "generation": generation})


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_grpo_arguments_configure_vllm(mode: str, tmp_path: Path) -> None:
    url = {"vllm_url": "http://127.0.0.1:8001"} if mode == "server" else {}
    arguments = grpo_arguments(recipe(vllm=mode, max_ids=5000, **url), tmp_path)
    assert set(arguments) <= {field.name for field in fields(GRPOConfig)}
    config = GRPOConfig(**arguments)
    assert (config.use_vllm, config.vllm_mode) == (True, mode)
    assert config.vllm_importance_sampling_correction
    assert config.vllm_importance_sampling_mode == "token_truncate"
    assert config.vllm_server_base_url == url.get("vllm_url")
    assert config.vllm_max_model_length == (5000 if mode == "colocate" else None)


def test_grpo_arguments_do_not_mention_vllm_when_it_is_off(tmp_path: Path) -> None:
    assert not [name for name in grpo_arguments(recipe(), tmp_path) if "vllm" in name]


def test_vllm_server_is_refused_with_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda name: name)
    with pytest.raises(RecipeError, match='"server" works with one process only; set "colocate" for several'):
        preflight.check_machine(recipe(vllm="server", vllm_url="http://127.0.0.1:8001"))


def test_check_machine_reports_a_vllm_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda name: name)
    with pytest.raises(
        RecipeError, match=r"no vLLM server answers at http://127\.0\.0\.1:9 .*`trl vllm-serve"
    ) as caught:
        preflight.check_machine(recipe(vllm="server", vllm_url="http://127.0.0.1:9"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "length", "message"),
    [
        ({"weight_transfer_config": None}, None, "does not take weights; start it with `trl vllm-serve --model MODEL`"),
        ({"model_config": {"logprobs_mode": "raw_logprobs"}}, None, "returns raw_logprobs, not processed_logprobs"),
        (
            {},
            4096,
            r"generation.max_ids \(8192\) is more than the context of the server at .* \(--max-model-len 4096\)",
        ),
        ({}, 8192, ""),
        ({}, None, ""),
    ],
)
def test_check_vllm_server_refuses_a_server_with_the_wrong_options(
    changes: dict[str, Any], length: int | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "config", {**Handler.config, **changes})
    monkeypatch.setattr(Handler, "length", length)
    with serving(lambda prompt, room: []) as server:
        if not message:
            preflight.check_vllm_server(server.url, 8192)
            return
        with pytest.raises(RecipeError, match=message):
            preflight.check_vllm_server(server.url, 8192)


def test_vllm_extra_is_the_range_that_trl_supports(root: Path) -> None:
    import tomllib

    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["vllm"] == ["vllm>=0.22,<=0.31"]


# --- a scripted vLLM server --------------------------------------------------------------------------------------


class ScriptedServer(ThreadingHTTPServer):
    """Server that answers the requests of TRL 1.16's VLLMClient, and records the path and body of each."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.requests: list[tuple[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def completions(self, body: Any) -> dict[str, Any]:
        choices = []
        for prompt in body["prompt"]:
            ids = self.answer(prompt, body["max_tokens"])
            names = [f"token_id:{token}" for token in ids]
            scores = {"tokens": names, "token_logprobs": [-0.5] * len(ids), "top_logprobs": [None] * len(ids)}
            choices.append({"prompt_token_ids": prompt, "token_ids": ids, "logprobs": scores})
        return {"choices": choices}


class Handler(BaseHTTPRequestHandler):
    server: ScriptedServer
    config: dict[str, Any] = {
        "weight_transfer_config": {"backend": "nccl"},
        "model_config": {"logprobs_mode": "processed_logprobs"},
    }
    length: int | None = None

    def do_GET(self) -> None:
        answers = {
            "/health": {},
            "/v1/models": {"data": [{"id": "served", **({"max_model_len": self.length} if self.length else {})}]},
            "/server_info": {"vllm_config": self.config},
            "/get_world_size": {"world_size": 1},
        }
        self.reply(answers[self.path.partition("?")[0]], None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or "null")
        self.reply(self.server.completions(body) if self.path == "/v1/completions" else {"success": True}, body)

    def reply(self, answer: Any, body: Any) -> None:
        self.server.requests.append((self.path.partition("?")[0], body))
        written = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def serving(answer: Answer) -> Iterator[ScriptedServer]:
    with ScriptedServer(answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let TRL believe that vLLM is installed, and record the name of the first weight of each update that it sends."""
    updates: list[str] = []
    original = vllm_client.VLLMClient.init_communicator

    def without_nccl(client: Any, device: Any) -> None:
        with pytest.raises(NotImplementedError, match="NCCL"):
            original(client, device)

    for module in (vllm_client, vllm_generation):
        monkeypatch.setattr(module, "is_vllm_available", lambda *names: True)
    monkeypatch.setattr(vllm_client, "get_ip", lambda: "127.0.0.1", raising=False)
    monkeypatch.setattr(vllm_client.VLLMClient, "init_communicator", without_nccl)
    monkeypatch.setattr(
        vllm_client.VLLMClient, "update_named_params", lambda client, named, params: updates.append(named[0][0])
    )
    return updates


def test_client_of_trl_generates_with_logprobs(sent: list[str]) -> None:
    with serving(lambda prompt, room: [*prompt[-2:], 7][:room]) as server:
        client = vllm_client.VLLMClient(server.url)
        client.init_communicator("cpu")
        generated = client.generate([[1, 2, 3], [4, 5]], max_tokens=8)
        assert generated["completion_ids"] == [[2, 3, 7], [4, 5, 7]]
        assert generated["logprobs"] == [[[-0.5]] * 3] * 2
        paths = [path for path, _ in server.requests]
        assert paths == ["/health", "/v1/models", "/server_info", "/get_world_size", "/v1/completions"]


@pytest.mark.parametrize("patience", [None, 1.0])
def test_steps_with_turns_from_a_vllm_server(
    patience: float | None, drill_url: str, sent: list[str], tmp_path: Path
) -> None:
    """Every turn is requested by ids, with its room and the template's stops; its logprobs reach the loss.

    Only in lockstep the turns of all four rollouts are requested together.
    """
    words = tokenizer("qwen3-no-thinking")

    def answer(prompt: list[int], room: int) -> list[int]:
        text = words.decode(prompt)
        drill = TASKS.drill(tasks_by_question()[ASKED.findall(text)[0]])
        calls = [*drill.solution(), ("submit", {"answer": drill.answer})]
        name, arguments = calls[text.count("<tool_response>")]
        call = json.dumps({"name": name, "arguments": arguments})
        return list(words.encode(f"<tool_call>\n{call}\n</tool_call>{END}", add_special_tokens=False)[:room])

    with serving(answer) as server:
        parsed = parse(
            {
                "model": {"name": "some/model"},
                "environment": {"url": drill_url},
                "train": {"steps": 2, "prompts": 1, "group": 4, "micro": 4, "learning_rate": 1e-3},
                "generation": {"vllm": "server", "vllm_url": server.url, "max_ids": 6000, "max_turn_ids": 400},
            }
        )
        trainer = EtudeTrainer(
            qwen(len(words)),
            Parts(
                url=drill_url,
                chat=lambda sampler: TemplateChat(words, sampler, arguments={"enable_thinking": False}),
                objective=objective("dr_grpo"),
                channels=ChannelWeights(),
                limits=Limits(6000, 400),
                patience=patience,
            ),
            args=GRPOConfig(**{**grpo_arguments(parsed, tmp_path), "save_strategy": "no", "use_cpu": True}),
            train_dataset=Dataset.from_list(reset_rows([{"task_id": TASKS.list_tasks("train")[0].task_id}] * 2)),
            processing_class=words,
        )
        batches: list[Any] = []
        original = trainer._generate_and_score_completions
        trainer._generate_and_score_completions = lambda inputs: batches.append(original(inputs)) or batches[-1]
        trainer.train()
        trainer.close()
        bodies = [body for path, body in server.requests if path == "/v1/completions"]
    logged = trainer.state.log_history
    assert [row["reward"] for row in logged if "reward" in row] == [1.0, 1.0]
    for body in bodies:
        assert (body["n"], body["logprobs"], body["max_tokens"]) == (1, 0, 400)
        assert body["stop_token_ids"] == sorted(trainer._chat.stops)
        assert all(isinstance(token, int) for prompt in body["prompt"] for token in prompt)
    sizes = [len(body["prompt"]) for body in bodies]
    assert sum(sizes) == 16 and (patience or sizes == [4] * 4)
    assert len(sent) == 2  # one update of the weights for each step, before its first turn
    for output in batches:
        sampled = (output["completion_mask"] * output["tool_mask"]).bool()
        assert (output["sampling_per_token_logps"][sampled] == -0.5).all()
        ratios = output["importance_sampling_ratio"]
        assert ratios.shape == sampled.shape and (ratios[sampled] <= 3.0).all()


def test_turns_with_different_rooms_are_requested_separately_from_a_server(sent: list[str]) -> None:
    """A server refuses a prompt whose turn might exceed its context; vLLM inside this process cuts the turn."""
    requests: list[tuple[int, list[Any]]] = []

    def single(prompts: Any, *others: Any, **more: Any) -> Any:
        requests.append((vllm.max_completion_length, prompts))
        return [[9] * vllm.max_completion_length for _ in prompts], None

    vllm = SimpleNamespace(max_completion_length=0)
    for mode, expected in (("server", [(2, [[2]]), (4, [[1], [3]])]), ("colocate", [(4, [[1], [2], [3]])])):
        requests.clear()
        trainer = SimpleNamespace(use_vllm=True, vllm_mode=mode, vllm_generation=vllm, _generate_single_turn=single)
        samples = generate(trainer, [[1], [2], [3]], [4, 2, 4])
        assert [len(sample.ids) for sample in samples] == [4, 2, 4]
        assert requests == expected


def test_logprob_is_nan_when_vllm_gives_none() -> None:
    single = lambda *arguments, **options: ([[7, 8]], [[None, -0.5]])  # noqa: E731
    vllm = SimpleNamespace(max_completion_length=0)
    trainer = SimpleNamespace(use_vllm=True, vllm_mode="server", vllm_generation=vllm, _generate_single_turn=single)
    (sample,) = generate(trainer, [[1]], [4])
    assert math.isnan(sample.logprobs[0]) and sample.logprobs[1] == -0.5
