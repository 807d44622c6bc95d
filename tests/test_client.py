"""The client against a server that says exactly what each test needs, and what it loads."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from etude.client import Client, connect
from etude.errors import ConnectionLost, ServerError, ServerFull, ServerInfrastructureError

OBSERVATION = {"type": "observation", "data": {"observation": {"prompt": "p", "new": 1}, "reward": None, "done": False}}


@asynccontextmanager
async def answering(handler: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[str]:
    async with serve(handler, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def scripted(*frames: Any) -> Callable[[ServerConnection], Awaitable[None]]:
    async def handle(socket: ServerConnection) -> None:
        for frame in frames:
            await socket.recv()
            await socket.send(json.dumps(frame))
        await socket.wait_closed()

    return handle


def error(message: str, code: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code}}


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (error("infrastructure: no space left", "EXECUTION_ERROR"), ServerInfrastructureError),
        (error("64/64 sessions in use, set MAX_CONCURRENT_ENVS", "CAPACITY_REACHED"), ServerFull),
        (error("reset first", "EXECUTION_ERROR"), ServerError),
    ],
)
def test_refusals_are_typed_and_the_session_goes_on(frame: dict[str, Any], kind: type[ServerError]) -> None:
    async def scenario() -> None:
        async with answering(scripted(frame, OBSERVATION)) as url, Client(url) as client:
            with pytest.raises(kind) as refused:
                await client.step({})
            assert (str(refused.value), refused.value.code) == (frame["data"]["message"], frame["data"]["code"])
            assert (await client.reset()).prompt == "p", "fields of a newer server are dropped"

    asyncio.run(scenario())


def test_a_refused_session_says_why_even_when_the_close_comes_first() -> None:
    async def full(socket: ServerConnection) -> None:
        await socket.send(json.dumps(error("2/2 sessions in use, set MAX_CONCURRENT_ENVS", "CAPACITY_REACHED")))

    async def scenario() -> None:
        async with answering(full) as url, Client(url) as client:
            with pytest.raises(ServerFull, match="set MAX_CONCURRENT_ENVS"):
                await client.reset()

    asyncio.run(scenario())


def test_an_answer_that_comes_too_late_is_never_taken_for_the_next() -> None:
    async def scenario() -> None:
        async with answering(scripted()) as url, Client(url, message_timeout_s=0.05) as client:
            with pytest.raises(ConnectionLost, match="no answer to reset within 0.05 s"):
                await client.reset()
            with pytest.raises(ConnectionLost, match="not connected"):
                await client.step({})

    asyncio.run(scenario())


def test_a_second_call_meanwhile_is_refused_and_the_first_goes_on() -> None:
    async def scenario() -> None:
        async with answering(scripted(OBSERVATION, OBSERVATION)) as url, Client(url) as client:
            first, second = await asyncio.gather(client.reset(), client.step({}), return_exceptions=True)
            assert not isinstance(first, BaseException) and first.prompt == "p"
            assert isinstance(second, ServerError) and "is busy with another call" in str(second)
            assert (await client.reset()).prompt == "p"

    asyncio.run(scenario())


def test_a_lost_connection_is_typed() -> None:
    async def drop(socket: ServerConnection) -> None:
        await socket.recv()
        socket.transport.abort()

    async def scenario() -> None:
        async with answering(drop) as url, Client(url) as client:
            with pytest.raises(ConnectionLost, match="closed the session"):
                await client.reset()

    asyncio.run(scenario())


def test_no_server_says_how_to_start_one() -> None:
    with pytest.raises(ConnectionLost, match="cannot connect to ws://127.0.0.1:9/ws .*`etude serve` starts one"):
        connect("http://127.0.0.1:9")


@pytest.mark.parametrize("url", ["ftp://host", "http://", "://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not a server's address"):
        Client(url)


def test_a_closed_client_says_so_and_closes_twice() -> None:
    async def scenario() -> None:
        async with answering(scripted(OBSERVATION)) as url:
            await asyncio.to_thread(play, url)

    def play(url: str) -> None:
        client = connect(url)
        assert client.reset().prompt == "p"
        client.close()
        client.close()
        with pytest.raises(ConnectionLost, match="this client is closed"):
            client.reset()

    asyncio.run(scenario())


def test_it_needs_no_openenv_and_loads_httpx_and_websockets_late() -> None:
    code = (
        "import sys, etude.client; "
        "print([m for m in ('openenv', 'fastapi', 'httpx', 'websockets', 'torch') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
