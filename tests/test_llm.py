"""LLM client: replies, retries, refusals, concurrency, budget and cassettes, against a local HTTP endpoint."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from etude.errors import (
    BudgetSpent,
    CassetteMiss,
    ContextFull,
    EndpointFailed,
    EndpointRefused,
    EndpointUnavailable,
    LLMError,
)
from etude.llm import LLM, Budget, Cassette, Price, Reply, key_from

HELLO = [{"role": "user", "content": "hello"}]


@contextmanager
def client_of(endpoints: Any, *answers: Any, **options: Any) -> Iterator[tuple[LLM, Any, list[float]]]:
    """Yield a client whose requests get ``answers`` in order (the last one repeats), its endpoint and its pauses."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    with endpoints.serving(lambda number, body: answers[min(number, len(answers) - 1)]) as endpoint:
        yield LLM("m", endpoint.url, **{"sleep": sleep, **options}), endpoint, pauses


def chat(llm: LLM, count: int = 1, **options: Any) -> list[Any]:
    """Return the replies and errors of ``count`` calls at the same time."""

    async def ask() -> list[Any]:
        async with llm:
            return await asyncio.gather(*(llm.chat(HELLO, **options) for _ in range(count)), return_exceptions=True)

    return asyncio.run(ask())


def test_reply_is_the_message_as_the_endpoint_sent_it(endpoints: Any) -> None:
    call = endpoints.call("bash", '{"command": ')
    with client_of(endpoints, endpoints.say("hi", call, usage=(7, 3)), price=Price(1.0, 2.0), api_key="k1") as (
        llm,
        server,
        _,
    ):
        [reply] = chat(llm, tools=[{"type": "function"}], temperature=0.5)
    assert isinstance(reply, Reply)
    assert reply.message == {"role": "assistant", "content": "hi", "tool_calls": [call]}
    assert (reply.finish_reason, reply.prompt_tokens, reply.completion_tokens, reply.estimated) == ("stop", 7, 3, False)
    assert reply.usd == pytest.approx(13e-6)
    sent = {"model": "m", "messages": HELLO, "max_tokens": 4096, "tools": [{"type": "function"}], "temperature": 0.5}
    assert server.requests == [sent]
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["authorization"] == "Bearer k1"


def test_chat_tries_again_after_temporary_failures(endpoints: Any) -> None:
    bad = [endpoints.fail(500), endpoints.RESET, endpoints.GARBAGE, endpoints.EMPTY, endpoints.TRUNCATED]
    with client_of(endpoints, *bad, endpoints.say("at last"), attempts=6) as (llm, _, pauses):
        [reply] = chat(llm)
    assert reply.message["content"] == "at last"
    assert (llm.usage.calls, llm.usage.retries, llm.usage.unanswered) == (1, 5, 4)
    assert all(low <= pause <= 2 * low for low, pause in zip((0.25, 0.5, 1, 2, 4), pauses, strict=True))


@pytest.mark.parametrize("name", ["STALL", "DRIP"])
def test_chat_gives_up_in_time_when_the_endpoint_stalls(name: str, endpoints: Any) -> None:
    with client_of(endpoints, getattr(endpoints, name), timeout_s=0.3, attempts=2) as (llm, _, _):
        [error] = chat(llm)
    assert isinstance(error, EndpointUnavailable)
    assert "did not answer within 0.3 s (attempt 2 of 2)" in str(error)


def test_chat_waits_as_long_as_the_endpoint_asks(endpoints: Any) -> None:
    date = formatdate(1.0, usegmt=True)
    answers = [endpoints.fail(429, Retry_After=text) for text in ("7", "0.5", date)]
    with client_of(endpoints, *answers, endpoints.say("hi")) as (llm, _, pauses):
        [reply] = chat(llm)
    assert isinstance(reply, Reply)
    assert pauses == [7.0, 0.5, 0.0]
    assert llm.usage.unanswered == 0


def test_chat_chooses_the_pause_when_the_endpoint_names_no_number(endpoints: Any) -> None:
    answers = [endpoints.fail(503, Retry_After=text) for text in ("soon", "nan")]
    with client_of(endpoints, *answers, endpoints.say("hi")) as (llm, _, pauses):
        chat(llm)
    assert [0.25 <= pauses[0] <= 0.5, 0.5 <= pauses[1] <= 1.0] == [True, True]


def test_chat_gives_up_when_the_endpoint_asks_for_an_hour(endpoints: Any) -> None:
    with client_of(endpoints, endpoints.fail(429, Retry_After="3600")) as (llm, server, pauses):
        [error] = chat(llm)
    assert isinstance(error, EndpointUnavailable) and "asks to wait 3600 s, more than 60" in str(error)
    assert (len(server.requests), pauses) == (1, [])


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "check the key (--api-key-env"),
        (404, "check --base-url"),
        (302, "check --base-url"),
        (429, "no credit left"),
    ],
)
def test_chat_is_refused_at_once_in_one_line_when_a_setting_is_wrong(status: int, words: str, endpoints: Any) -> None:
    text = "insufficient_quota" if status == 429 else "no\n\nsuch sk-secret"
    with client_of(endpoints, endpoints.fail(status, text), api_key="sk-secret") as (llm, server, _):
        [error] = chat(llm)
    assert isinstance(error, EndpointRefused)
    assert words in str(error)
    assert "\n" not in str(error)
    assert "sk-secret" not in str(error) + repr(llm)
    assert len(server.requests) == 1


def test_bad_request_fails_alone_when_others_are_answered(endpoints: Any) -> None:
    with client_of(endpoints, endpoints.say("hi"), endpoints.fail(400, "odd arguments")) as (llm, _, _):
        [_] = chat(llm)
        [error] = chat(llm)
    assert type(error) is EndpointFailed


def test_chat_is_refused_when_every_request_is_bad(endpoints: Any) -> None:
    with client_of(endpoints, endpoints.fail(400, "unknown option"), concurrency=2) as (llm, _, _):
        errors = chat(llm, 2) + chat(llm, 1)
    assert [type(error) for error in errors] == [EndpointFailed, EndpointFailed, EndpointRefused]
    assert str(errors[2]).endswith('"unknown option"}}; the 2 requests before it failed the same way')


def test_chat_raises_context_full_when_messages_are_too_long(endpoints: Any) -> None:
    with client_of(endpoints, endpoints.fail(400, "This model's maximum context length is 8192 tokens")) as (llm, _, _):
        [error] = chat(llm)
    assert isinstance(error, ContextFull)


def test_chat_uses_max_completion_tokens_after_the_endpoint_asks_for_it(endpoints: Any) -> None:
    bad = endpoints.fail(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    with client_of(endpoints, bad, endpoints.say("hi"), max_tokens=9) as (llm, server, _):
        chat(llm)
        chat(llm)
    assert [body.get("max_completion_tokens") for body in server.requests] == [None, 9, 9]
    assert "max_tokens" not in server.requests[2]


def test_error_names_the_endpoint_when_nothing_listens(endpoints: Any) -> None:
    with endpoints.serving(lambda number, body: endpoints.STALL) as gone:
        pass
    llm = LLM("m", gone.url.replace("//", "//user:word@"), attempts=1)
    [error] = chat(llm)
    assert f"cannot connect to the endpoint {gone.url}" in str(error)
    assert llm.usage.unanswered == 0


def test_chat_runs_no_more_calls_at_once_than_allowed(endpoints: Any) -> None:
    with client_of(endpoints, endpoints.STALL, concurrency=3, timeout_s=0.3, attempts=1) as (llm, server, _):
        chat(llm, 6)
    assert (server.most_at_once, len(server.requests)) == (3, 6)


@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": -5, "completion_tokens": 2}, {"prompt_tokens": True}, "many"]
)
def test_reply_costs_its_bytes_when_the_endpoint_sends_no_counts(usage: Any, endpoints: Any) -> None:
    with client_of(endpoints, endpoints.say("x" * 100, usage=usage)) as (llm, _, _):
        [reply] = chat(llm)
    assert reply.estimated
    assert 100 < reply.completion_tokens < 200
    assert reply.prompt_tokens > len("hello")
    assert llm.usage.estimated == 1


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize("budget", [Budget(tokens=1000), Budget(usd=0.003)])
def test_budget_is_exceeded_by_one_call_at_most(budget: Budget, concurrency: int, endpoints: Any) -> None:
    answer = endpoints.say("hi", usage=(90, 40))
    options = {"budget": budget, "price": Price(3.0, 3.0), "max_tokens": 40, "concurrency": concurrency}
    with client_of(endpoints, answer, **options) as (llm, server, _):
        replies = chat(llm, 64)
    assert llm.usage.prompt_tokens + llm.usage.completion_tokens == 130 * 8  # 7 calls leave 90: one more may run
    assert sum(isinstance(reply, Reply) for reply in replies) == len(server.requests) == 8
    assert all(isinstance(reply, (Reply, BudgetSpent)) for reply in replies)


def test_budget_charges_unanswered_attempts_in_full(endpoints: Any) -> None:
    with client_of(
        endpoints, endpoints.STALL, timeout_s=0.1, attempts=100, budget=Budget(tokens=500), max_tokens=100
    ) as client:
        llm, server, _ = client
        [error] = chat(llm)
    assert isinstance(error, BudgetSpent)
    assert len(server.requests) == llm.usage.unanswered <= 4


def test_calls_run_alone_after_a_reply_beyond_its_bound(endpoints: Any) -> None:
    answers = (endpoints.say("hi", usage=(10, 5000)), endpoints.say("hi", usage=(10, 5000)))
    with client_of(endpoints, *answers, budget=Budget(tokens=12_000), max_tokens=5, concurrency=16) as (llm, server, _):
        [_] = chat(llm)
        server.most_at_once = 0
        chat(llm, 16)
    assert server.most_at_once == 1
    assert llm.usage.completion_tokens == 15_000


def test_budget_stays_usable_when_a_call_is_cancelled(endpoints: Any) -> None:
    arrived = threading.Event()

    def script(number: int, body: dict[str, Any]) -> Any:
        arrived.set()
        return endpoints.say("hi") if number else endpoints.STALL

    with endpoints.serving(script) as server:
        llm = LLM("m", server.url, budget=Budget(tokens=600), max_tokens=100)

        async def cancel_then_ask() -> Reply:
            async with llm:
                stuck = asyncio.ensure_future(llm.chat(HELLO))
                await asyncio.to_thread(arrived.wait, 30)
                stuck.cancel()
                await asyncio.wait({stuck})
                return await llm.chat(HELLO)

        assert asyncio.run(cancel_then_ask()).message["content"] == "hi"


def test_budget_in_usd_is_refused_without_a_price() -> None:
    with pytest.raises(LLMError, match="give --price IN,OUT"):
        LLM("m", budget=Budget(usd=1.0))


def test_cassette_answers_without_an_endpoint(endpoints: Any, tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    first, second = endpoints.say("first", usage=(8, 2)), endpoints.say("second", usage=(8, 3))
    with client_of(endpoints, first, second, cassette=Cassette(path, record=True), api_key="sk-1") as (llm, _, _):
        chat(llm)
        chat(llm)
    assert "sk-1" not in path.read_text()
    replayed = LLM("m", "http://127.0.0.1:1/v1", cassette=Cassette(path))
    assert replayed.holds(HELLO) and not replayed.holds(HELLO * 2)
    texts = [chat(replayed)[0].message["content"] for _ in range(2)]
    assert texts == ["first", "second"] and not replayed.holds(HELLO)
    assert (replayed.usage.calls, replayed.usage.completion_tokens) == (2, 5)
    [missed] = chat(replayed)
    [other] = chat(LLM("m", "http://127.0.0.1:1/v1", cassette=Cassette(path)), temperature=1.0)
    assert isinstance(missed, CassetteMiss)
    assert isinstance(other, CassetteMiss)


def test_cassette_is_named_when_it_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text("[]\n")
    for name in ("odd.jsonl", "none.jsonl"):
        with pytest.raises(LLMError, match=f"{name} cannot be read .*: record it again"):
            Cassette(tmp_path / name)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://h/v1", "http://", "http://h:port/v1"])
def test_client_is_refused_when_the_address_is_not_http(url: str) -> None:
    with pytest.raises(LLMError, match="not an endpoint's address"):
        LLM("m", url)


def test_address_may_contain_the_path_of_the_call() -> None:
    assert LLM("m", "http://h/v1/chat/completions/").base_url == "http://h/v1"


def test_key_is_needed_unless_the_endpoint_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    assert key_from("SOME_KEY", "http://127.0.0.1:8000/v1") == ""
    with pytest.raises(EndpointRefused, match="SOME_KEY is not set: put the key for https://h.example/v1 there"):
        key_from("SOME_KEY", "https://h.example/v1")
    monkeypatch.setenv("SOME_KEY", " k \n")
    assert key_from("SOME_KEY", "https://h.example/v1") == "k"
