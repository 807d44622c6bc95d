"""No route, observation or frame carries a secret: every secret field holds a canary, and every answer is searched."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect


@pytest.mark.parametrize("mode", ["simulation", "production"])
def test_no_answer_contains_a_secret(light: Any, mode: str) -> None:
    answers: dict[str, str] = {}
    with light.serving(light.light_app(mode=mode)) as served, httpx.Client(base_url=served.url) as http:
        token = _play(served.url, light, answers)
        viewed = http.get("/view/data/index", headers={"X-Session-Tokens": token}).json()["rows"][0]["id"]
        paths: dict[str, Any] = http.get("/openapi.json").json()["paths"]
        headers = {"Authorization": f"Bearer {token}", "X-Session-Tokens": token, **_mcp_session(http)}
        for path, methods in paths.items():
            for method in methods:
                _fetch(http, method, path, headers, viewed, answers)
        for path in ("/openapi.json", "/docs", "/redoc", "/", "/nope", "/episodes/none"):
            answers[f"get {path}"] = http.get(path).text
        for method in ("tools/list", "tools/call", "openenv/session/create", "initialize"):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "say", "arguments": {"text": "x"}}}
            answers[f"mcp {method}"] = http.post("/mcp", json=body).text
    assert len(answers) > 25
    assert "Say the answer of exercise 0." in answers["get /tasks/{task_id}"]
    assert '"error_turns"' in answers["get /episodes/{episode_id}"]
    for name, text in answers.items():
        for canary in light.CANARIES:
            assert canary not in text, f"{name} carries {canary}: {text[:300]}"


def _mcp_session(http: httpx.Client) -> dict[str, str]:
    """Start a session of an MCP client; return the header that names it."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    return {"Mcp-Session-Id": http.post("/mcp?task_id=light-0", json=call).headers["Mcp-Session-Id"]}


def _fetch(
    http: httpx.Client, method: str, path: str, headers: dict[str, str], viewed: str, answers: dict[str, str]
) -> None:
    """Call a declared route with values that make it answer in full."""
    values = {
        "{task_id}": "light-0",
        "{episode_id}": "canary-1",
        "{env_name}": "etude",
        "{tool}": "say",
        "{name}": viewed,
    }
    address = path
    for name, value in values.items():
        address = address.replace(name, value)
    assert "{" not in address, f"give the test a value for {path}"
    body = {"split": "train", "index": 0, "action": {"tool": "submit"}, "task_id": "light-0"}
    if path == "/reset":
        body = {"task_id": "light-0"}
    elif path.startswith("/{env_name}"):
        body = {key: body[key] for key in (["split", "index"] if path.endswith("/task") else ["split"])}
    answer = http.request(method, address, json=body if method == "post" else None, headers=headers)
    assert answer.status_code in (200, 409), f"{method} {path}: {answer.status_code} {answer.text}"
    answers[f"{method} {path}"] = answer.text


def _play(url: str, light: Any, answers: dict[str, str]) -> str:
    """Two episodes, one graded and one broken; with every frame."""
    frames: list[Any] = [{"type": "reset", "data": {"task_id": "light-0", "episode_id": "canary-1"}}]
    frames += [{"type": "step", "data": light.say("x")}, {"type": "step", "data": {"tool": "nope"}}, {"type": "state"}]
    frames += [
        {"type": "step", "data": {"type": "list_tools"}},
        {"type": "step", "data": light.SUBMIT},
        {"type": "state"},
    ]
    frames += [[1], {"type": "step", "data": light.SUBMIT}, {"type": "reset", "data": {"task_id": "nope"}}]
    frames += [{"type": "reset", "data": {"task_id": "light-1"}}, {"type": "step", "data": light.call("crash")}]
    frames += [{"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}}, {"type": "state"}]
    with connect("ws" + url.removeprefix("http") + "/ws", proxy=None) as socket:
        for number, frame in enumerate(frames):
            socket.send(json.dumps(frame))
            answers[f"frame {number}"] = str(socket.recv(timeout=30))
    return json.loads(answers[f"frame {len(frames) - 1}"])["data"]["token"]
