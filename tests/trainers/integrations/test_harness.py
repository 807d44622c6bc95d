"""Tests of our ResourceSessionFactory with OpenEnv's own harness code, and with TRL's worker without vLLM."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from datasets import Dataset
from helpers.completions_engine import END, say
from helpers.rollout_worker import Worker, white_box
from helpers.scripted_policy import TASKS
from openenv.core.harness import (
    CLIHarnessAdapter,
    HarnessRolloutResult,
    HarnessRunLimits,
    MCPHarnessAdapter,
    ModelStepResult,
    ResourceSession,
    ResourceSessionFactory,
    build_harness_rollout_func,
)
from openenv.core.llm_client import LLMResponse, ToolCall

from etude.client import connect
from etude.errors import ServerFull
from etude.trainers.integrations.harness import EtudeSessionFactory, harness_rows

LIMIT = 4
TASK = TASKS.list_tasks("train")[0].task_id


def solution() -> list[tuple[str, Any]]:
    drill = TASKS.drill(TASK)
    return [*drill.solution(), ("submit", {"answer": drill.answer})]


class Script:
    """ModelStep of scripted turns, each a list of calls; after the last turn it writes words alone."""

    def __init__(self, turns: Sequence[Sequence[tuple[str, Any]]]) -> None:
        self.turns, self.number = list(turns), 0

    def __call__(self, messages: Any, tools: Any, sampling: Any) -> ModelStepResult:
        calls = self.turns[self.number] if self.number < len(self.turns) else []
        self.number += 1
        tool_calls = [
            ToolCall(id=f"t{self.number}_{place}", name=name, args=arguments)
            for place, (name, arguments) in enumerate(calls)
        ]
        return ModelStepResult(LLMResponse("said", tool_calls), [1, 2], [3], [-0.5])


@pytest.fixture
def factory(drill_url: str) -> Any:
    factory = EtudeSessionFactory(drill_url, system="Be brief.")
    yield factory
    factory.close()


def run(factory: Any, *turns: Sequence[tuple[str, Any]]) -> tuple[HarnessRolloutResult, Any]:
    session = factory.create(harness_rows([{"task_id": TASK}])[0]["prompt"], seed=0)
    result = MCPHarnessAdapter().run_white_box(Script(turns), session, HarnessRunLimits(max_turns=8))
    verified = session.verify(result.messages)
    session.close()
    return result, verified


def test_factory_and_session_implement_openenvs_interfaces(factory: Any) -> None:
    session = factory.create(TASK)
    assert isinstance(factory, ResourceSessionFactory) and isinstance(session, ResourceSession)
    with connect(factory.url) as client:
        first = client.reset(task_id=TASK)
    assert session.initial_messages() == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": first.prompt},
    ]
    listed = [
        {"name": t.name, "description": t.description, "parameters": t.input_schema} for t in session.list_tools()
    ]
    assert listed == [tool["function"] for tool in first.tools or []]
    session.close()
    session.close()


def test_openenvs_white_box_loop_solves_a_drill(factory: Any) -> None:
    result, verified = run(factory, *([call] for call in solution()))
    assert (verified.env_reward, verified.done, result.done) == (1.0, True, True)
    assert [entry.result.done for entry in result.tool_trace] == [False, True]
    assert [entry.result.metadata for entry in result.tool_trace] == [{}, {"reward": 1.0}]
    assert verified.metrics["error_turns"] == 0 and verified.metrics["turns"] == 2
    assert verified.artifacts["end"] == "submit"


def test_verify_counts_error_turns_and_places_them_in_the_transcript(factory: Any) -> None:
    ((name, arguments), submit) = solution()
    result, verified = run(factory, [(name, arguments), ("no_such_tool", {})], [(name, {"x": 1})], [submit])
    errors = verified.artifacts["error_turns"]
    assert verified.env_reward == 1.0 and verified.metrics["error_turns"] == 2
    assert [(error["kind"], error["turn"]) for error in errors] == [("tool_not_found", 1), ("invalid_args", 2)]
    assert [result.messages[error["message"]]["role"] for error in errors] == ["assistant"] * 2
    assert [error["message"] for error in errors] == [2, 5] and all(error["hints"] for error in errors)
    failed = [entry.result.error for entry in result.tool_trace]
    assert failed[0] is None and "tool_not_found" in failed[1] and "invalid_args" in failed[2] and failed[3] is None
    shown = " ".join(str(message.get("content")) for message in result.messages)
    assert not any(hint["text"] in shown for error in errors for hint in error["hints"])


def test_verify_grades_an_episode_that_was_not_submitted(factory: Any) -> None:
    result, verified = run(factory, [solution()[0]])
    assert (verified.env_reward, verified.done, verified.artifacts["end"]) == (0.0, True, "submit")


def test_verify_has_no_reward_when_the_session_is_lost(factory: Any) -> None:
    session = factory.create(TASK)
    factory.sessions.run(session._episode._client._socket.connection.close())
    result = session.call_tool(*solution()[0])
    verified = session.verify([])
    session.close()
    assert result.done and str(result.error).startswith("not run: ")
    assert verified.env_reward is None and verified.metrics["valid"] is False
    assert "closed the session" in verified.artifacts["problem"]


def test_openenvs_rollout_function_plays_for_trl(factory: Any) -> None:
    function = build_harness_rollout_func(
        session_factory=factory,
        harness_adapter=MCPHarnessAdapter(),
        model_step_builder=lambda trainer, session: Script([[call] for call in solution()]),
    )
    batch = function([TASK, {"task_id": TASK}], None)
    assert batch["env_reward"] == [1.0, 1.0] and batch["completion_ids"] == [[3, 3]] * 2
    assert [metrics["error_turns"] for metrics in batch["verify_metrics"]] == [0, 0]


def test_openenvs_black_box_bridge_solves_a_drill(factory: Any) -> None:
    def runner(bridge: Any, session: Any, limits: Any) -> HarnessRolloutResult:
        for name, arguments in solution():
            call = {"name": name, "arguments": arguments}
            answer = bridge.handle_request({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
            assert answer["result"]["error"] is None
        return HarnessRolloutResult(done=True)

    session = factory.create(TASK)
    assert CLIHarnessAdapter(runner).run_black_box(session).done
    assert session.verify([]).env_reward == 1.0
    session.close()


def test_group_plays_one_task(factory: Any) -> None:
    """The prompt is empty, and the seed is the number of TRL's group."""
    empty = [{"role": "user", "content": ""}]
    sessions = [factory.create(empty, seed=seed, episode_id=f"g{place}") for place, seed in enumerate([3, 3, 4])]
    prompts = [session.initial_messages()[-1]["content"] for session in sessions]
    assert prompts[0] == prompts[1] != prompts[2]
    for session in sessions:
        session.close()


def test_create_waits_for_another_episode_when_the_server_is_full(limited_url: str) -> None:
    """Without the wait TRL's worker would score the episode as unscorable, and begin the next one."""
    factory = EtudeSessionFactory(limited_url)
    sessions = [factory.create(TASK) for _ in range(LIMIT)]
    with ThreadPoolExecutor() as pool:
        more = [pool.submit(factory.create, TASK) for _ in range(2)]
        sessions[0].verify([])
        sessions[1].close()
        for waiting in more:
            assert waiting.result().initial_messages()
            waiting.result().close()
    assert factory.create(TASK).initial_messages()
    factory.close()


def test_create_does_not_wait_for_the_sessions_of_others(limited_url: str) -> None:
    other, factory = EtudeSessionFactory(limited_url), EtudeSessionFactory(limited_url)
    sessions = [other.create(TASK) for _ in range(LIMIT)]
    with pytest.raises(ServerFull):
        factory.create(TASK)
    assert len(sessions) == LIMIT
    other.close()


def test_create_refuses_a_prompt_without_a_task(factory: Any) -> None:
    with pytest.raises(ValueError, match="must be the arguments of a reset as JSON"):
        factory.create([{"role": "user", "content": "Fix the bug."}])


def test_factory_plays_in_a_spawned_process(drill_url: str) -> None:
    from helpers.harnesses import play

    new_factory = functools.partial(EtudeSessionFactory, drill_url)
    assert pickle.loads(pickle.dumps(new_factory())).url == drill_url
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.apply(play, (new_factory, TASK, solution()))
    assert result == (1.0, "spawned", [False, True])


def test_trls_worker_generates_and_scores_a_group(drill_url: str) -> None:
    first = threading.Lock()

    def turn(text: str) -> str:
        number = text.count("<tool_response>")
        if not number and first.acquire(blocking=False):
            return say("no_such_tool", {})
        return say(*solution()[min(number - ("there is no tool" in text), 1)])

    worker = Worker(turn, **white_box(drill_url, TASK))
    samples = worker.group()
    assert len(samples) == 4 and {sample.metrics["reward"] for sample in samples} == {1.0}
    assert {sample.metrics["rewards/harness_reward"] for sample in samples} == {1.0}
    for sample in samples:
        trained = worker.words.decode(sample.input_ids[sample.completion_mask == 1])
        assert trained.endswith(say(*solution()[1]) + END) and "<tool_response>" not in trained
        assert ((sample.old_log_probs != 0) == (sample.completion_mask == 1)).all()
    assert sum("no_such_tool" in worker.words.decode(s.input_ids[s.completion_mask == 1]) for s in samples) == 1


def test_trls_worker_keeps_a_lost_session_out_of_the_baseline(drill_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from etude.trainers.integrations import harness

    first = threading.Lock()
    real = harness.EtudeSession.call_tool

    def call_tool(session: Any, name: str, arguments: Any) -> Any:
        if first.acquire(blocking=False):
            session._sessions.run(session._episode._client._socket.connection.close())
        return real(session, name, arguments)

    monkeypatch.setattr(harness.EtudeSession, "call_tool", call_tool)
    worker = Worker(lambda text: say(*solution()[min(text.count("<tool_response>"), 1)]), **white_box(drill_url, TASK))
    rewards = [sample.metrics["reward"] for sample in worker.group()]
    assert sorted(map(str, rewards)) == ["1.0", "1.0", "1.0", "nan"]


def test_trls_asynchronous_loop_plays_an_environment_factory(drill_url: str) -> None:
    """AsyncGRPO samples its own turns, over the factory that GRPOTrainer takes."""
    from trl.experimental.async_grpo.async_rollout_worker import _AsyncRolloutLoop

    from etude.trainers.integrations.environment import environment_factory

    factory = environment_factory(drill_url, tasks=[TASK])
    options = {"environment_factory": pickle.loads(pickle.dumps(factory)), "dataset": Dataset.from_list(factory.rows())}
    worker = Worker(lambda text: answered(text.count("<tool_response>")), kind=_AsyncRolloutLoop, **options)
    samples = worker.group()
    assert [sample.metrics["rewards/EtudeEnvironment"] for sample in samples] == [1.0] * 4
    options["environment_factory"].close()


def answered(number: int) -> str:
    return say(*solution()[number]) if number < 2 else "Done."
