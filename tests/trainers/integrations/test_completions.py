"""Tests of the sampler over HTTP, against a scripted server with vLLM's ``/v1/completions``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.completions_engine import END, completion, number, say, serving, talking
from helpers.scripted_policy import TASKS
from helpers.tokenizer_factory import tokenizer

from etude.client import Client
from etude.errors import EndpointFailed, EndpointRefused, LLMError
from etude.trainers.integrations.completions import WHOLE, Completions
from etude.trainers.rollouts.rollout import Rollout, Sample, rollout

TASK = TASKS.list_tasks("train")[0].task_id
NOWHERE = "http://127.0.0.1:9"


def sampled(completions: Completions, *prompts: Sequence[int], room: int = 8) -> list[Sample]:
    async def sample_all() -> list[Sample]:
        try:
            return [await completions.sample(ids, room) for ids in prompts]
        finally:
            await completions.close()

    return asyncio.run(sample_all())


def patient(waits: list[float], url: str, **options: Any) -> Completions:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return Completions(url, "served", sleep=sleep, **options)


def test_sample_returns_ids_with_their_logprobs() -> None:
    with serving(lambda body: completion(body, [*body["prompt"], 7, 99])) as engine:
        (sample,) = sampled(Completions(f"{engine.url}/v1/", "served", stops={99, 4}), (5, 6), room=3)
    assert sample == Sample([5, 6, 7], [-0.125, -0.25, -0.375])
    (body,) = engine.requests
    assert (body["prompt"], body["model"], body["max_tokens"], body["n"]) == ([5, 6], "served", 3, 1)
    assert (body["return_token_ids"], body["logprobs"], body["stop_token_ids"]) == (True, 0, [4, 99])


def test_request_states_every_sampling_parameter_and_the_callers_override() -> None:
    with serving(lambda body: completion(body, [1])) as engine:
        sampled(Completions(engine.url, "served", {"temperature": 0.7}), [5])
    assert {name: engine.requests[0][name] for name in WHOLE} == {**WHOLE, "temperature": 0.7}


def test_requests_have_different_seeds_that_repeat_with_the_samplers_seed() -> None:
    with serving(lambda body: completion(body, [1])) as engine:
        for seed in (3, 3, None, None):
            sampled(Completions(engine.url, "served", seed=seed), [5], [5])
    seeds = [body["seed"] for body in engine.requests]
    assert seeds[:2] == seeds[2:4] and len(set(seeds[2:])) == 6


@pytest.mark.parametrize("status", [500, 503, 429])
def test_sample_retries_after_a_transient_status(status: int) -> None:
    answers = iter([(status, {"error": {"message": "busy"}}), (status, {})])
    waits: list[float] = []
    with serving(lambda body: next(answers, completion(body, [1, 2]))) as engine:
        assert sampled(patient(waits, engine.url), [5])[0].ids == [1, 2]
    assert len(waits) == 2 and waits[0] < waits[1] and len({str(body) for body in engine.requests}) == 1


def test_sample_retries_a_turn_that_the_server_aborted() -> None:
    kinds = iter(["abort"])

    def answer(body: Any) -> Any:
        reply = completion(body, [1, 2])
        reply["choices"][0]["finish_reason"] = next(kinds, "stop")
        return reply

    waits: list[float] = []
    with serving(answer) as engine:
        assert sampled(patient(waits, engine.url), [5])[0].ids == [1, 2]
    assert len(waits) == 1


def test_sample_fails_after_the_last_attempt() -> None:
    waits: list[float] = []
    message = r"answered 500: .*on fire.* \(attempt 3 of 3\)"
    with serving(lambda body: (500, {"error": "on fire"})) as engine, pytest.raises(EndpointFailed, match=message):
        sampled(patient(waits, engine.url, attempts=3), [5])
    assert len(waits) == 2 and len(engine.requests) == 3


def test_sample_says_what_to_start_when_no_server_answers() -> None:
    with pytest.raises(EndpointFailed, match=r"127\.0\.0\.1:9 does not answer .*`vllm serve`.*attempt 2 of 2"):
        sampled(patient([], NOWHERE, attempts=2), [5])


def reply_without(*names: str) -> Any:
    def answer(body: Any) -> Any:
        reply = completion(body, [1, 2])
        for name in names:
            del reply["choices"][0][name]
        return reply

    return answer


def reply_with(**fields: Any) -> Any:
    def answer(body: Any) -> Any:
        reply = completion(body, [1, 2])
        reply["choices"][0].update(fields)
        return reply

    return answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply_without("token_ids"), "returned no token ids; use vLLM 0.10.2 or newer"),
        (reply_without("logprobs"), "returned 0 logprobs for 2 token ids"),
        (reply_with(logprobs={"token_logprobs": [-0.5]}), "returned 1 logprobs for 2 token ids"),
        (reply_with(logprobs={"token_logprobs": [-0.5, None]}), "returned 1 logprobs for 2 token ids"),
        (reply_with(prompt_token_ids=[0, 5]), r"read other ids than it was sent \(2 for 1\)"),
        (lambda body: (404, {"error": {"message": "no such model"}}), "is 'served' a name that its /v1/models lists"),
        (lambda body: (400, {"message": "maximum context length is 10"}), "set max_ids to no more than .*model-len"),
        (lambda body: (401, {"error": "Unauthorized"}), "answered 401: .*Unauthorized"),
    ],
)
def test_sample_refuses_in_one_line_what_another_attempt_would_repeat(answer: Any, message: str) -> None:
    waits: list[float] = []
    with serving(answer) as engine, pytest.raises(EndpointRefused, match=message) as caught:
        sampled(patient(waits, engine.url), [5])
    assert "\n" not in str(caught.value) and not waits


def test_sampling_cannot_set_what_each_request_sets() -> None:
    with pytest.raises(ValueError, match="sampling sets 'n', which each request sets for itself"):
        Completions(NOWHERE, "served", {"n": 2, "temperature": 1.0})


def test_bad_address_is_refused_at_once() -> None:
    with pytest.raises(LLMError, match="not an endpoint's address: 'localhost'"):
        Completions("localhost", "served")


def test_logprob_slightly_above_zero_is_zero() -> None:
    with serving(reply_with(logprobs={"token_logprobs": [1e-7, -0.0]})) as engine:
        assert sampled(Completions(engine.url, "served"), [5])[0].logprobs == [0.0, 0.0]


def test_rollout_needs_only_the_sampler_and_a_tokenizer(drill_url: str) -> None:
    words = tokenizer("qwen3-2507")
    drill = TASKS.drill(TASK)
    calls = [*drill.solution(), ("submit", {"answer": drill.answer})]

    async def played(url: str) -> Rollout:
        completions = Completions(url, "served")
        async with Client(drill_url) as client:
            done = await rollout({"task_id": TASK}, completions.chat(words), client)
        await completions.close()
        return done

    with serving(talking(words, lambda text: say(*calls[number(text)]))) as engine:
        done = asyncio.run(played(engine.url))
    assert done.reward.value == 1.0 and len(done.turns) == 2
    assert words.convert_tokens_to_ids(END) in engine.requests[0]["stop_token_ids"]
    assert [body["prompt"] for body in engine.requests] == [done.ids[: turn.start] for turn in done.turns]
