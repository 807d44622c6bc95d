"""Tests of sessions that play whole episodes, alone and through TRL's worker; vLLM is a scripted server."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import queue
import threading
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from helpers.async_grpo_world import TASK, WORDS, World, script, solution, turn_texts
from helpers.completions_engine import END, Engine, completion, number, say, serving, talking
from helpers.rollout_worker import Worker
from helpers.tokenizer_factory import tokenizer
from openenv.core.harness import ResourceSession, ResourceSessionFactory, TrainableSession
from trl.experimental.async_grpo.openenv_harness import CaptureContractError

from etude.client import Client, connect
from etude.errors import LLMError, ServerInfrastructureError
from etude.trainers.integrations.async_grpo import PLAYED, REFUSED, VOID, OwnedSessionFactory
from etude.trainers.integrations.harness import harness_rows


def test_session_implements_openenvs_trainable_session(world: World) -> None:
    factory = world.factory()
    session = factory.create(TASK)
    assert isinstance(factory, ResourceSessionFactory)
    assert isinstance(session, ResourceSession) and isinstance(session, TrainableSession)
    with connect(world.url) as client:
        assert session.initial_messages()[-1]["content"] == client.reset(task_id=TASK).prompt
    session.close()
    session.close()


def test_verify_places_error_turns_in_trls_transcript(world: World) -> None:
    session, trace, _ = world.play(talking(WORDS, script(say("no_such_tool", {}), *solution())))
    transcript = [*trace.turns[-1].request["messages"], {"role": "assistant", "content": ""}]
    (error,) = session.verify(transcript).artifacts["error_turns"]
    assert transcript[error["message"]] == trace.turns[0].response["choices"][0]["message"]


# --- failures ----------------------------------------------------------------------------------------------------


def test_session_survives_a_transient_failure_of_the_engine(world: World) -> None:
    answer, failed = talking(WORDS, script(*solution())), threading.Lock()

    def once(body: Any) -> Any:
        return (500, {"error": "busy"}) if failed.acquire(blocking=False) else answer(body)

    session, trace, engine = world.play(once)
    assert session.verify([]).env_reward == 1.0 and len(trace.turns) == 2 and len(engine.requests) == 3


def test_session_has_its_turns_but_no_reward_when_the_engine_is_gone(world: World) -> None:
    answer = talking(WORDS, script(*solution()))
    with serving(lambda body: answer(body) if not len(engine.requests) > 1 else (500, {})) as engine:
        factory = world.factory(engine)
        factory.policy.completions.attempts = 1
        session = factory.create(TASK)
        assert session.wait_for_completion() == VOID
        verified = session.verify([])
        assert verified.env_reward is None and "answered 500" in verified.artifacts["problem"]
        assert turn_texts(session.fetch_training_trace()) == [solution()[0] + END]


def test_session_has_its_turns_but_no_reward_when_the_connection_is_lost(world: World) -> None:
    answer = talking(WORDS, script(*solution()))

    def lose(body: Any) -> Any:
        if len(engine.requests) == 2:
            session._sessions.run(session._episode._client._socket.connection.close())
        return answer(body)

    with serving(lose) as engine:
        session = world.factory(engine).create(TASK)
        assert session.wait_for_completion() == VOID
        assert turn_texts(session.fetch_training_trace()) == [text + END for text in solution()]
    assert session.verify([]).env_reward is None


def test_session_has_no_turns_or_reward_when_the_machine_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def reset(client: Any, **arguments: Any) -> Any:
        raise ServerInfrastructureError("infrastructure: no space left")

    monkeypatch.setattr(Client, "reset", reset)
    session = world.factory().create(TASK)
    assert session.wait_for_completion() == VOID
    assert session.fetch_training_trace().turns == [] and session.verify([]).env_reward is None


@pytest.mark.parametrize("where", ["first turn", "second turn"])
def test_timeout_keeps_the_turns_and_grades_the_episode_as_it_is(world: World, where: str) -> None:
    answer, over = talking(WORDS, script(*solution())), threading.Event()
    answered = 0 if where == "first turn" else 1

    def slow(body: Any) -> Any:
        if len(engine.requests) > answered:
            over.wait()
        return answer(body)

    with serving(slow) as engine:
        factory = world.factory(engine, timeout_s=3.0)
        factory.policy.chat()  # loads the tokenizer before the time limit starts
        session = factory.create(TASK)
        with pytest.raises(TimeoutError):
            session.wait_for_completion()
        assert len(session.fetch_training_trace().turns) == answered
        verified = session.verify([])
        over.set()
    assert (verified.env_reward, verified.metrics["turns"], verified.artifacts["end"]) == (0.0, answered, "submit")


def test_closing_a_session_ends_the_wait_for_it(world: World) -> None:
    reached, over = threading.Event(), threading.Event()

    def hang(body: Any) -> Any:
        reached.set()
        over.wait()
        return completion(body, [1])

    ended: queue.Queue[int] = queue.Queue()
    with serving(hang) as engine:
        session = world.factory(engine).create(TASK)
        waiting = threading.Thread(target=lambda: ended.put(session.wait_for_completion()))
        waiting.start()
        reached.wait()
        session.close()
        waiting.join()
        over.set()
    assert ended.get() == VOID and session.verify([]).env_reward is None
    assert session.fetch_training_trace().turns == []


def test_closing_the_factory_ends_the_wait_for_its_sessions(world: World) -> None:
    reached, over = threading.Event(), threading.Event()

    def hang(body: Any) -> Any:
        reached.set()
        over.wait(60)
        return completion(body, [1])

    ended: queue.Queue[int] = queue.Queue()
    with serving(hang) as engine:
        factory = world.factory(engine)
        session = factory.create(TASK)
        threading.Thread(target=lambda: ended.put(session.wait_for_completion()), daemon=True).start()
        assert reached.wait(60)
        try:
            factory.close()
            assert ended.get(timeout=20) == VOID
        finally:
            over.set()
    assert session.verify([]).env_reward is None and session.fetch_training_trace().turns == []
    session.close()


def test_closed_session_is_not_played(world: World) -> None:
    session = world.factory().create(TASK)
    session.close()
    assert session.wait_for_completion() == VOID
    assert session.fetch_training_trace().turns == [] and session.verify([]).env_reward is None


# --- mistakes in the set-up -------------------------------------------------------------------------------------


def without_ids(body: Any) -> Any:
    reply = completion(body, [1])
    del reply["choices"][0]["token_ids"]
    return reply


def test_trace_reports_a_server_without_token_ids(world: World) -> None:
    with pytest.raises(ValueError, match="returned no token ids; use vLLM 0.10.2 or newer") as caught:
        world.play(without_ids)
    assert "\n" not in str(caught.value)


def test_trace_reports_a_missing_tokenizer(world: World, tmp_path: Path) -> None:
    session = world.factory(tokenizer=str(tmp_path / "none")).create(TASK)
    assert session.wait_for_completion() == REFUSED and session.verify([]).env_reward is None
    with pytest.raises(ValueError, match="cannot load a tokenizer from .*name the folder or the model") as caught:
        session.fetch_training_trace()
    assert "\n" not in str(caught.value)


def test_trace_reports_a_missing_template(world: World, tmp_path: Path) -> None:
    tokenizer("qwen3-2507", "").save_pretrained(tmp_path)
    session = world.factory(tokenizer=str(tmp_path)).create(TASK)
    assert session.wait_for_completion() == REFUSED
    with pytest.raises(ValueError, match="no chat template"):
        session.fetch_training_trace()


def test_bad_address_is_refused_before_any_episode(world: World) -> None:
    with pytest.raises(LLMError, match="not an endpoint's address"):
        world.factory(policy_url="localhost")


# --- through TRL -------------------------------------------------------------------------------------------------


def worker(world: World, engine: Engine, **options: Any) -> Worker:
    arguments = {"policy_url": engine.url, "model": "served", "tokenizer": world.tokenizer_folder, **options}
    return Worker(
        harness_session_factory=functools.partial(OwnedSessionFactory, world.url, **arguments),
        dataset=Dataset.from_list(harness_rows([{"task_id": TASK}])),
    )


def test_trls_worker_plays_and_scores_a_group(world: World) -> None:
    first = threading.Lock()

    def turn(text: str) -> str:
        """Let one of the four err first, with two calls of which one is known."""
        if not number(text) and first.acquire(blocking=False):
            return say("no_such_tool", {}) + "\n" + solution()[0]
        return solution()[min(number(text), 1)]

    with serving(talking(WORDS, turn)) as engine:
        played = worker(world, engine)
        samples = played.group()
        played.loop._factory.close()
    assert len(samples) == 4 and {sample.metrics["reward"] for sample in samples} == {1.0}
    assert {sample.metrics["rewards/harness_reward"] for sample in samples} == {1.0}
    for sample in samples:
        text = WORDS.decode(sample.input_ids[sample.completion_mask == 1])
        assert text.endswith(solution()[1] + END) and "<tool_response>" not in text
        assert ((sample.old_log_probs != 0) == (sample.completion_mask == 1)).all()
    counted: dict[str, float] = {}
    while not played.metrics.empty():
        for name, value in played.metrics.get().items():
            if name.startswith("tools/") and not isinstance(value, tuple):
                counted[name] = counted.get(name, 0) + value
    assert counted["tools/no_such_tool/call_total"] == counted["tools/no_such_tool/failure_total"] == 1
    assert counted["tools/submit/call_total"] >= 4


def test_trls_worker_stops_when_the_server_returns_no_token_ids(world: World) -> None:
    with serving(without_ids) as engine:
        played = worker(world, engine)
        with pytest.raises(CaptureContractError, match="returned no token ids"):
            played.group()
        played.loop._factory.close()


def test_factory_plays_in_a_spawned_process(world: World) -> None:
    from helpers.harnesses import play_alone

    with serving(talking(WORDS, script(*solution()))) as engine:
        arguments = {
            "policy_url": engine.url,
            "model": "served",
            "tokenizer": world.tokenizer_folder,
            "max_turn_ids": 400,
        }
        new_factory = functools.partial(OwnedSessionFactory, world.url, sampling={"temperature": 0.5}, **arguments)
        again = pickle.loads(pickle.dumps(world.factory(engine, max_turn_ids=400)))
        assert (again.url, again.max_turn_ids) == (world.url, 400)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            result = pool.apply(play_alone, (new_factory, TASK))
    assert result == (PLAYED, 1.0, ["spawned:0", "spawned:1"])
    assert {body["max_tokens"] for body in engine.requests} == {400}
