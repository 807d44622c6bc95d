"""Odd answers of endpoints: each becomes a reply that can be stored, or an error of one line."""

from __future__ import annotations

import asyncio
import json
import resource
import zlib
from pathlib import Path
from typing import Any

import pytest

from etude.errors import EndpointFailed, EndpointRefused
from etude.llm import LLM, Cassette, Price, Reply

HELLO = [{"role": "user", "content": "hello"}]


def chat(endpoints: Any, *answers: Any, **options: Any) -> tuple[Any, LLM, Any]:
    """Return the result of one call (a reply or its error), the client and the endpoint; pauses take no time."""

    async def ask(llm: LLM) -> Any:
        async with llm:
            [result] = await asyncio.gather(llm.chat(HELLO), return_exceptions=True)
        return result

    with endpoints.serving(lambda number, body: answers[min(number, len(answers) - 1)]) as endpoint:
        llm = LLM("m", endpoint.url, **{"attempts": 2, "sleep": lambda seconds: asyncio.sleep(0), **options})
        return asyncio.run(ask(llm)), llm, endpoint


def completion(endpoints: Any, message: str, **more: str) -> Any:
    """Return a completion with this JSON as its message and ``more`` as its other fields."""
    fields = "".join(f', "{name}": {value}' for name, value in more.items())
    return endpoints.Answer(body=f'{{"choices": [{{"message": {message}}}]{fields}}}'.encode())


def test_reply_has_no_lone_surrogates_and_no_bottomless_nesting(endpoints: Any) -> None:
    odd = '{"content": "a\\ud800b", "\\udfff": ["\\ud801"], "deep": ' + '{"a":' * 400 + "1" + "}" * 401
    reply, _, _ = chat(endpoints, completion(endpoints, odd))
    assert isinstance(reply, Reply)
    assert (reply.message["content"], reply.message["?"]) == ("a?b", ["?"])
    assert '"(nested too deep)"' in json.dumps(reply.message, ensure_ascii=False).encode().decode()


def test_reply_has_an_empty_finish_reason_when_the_endpoint_sends_an_object(endpoints: Any) -> None:
    answer = json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": {"a": 1}}]})
    reply, _, _ = chat(endpoints, endpoints.Answer(body=answer.encode()))
    assert reply.finish_reason == ""


@pytest.mark.parametrize("count", ["1" + "0" * 400, str(2**53), "1e400"])
def test_reply_is_estimated_when_a_token_count_is_absurd(count: str, endpoints: Any) -> None:
    answer = completion(endpoints, '{"content": "x"}', usage=f'{{"prompt_tokens": {count}, "completion_tokens": 1}}')
    reply, llm, _ = chat(endpoints, answer, price=Price(1.0, 1.0))
    assert isinstance(reply, Reply)
    assert reply.estimated
    assert 0 < llm.usage.usd < 1


def test_cassette_replays_line_separators_and_surrogates(endpoints: Any, tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    odd = '{"content": "line\\u2028line\\u0085line \\ud800"}'
    chat(endpoints, completion(endpoints, odd), cassette=Cassette(path, record=True))
    replayed, _, endpoint = chat(endpoints, endpoints.GARBAGE, cassette=Cassette(path))
    assert replayed.message["content"] == "line\u2028line\u0085line ?"
    assert endpoint.requests == []


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br", "x-odd"])
def test_encoded_answer_is_refused_before_it_is_unpacked(encoding: str, endpoints: Any) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    packed = endpoints.Answer(body=zlib.compress(data, 9, 31), headers={"Content-Encoding": encoding})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error, llm, endpoint = chat(endpoints, packed)
    assert isinstance(error, EndpointFailed)
    assert f"encoded as {encoding}, although the request forbids encodings" in str(error)
    assert (len(endpoint.requests), llm.usage.unanswered) == (2, 2)
    assert endpoint.headers[0]["accept-encoding"] == "identity"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10  # KiB


def test_encoded_refusal_is_still_a_refusal(endpoints: Any) -> None:
    error, _, endpoint = chat(endpoints, endpoints.fail(401, "bad key", Content_Encoding="gzip"))
    assert isinstance(error, EndpointRefused)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    "date", ["Mon, 01 Jan 2020 00:00:00 +9999999999999999", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"]
)
def test_client_chooses_the_pause_when_the_endpoint_names_an_absurd_date(date: str, endpoints: Any) -> None:
    reply, llm, _ = chat(endpoints, endpoints.fail(429, Retry_After=date), endpoints.say("hi"))
    assert isinstance(reply, Reply)
    assert llm.usage.retries == 1


def test_error_text_has_no_control_characters_of_the_endpoint(endpoints: Any) -> None:
    error, _, _ = chat(endpoints, endpoints.Answer(status=400, body=b"\x1b[31mred\x00\x07 \xe2\x80\xae txt"))
    assert str(error).isprintable()
    assert "\ufffd[31mred" in str(error)


def test_chat_is_refused_in_one_line_when_the_host_name_is_invalid() -> None:
    async def ask() -> None:
        async with LLM("m", "http://xn--/v1") as llm:
            await llm.chat(HELLO)

    with pytest.raises(EndpointRefused, match="cannot send requests to .*check --base-url"):
        asyncio.run(ask())
