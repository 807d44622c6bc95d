"""Keys: sent to their endpoint and shown nowhere, even when the endpoint or the model repeats them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from etude.errors import EndpointRefused, LLMError
from etude.llm import LLM, Reply, key_from, shown

KEY = "sk-SECRETKEY/12345"
HELLO = [{"role": "user", "content": "hello"}]


def chat(url: str, key: str = KEY) -> Any:
    """Return a reply or its error."""

    async def ask() -> Any:
        async with LLM("m", url, key, attempts=1) as llm:
            return (await asyncio.gather(llm.chat(HELLO), return_exceptions=True))[0]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "key", ["sk-SEC\nRET", "sk-SEC\rRET", "sk-SEC\x00RET", "sk-SECRET-\u043a\u043b\u044e\u0447", "sk-\x7fSECRET"]
)
def test_key_is_refused_and_not_shown_when_no_header_can_carry_it(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"SOME_KEY": key}
    monkeypatch.setattr("os.environ", environment)
    with pytest.raises(EndpointRefused, match="the key in SOME_KEY is not one line of printable ASCII") as named:
        key_from("SOME_KEY", "http://127.0.0.1:8000/v1")
    with pytest.raises(EndpointRefused, match="the key is not one line of printable ASCII") as direct:
        LLM("m", "http://127.0.0.1:8000/v1", key)
    assert "SEC" not in str(named.value) + str(direct.value)


def echoes(key: str) -> list[str]:
    """Return spellings of the key that JSON allows."""
    return [
        key,
        json.dumps(key)[1:-1].replace("/", "\\/"),
        key.replace("K", "\\u004b"),
        "".join(f"\\u{ord(letter):04X}" for letter in key),
    ]


@pytest.mark.parametrize("echo", echoes(KEY))
def test_error_masks_the_key_when_the_endpoint_repeats_it(echo: str, endpoints: Any) -> None:
    answer = endpoints.Answer(status=401, body=b'{"error": "bad key %s"}' % echo.encode())
    with endpoints.serving(lambda number, body: answer) as endpoint:
        error = chat(endpoint.url)
    assert isinstance(error, EndpointRefused)
    assert '{"error": "bad key ***"}' in str(error)


@pytest.mark.parametrize("echo", echoes(KEY))
def test_reply_masks_the_key_when_the_model_repeats_it(echo: str, endpoints: Any) -> None:
    call = f'{{"id": "{echo}", "function": {{"name": "a", "arguments": {{"{echo}": ["{echo}"]}}}}}}'
    message = f'{{"content": "Bearer {echo}", "tool_calls": [{call}]}}'
    answer = endpoints.Answer(body=f'{{"choices": [{{"message": {message}}}]}}'.encode())
    with endpoints.serving(lambda number, body: answer) as endpoint:
        reply = chat(endpoint.url)
        assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    assert isinstance(reply, Reply)
    assert reply.message["content"] == "Bearer ***"
    assert reply.message["tool_calls"] == [{"id": "***", "function": {"name": "a", "arguments": {"***": ["***"]}}}]


def test_reply_masks_the_key_inside_the_text_of_arguments(endpoints: Any) -> None:
    escaped = KEY.replace("K", "\\u004b")
    call = endpoints.call("a", f'{{"key": "{escaped}"}}')
    with endpoints.serving(lambda number, body: endpoints.say("", call)) as endpoint:
        reply = chat(endpoint.url)
    assert reply.message["tool_calls"][0]["function"]["arguments"] == '{"key": "***"}'


def test_reply_masks_a_placeholder_key_only_inside_its_header(endpoints: Any) -> None:
    with endpoints.serving(lambda number, body: endpoints.say("EMPTY, as in Bearer EMPTY")) as endpoint:
        reply = chat(endpoint.url, "EMPTY")
    assert reply.message["content"] == "EMPTY, as in ***"


@pytest.mark.parametrize(
    "url",
    [
        "http://user:PASSWORD@[::bad/v1",
        "ftp://user:PASSWORD@h/",
        "http://:PASSWORD@/v1",
        "http://user:PASS/WORD@h/v1",
        "http://user:PASS?WORD@h/v1",
        "user:PASSWORD@h:80/v1",
    ],
)
def test_invalid_address_is_shown_without_its_password(url: str) -> None:
    with pytest.raises(LLMError, match="not an endpoint's address") as refused:
        LLM("m", url)
    assert "PASS" not in str(refused.value)
    assert "WORD" not in str(refused.value) + shown(url)
