"""Clients of MCP that know nothing of OpenEnv: a session for each client, from ``initialize`` to its end."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client


@pytest.fixture(scope="module")
def served(light: Any) -> Iterator[Any]:
    with light.serving(light.light_app(mode="simulation", max_sessions=2)) as server:
        yield server


def post(url: str, method: str, session: str = "", **params: Any) -> httpx.Response:
    headers = {"Mcp-Session-Id": session} if session else {}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(f"{url}/mcp", json=body, headers=headers)


def test_a_stock_client_plays_an_episode_and_ends_its_session(served: Any) -> None:
    async def play() -> tuple[Any, ...]:
        async with (
            streamable_http_client(f"{served.url}/mcp?task_id=light-1") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            started = await session.initialize()
            await session.send_ping()
            tools = await session.list_tools()
            said = await session.call_tool("say", {"text": "answer-1"})
            await session.call_tool("submit", {})
            return started, tools, said

    started, tools, said = asyncio.run(play())
    assert started.instructions == "Say the answer of exercise 1."
    assert [tool.name for tool in tools.tools] == ["say", "hang", "crash", "submit"]
    assert (said.content[0].text, said.isError) == ("ok\nanswer-1", False)
    about = started.model_dump(by_alias=True)["_meta"]
    key = {"Authorization": f"Bearer {about['token']}"}
    episode = httpx.get(f"{served.url}/episodes/{about['episode_id']}", headers=key).json()
    assert (episode["task_id"], episode["reward"]["value"]) == ("light-1", 1.0)
    assert httpx.get(f"{served.url}/readyz").json()["sessions"] == 0


def test_sessions_are_separate_and_requests_without_one_are_openenvs(served: Any) -> None:
    first, second = (post(f"{served.url}", "initialize").headers["mcp-session-id"] for _ in "ab")
    post(served.url, "tools/call", first, name="say", arguments={"text": "x"})
    counts = [post(served.url, "tools/call", one, name="say", arguments={"text": "y"}) for one in (first, second)]
    assert [answer.json()["result"]["data"] for answer in counts] == ["ok\nx,y", "ok\ny"]
    full = post(served.url, "initialize")
    assert "2/2 sessions in use: raise MAX_CONCURRENT_ENVS" in full.json()["error"]["message"]
    assert int(full.headers["retry-after"]) > 0
    assert post(served.url, "notifications/initialized", first).status_code == 202
    for one in (first, second):
        ended = [httpx.delete(f"{served.url}/mcp", headers={"Mcp-Session-Id": one}).status_code for _ in "ab"]
        assert ended == [200, 404]
        assert post(served.url, "tools/list", one).status_code == 404
    assert "result" in post(served.url, "tools/list").json()


def test_a_client_is_told_what_is_wrong_and_no_session_remains(served: Any) -> None:
    async def start(query: str) -> None:
        async with (
            streamable_http_client(f"{served.url}/mcp?{query}") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            with pytest.raises(McpError, match="unknown task 'light-11'|unknown argument 'task'|seed"):
                await session.initialize()

    for query in ("task_id=light-11", "task=light-1", "seed=x"):
        asyncio.run(start(query))
    assert httpx.get(f"{served.url}/readyz").json()["sessions"] == 0


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS"])
def test_other_methods_are_told_which_there_are(served: Any, method: str) -> None:
    answer = httpx.request(method, f"{served.url}/mcp")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, POST")


@pytest.mark.parametrize("path", ["/mcp", "/seed_session"])
def test_a_client_that_leaves_before_the_answer_leaves_no_session(served: Any, path: str) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}, "task_id": "light-0"}
    body = json.dumps(call).encode()
    host, port = served.url.removeprefix("http://").split(":")
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n"
    for _ in range(6):  # three times the limit of sessions
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    for _ in range(100):
        if not httpx.get(f"{served.url}/readyz").json()["sessions"]:
            return
        time.sleep(0.1)
    pytest.fail("sessions remain that nobody can end")


def test_a_client_that_starts_again_leaves_its_first_session(served: Any) -> None:
    first = post(served.url, "initialize").headers["mcp-session-id"]
    second = post(served.url, "initialize", first).headers["mcp-session-id"]
    assert httpx.get(f"{served.url}/readyz").json()["sessions"] == 1
    assert httpx.delete(f"{served.url}/mcp", headers={"Mcp-Session-Id": second}).status_code == 200


def test_a_session_that_its_client_never_used_ends(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etude.server.routes.mcp_clients.FIRST_REQUEST_S", 0.5)
    lost, used = (post(served.url, "initialize").headers["mcp-session-id"] for _ in "ab")
    assert post(served.url, "notifications/initialized", used).status_code == 202
    time.sleep(1.0)
    assert post(served.url, "ping", lost).status_code == 404
    assert post(served.url, "ping", used).status_code == 200
    httpx.delete(f"{served.url}/mcp", headers={"Mcp-Session-Id": used})
