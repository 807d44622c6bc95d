"""Tests of the worker's loop in this process: the episodes that its samples carry, and failures of the process."""

from __future__ import annotations

import functools
import pickle
import queue
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from helpers.async_grpo_world import TASK, WORDS, World, solution
from helpers.completions_engine import Engine, number, say, serving, talking
from helpers.policy_server import pretend_vllm
from helpers.rollout_worker import Worker
from helpers.tokenizer_factory import tokenizer

from etude.errors import ServerError
from etude.trainers.asynchronous.worker import EpisodeLoop, EpisodeMetrics, EpisodeWorker, Played
from etude.trainers.integrations.async_grpo import OwnedSessionFactory
from etude.trainers.integrations.harness import harness_rows


@pytest.fixture
def world(drill_url: str, tmp_path: Path) -> Iterator[World]:
    WORDS.save_pretrained(tmp_path)
    made = World(drill_url, str(tmp_path))
    yield made
    for factory in made.factories:
        factory.close()


def worker(world: World, engine: Engine, **options: Any) -> Worker:
    arguments = {"policy_url": engine.url, "model": "served", "tokenizer": world.tokenizer_folder, **options}
    return Worker(
        kind=EpisodeLoop,
        harness_session_factory=functools.partial(OwnedSessionFactory, world.url, **arguments),
        dataset=Dataset.from_list(harness_rows([{"task_id": TASK}])),
    )


def errs_once(text: str) -> str:
    """Return the turns of a policy that calls an unknown tool first, then solves the drill."""
    return [say("no_such_tool", {}), *solution()][min(number(text), 2)]


def test_samples_carry_their_episode_and_the_version_of_its_policy(world: World) -> None:
    with serving(talking(WORDS, errs_once)) as engine:
        played = worker(world, engine)
        played.loop._model_version_value.value = 3
        samples = played.group()
        played.loop._factory.close()
    assert len(samples) == 4 and len({sample.metrics.played.rollout.episode_id for sample in samples}) == 4
    for sample in samples:
        carried = sample.metrics.played
        rollout = carried.rollout
        assert carried.model_version == sample.model_version == 3
        assert rollout.ids == sample.input_ids.tolist()
        assert [0] * rollout.prompt + rollout.mask == sample.completion_mask.tolist()
        assert [0.0] * rollout.prompt + rollout.logprobs == pytest.approx(sample.old_log_probs.tolist())
        assert rollout.reward.valid and rollout.reward.value == sample.metrics["reward"] == 1.0
        assert [error.turn for error in rollout.error_turns] == [0] and rollout.error_turns[0].hints
        assert [message["role"] for message in rollout.messages] == ["user", *["assistant", "tool"] * 3]
        assert rollout.end == "submit" and not rollout.truncated


def test_episode_that_fills_its_context_is_truncated(world: World) -> None:
    with serving(talking(WORDS, errs_once)) as engine:
        room = len(WORDS.encode(say("no_such_tool", {}), add_special_tokens=False))
        played = worker(world, engine, max_ids=prompt_length(world) + room + 1)
        (sample, *_) = played.group()
        played.loop._factory.close()
    rollout = sample.metrics.played.rollout
    assert rollout.truncated and len(rollout.turns) == 1 and rollout.reward.value == 0.0


def prompt_length(world: World) -> int:
    """Return the number of ids of the task's prompt."""
    _, trace, _ = world.play(talking(WORDS, errs_once))
    return len(trace.turns[0].prompt_token_ids)


def test_episode_whose_engine_fails_is_carried_as_invalid(world: World) -> None:
    """TRL keeps its turns in the batch, with an advantage of 0."""
    answer = talking(WORDS, errs_once)

    def lost(body: Any) -> Any:
        return answer(body) if number(WORDS.decode(body["prompt"])) == 0 else (500, {"error": "busy"})

    with serving(lost) as engine:
        played = worker(world, engine)
        played.loop._factory.policy.completions.attempts = 1
        samples = played.group()
        played.loop._factory.close()
    assert len(samples) == 4
    for sample in samples:
        rollout = sample.metrics.played.rollout
        assert not rollout.reward.valid and len(rollout.turns) == 1 and sample.advantage == 0.0


def test_ctrl_c_is_left_to_the_trainer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = []
    monkeypatch.setattr(EpisodeLoop.__mro__[1], "run", lambda loop: handlers.append(signal.getsignal(signal.SIGINT)))
    before = signal.getsignal(signal.SIGINT)
    with serving(talking(WORDS, errs_once)) as engine:
        try:
            worker(world, engine).loop.run()
        finally:
            signal.signal(signal.SIGINT, before)
    assert handlers == [signal.SIG_IGN]


def test_metrics_survive_the_way_to_another_process() -> None:
    sent = pickle.loads(pickle.dumps(EpisodeMetrics({"reward": 1.0}, Played(None, 7))))
    assert sent == {"reward": 1.0} and (sent.played.rollout, sent.played.model_version) == (None, 7)


def made(monkeypatch: pytest.MonkeyPatch, words: Any) -> EpisodeWorker:
    pretend_vllm(monkeypatch)
    return EpisodeWorker(processing_class=words, harness_session_factory=lambda: None)


def test_worker_takes_a_template_that_trl_cannot_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL's loop would refuse it, but sessions that play their own episodes never parse through TRL."""
    words = tokenizer("qwen3-2507", template="{{ messages[-1].content }}")
    passed = made(monkeypatch, words)._loop_kwargs["processing_class"]
    assert passed.response_template == {} and getattr(words, "response_template", None) is None


def test_failed_process_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = made(monkeypatch, tokenizer("qwen3-2507"))
    failing._failed_event.set()
    failing._exception_info_queue = queue.Queue()
    failing._exception_info_queue.put(("CaptureContractError", "it answered 404", "Traceback\n ..."))
    with pytest.raises(ServerError, match=r"plays the episodes has failed \(CaptureContractError: it answered 404\)"):
        failing.check_health(60)
    silent = made(monkeypatch, tokenizer("qwen3-2507"))
    with pytest.raises(ServerError, match="heartbeat stale") as caught:
        silent.check_health(60)
    assert "\n" not in str(caught.value)
