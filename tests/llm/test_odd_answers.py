"""What an endpoint may answer: whatever it is, a reply that can be stored or an error of one line."""

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
    """What one call comes to (a reply or its error), the client and the endpoint; pauses take no time."""

    async def ask(llm: LLM) -> Any:
        async with llm:
            [result] = await asyncio.gather(llm.chat(HELLO), return_exceptions=True)
        return result

    with endpoints.serving(lambda number, body: answers[min(number, len(answers) - 1)]) as endpoint:
        llm = LLM("m", endpoint.url, **{"attempts": 2, "sleep": lambda seconds: asyncio.sleep(0), **options})
        return asyncio.run(ask(llm)), llm, endpoint


def written(endpoints: Any, message: str, **more: str) -> Any:
    """A completion whose message, and what else it has, is JSON as given."""
    rest = "".join(f', "{name}": {value}' for name, value in more.items())
    return endpoints.Answer(body=f'{{"choices": [{{"message": {message}}}]{rest}}}'.encode())


def test_lone_surrogates_and_bottomless_nesting_never_reach_the_caller(endpoints: Any) -> None:
    odd = '{"content": "a\\ud800b", "\\udfff": ["\\ud801"], "deep": ' + '{"a":' * 400 + "1" + "}" * 401
    reply, _, _ = chat(endpoints, written(endpoints, odd))
    assert isinstance(reply, Reply)
    assert (reply.message["content"], reply.message["?"]) == ("a?b", ["?"])
    assert '"(nested too deep)"' in json.dumps(reply.message, ensure_ascii=False).encode().decode()


def test_a_finish_reason_that_is_no_text_is_none(endpoints: Any) -> None:
    answer = json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": {"a": 1}}]})
    reply, _, _ = chat(endpoints, endpoints.Answer(body=answer.encode()))
    assert reply.finish_reason == ""


@pytest.mark.parametrize("count", ["1" + "0" * 400, str(2**53), "1e400"])
def test_a_count_that_nobody_can_have_counted_is_none(count: str, endpoints: Any) -> None:
    answer = written(endpoints, '{"content": "x"}', usage=f'{{"prompt_tokens": {count}, "completion_tokens": 1}}')
    reply, llm, _ = chat(endpoints, answer, price=Price(1.0, 1.0))
    assert isinstance(reply, Reply)
    assert reply.estimated
    assert 0 < llm.usage.usd < 1


def test_a_cassette_takes_every_answer_and_gives_it_back(endpoints: Any, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    odd = '{"content": "line\\u2028line\\u0085line \\ud800"}'
    chat(endpoints, written(endpoints, odd), cassette=Cassette(kept, record=True))
    replayed, _, endpoint = chat(endpoints, endpoints.GARBAGE, cassette=Cassette(kept))
    assert replayed.message["content"] == "line\u2028line\u0085line ?"
    assert endpoint.requests == []


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br", "x-odd"])
def test_an_encoded_answer_is_refused_before_it_unfolds(encoding: str, endpoints: Any) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    packed = endpoints.Answer(body=zlib.compress(data, 9, 31), headers={"Content-Encoding": encoding})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error, llm, endpoint = chat(endpoints, packed)
    assert isinstance(error, EndpointFailed)
    assert f"encoded as {encoding}, which it was asked not to do" in str(error)
    assert (len(endpoint.requests), llm.usage.lost) == (2, 2)
    assert endpoint.headers[0]["accept-encoding"] == "identity"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10  # KiB


def test_an_encoded_refusal_is_still_a_refusal(endpoints: Any) -> None:
    error, _, endpoint = chat(endpoints, endpoints.fail(401, "bad key", Content_Encoding="gzip"))
    assert isinstance(error, EndpointRefused)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    "date", ["Mon, 01 Jan 2020 00:00:00 +9999999999999999", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"]
)
def test_a_wait_until_an_absurd_date_is_ours_to_choose(date: str, endpoints: Any) -> None:
    reply, llm, _ = chat(endpoints, endpoints.fail(429, Retry_After=date), endpoints.say("hi"))
    assert isinstance(reply, Reply)
    assert llm.usage.retries == 1


def test_what_an_endpoint_says_cannot_steer_the_terminal(endpoints: Any) -> None:
    error, _, _ = chat(endpoints, endpoints.Answer(status=400, body=b"\x1b[31mred\x00\x07 \xe2\x80\xae txt"))
    assert str(error).isprintable()
    assert "\ufffd[31mred" in str(error)


def test_a_name_that_no_request_can_be_sent_to_is_refused_in_one_line() -> None:
    async def ask() -> None:
        async with LLM("m", "http://xn--/v1") as llm:
            await llm.chat(HELLO)

    with pytest.raises(EndpointRefused, match="cannot be asked .*check --base-url"):
        asyncio.run(ask())
