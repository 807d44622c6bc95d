"""The application as its clients see it: three clients, refusals that keep the socket, routes, OpenEnv's own probe."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from openenv.cli._validation import validate_running_environment
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient
from websockets.sync.client import ClientConnection, connect

from etude.client import connect as etude_connect
from etude.server.openenv_client import EtudeEnv

ROOT = Path(__file__).parents[2]


def ask(socket: ClientConnection, frame: Any) -> dict[str, Any]:
    socket.send(frame if isinstance(frame, (str, bytes)) else json.dumps(frame))
    return json.loads(socket.recv(timeout=30))


def ws(url: str, path: str = "/ws") -> ClientConnection:
    return connect("ws" + url.removeprefix("http") + path, proxy=None)


def rpc(url: str, method: Any, **params: Any) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(f"{url}/mcp", json=body).json()


def test_the_index_names_the_endpoints_and_counts_the_tasks(served: Any) -> None:
    answer = httpx.get(served.url)
    index = answer.json()
    assert (
        answer.status_code == 200 and sum(index["tasks"].values()) == httpx.get(f"{served.url}/tasks").json()["total"]
    )
    for route in index["read"]:
        path = route.split()[1].replace("TASK_ID", "light-1")
        assert httpx.get(served.url + path).status_code == (401 if path.startswith("/episodes/") else 200), route


# --- Every client plays the same episode


def test_etudes_client_plays_an_episode(served: Any, light: Any) -> None:
    with etude_connect(served.url) as client:
        assert client.reset(task_id="light-1").prompt == "Say the answer of exercise 1."
        assert client.step(light.say("answer-1")).reward == 0.0
        last = client.step(light.SUBMIT)
    assert (last.done, last.reward) == (True, 1.0)


def test_openenvs_generic_client_plays_an_episode(served: Any, light: Any) -> None:
    with GenericEnvClient(base_url=served.url).sync() as client:
        assert client.reset(task_id="light-1").observation["prompt"] == "Say the answer of exercise 1."
        assert client.step(light.say("answer-1")).reward == 0.0
        last = client.step(light.SUBMIT)
    assert (last.done, last.reward) == (True, 1.0)


def test_openenvs_typed_client_plays_an_episode(served: Any, light: Any) -> None:
    with EtudeEnv(base_url=served.url).sync() as client:
        assert client.reset(split="train", index=1).observation.prompt == "Say the answer of exercise 1."
        client.step(light.say("answer-1"))
        last = client.step(light.SUBMIT)
        assert (last.done, last.reward, client.state().step_count) == (True, 1.0, 2)


def test_plain_websocket_plays_an_episode(served: Any, light: Any) -> None:
    with ws(served.url) as socket:
        first = ask(socket, {"type": "reset", "data": {"task_id": "light-1"}})
        assert first["data"]["observation"]["prompt"] == "Say the answer of exercise 1."
        ask(socket, {"type": "step", "data": light.say("answer-1")})
        last = ask(socket, {"type": "step", "data": light.SUBMIT})
    assert (last["data"]["done"], last["data"]["reward"]) == (True, 1.0)


def test_openenvs_tool_client_lists_and_calls_tools(served: Any) -> None:
    with MCPToolClient(base_url=served.url).sync() as client:
        client.reset(task_id="light-1")
        assert [tool.name for tool in client.list_tools()] == ["say", "hang", "crash", "submit"]
        assert client.call_tool("say", text="answer-1") == "ok\nanswer-1"
        client.call_tool("submit")
        assert client.state().step_count == 2


def test_tool_calls_are_graded_on_every_route(served: Any) -> None:
    session = rpc(served.url, "openenv/session/create")["result"]["session_id"]
    with ws(served.url, f"/ws?session_id={session}") as socket:
        ask(socket, {"type": "reset", "data": {"task_id": "light-1"}})
        called = {"type": "call_tool", "tool_name": "say", "arguments": {"text": "answer-1"}}
        assert ask(socket, {"type": "step", "data": called})["data"]["observation"]["result"] == "ok\nanswer-1"
        request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "nope", "arguments": [1]}}
        assert ask(socket, {"type": "mcp", "data": request})["data"]["result"]["isError"]
        last = rpc(served.url, "tools/call", name="submit", session_id=session)["result"]
        assert (last["done"], last["reward"]) == (True, 1.0)
        assert ask(socket, {"type": "state"})["data"]["step_count"] == 3
    assert rpc(served.url, "openenv/session/close", session_id=session)["result"]["closed"]


def test_list_tools_works_before_a_reset_and_is_not_a_turn(served: Any) -> None:
    with ws(served.url) as socket:
        listed = ask(socket, {"type": "step", "data": {"type": "list_tools"}})
        assert "bash" in [tool["name"] for tool in listed["data"]["observation"]["tools"]]
        assert ask(socket, {"type": "state"})["data"]["step_count"] == 0
    assert rpc(served.url, "tools/list")["result"]["tools"]


# --- Nothing a model can emit is a protocol error; what is refused leaves the socket usable


@pytest.mark.parametrize(
    "action",
    [
        {},
        {"text": None, "tool_calls": "no list", "metadata": 3, "type": ["x"]},
        {"tool_calls": [7, None, {"name": 3, "arguments": "{"}]},
        {"tool_calls": [{"function": {"name": "say", "arguments": "\ud800"}}], "model_dump": 1, "__class__": 2},
        {"text": float("nan"), "tool": {"deep": json.loads("[" * 300 + "]" * 300)}},
    ],
)
def test_step_plays_any_json_object_as_a_turn(served: Any, action: dict[str, Any]) -> None:
    with ws(served.url) as socket:
        ask(socket, {"type": "reset", "data": {}})
        answer = ask(socket, {"type": "step", "data": action})
        assert answer["type"] == "observation", answer
        assert answer["data"]["observation"]["messages"]
        state = ask(socket, {"type": "state"})["data"]
        assert state["step_count"] == 1
        headers = {"Authorization": f"Bearer {state['token']}"}
        assert httpx.get(f"{served.url}/episodes/{state['episode_id']}", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("[1, 2]", "VALIDATION_ERROR"),
        ('"step"', "VALIDATION_ERROR"),
        ("null", "VALIDATION_ERROR"),
        ("not json", "INVALID_JSON"),
        ("9" * 5000, "INVALID_JSON"),
        ("[" * 100_000, "INVALID_JSON"),
        (b"\xff\xfe", "INVALID_JSON"),
        ('{"type": "jump"}', "UNKNOWN_TYPE"),
        ('{"type": "step", "data": [1]}', "VALIDATION_ERROR"),
        ('{"type": "step", "data": "\\ud800"}', "VALIDATION_ERROR"),
        ('{"type": "state", "\\udfff": 1}', "VALIDATION_ERROR"),
        ('{"type": "\\ud800"}', "UNKNOWN_TYPE"),
        ('{"type": "step", "data": ' + "[" * 300 + "]" * 300 + "}", "VALIDATION_ERROR"),
        ('{"type": "step", "data": {"x": [' + "[]," * 200_000 + "1]}}", "VALIDATION_ERROR"),
        ("[" + "[]," * 2_000_000 + "1]", "VALIDATION_ERROR"),
        ('{"type": "step", "data": {"tool": "say"}}', "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"self": 1, "task_idd": 2}}', "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"seed": "seven"}}', "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"task_id": "light-77"}}', "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"index": 77}}', "EXECUTION_ERROR"),
    ],
)
def test_socket_stays_usable_after_a_refused_frame(served: Any, frame: str | bytes, code: str) -> None:
    with ws(served.url) as socket:
        answer = ask(socket, frame)
        assert (answer["type"], answer["data"]["code"]) == ("error", code)
        assert ask(socket, {"type": "reset", "data": {}})["type"] == "observation"


def test_refusals_keep_the_order_of_the_frames(served: Any, light: Any) -> None:
    with ws(served.url) as socket:
        for frame in ({"type": "reset", "data": {}}, [1], {"type": "step", "data": light.say("x")}, {"type": "state"}):
            socket.send(json.dumps(frame))
        kinds = [json.loads(socket.recv(timeout=30))["type"] for _ in range(4)]
    assert kinds == ["observation", "error", "observation", "state"]


def test_binary_frame_is_played_like_text(served: Any) -> None:
    with ws(served.url) as socket:
        assert ask(socket, b'{"type": "state"}')["type"] == "state"


def test_mcp_socket_refuses_with_a_json_rpc_error(served: Any) -> None:
    with ws(served.url, "/mcp") as socket:
        assert ask(socket, "[1]")["error"]["code"] == -32600
        assert ask(socket, "{")["error"]["code"] == -32700
        assert ask(socket, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})["result"]["tools"]


def test_error_says_what_to_do_when_the_client_misuses_the_protocol(served: Any, light: Any) -> None:
    with ws(served.url) as socket:
        step = {"type": "step", "data": light.SUBMIT}
        assert "reset first" in ask(socket, step)["data"]["message"]
        message = ask(socket, {"type": "reset", "data": {"task": "light-1"}})["data"]["message"]
        assert message == "reset: unknown argument 'task'. Did you mean 'task_id'?"
        ask(socket, {"type": "reset", "data": {}})
        ask(socket, step)
        assert "is over" in ask(socket, step)["data"]["message"]


def test_episode_is_void_and_shows_no_path_when_the_machine_fails(served: Any, light: Any) -> None:
    with ws(served.url) as socket:
        ask(socket, {"type": "reset", "data": {"episode_id": "void"}})
        error = ask(socket, {"type": "step", "data": light.call("crash")})["data"]
        assert error["message"] == "infrastructure: cannot mount <path>: no space left"
        state = ask(socket, {"type": "state"})["data"]
        assert state["reward"]["valid"] is False
        headers = {"Authorization": f"Bearer {state['token']}"}
        assert httpx.get(f"{served.url}/episodes/void", headers=headers).json()["reward"]["valid"] is False
        assert "void" in ask(socket, {"type": "step", "data": light.SUBMIT})["data"]["message"]
        assert ask(socket, {"type": "reset", "data": {}})["type"] == "observation"


# --- Read-only routes


def test_tasks_route_lists_pages(served: Any) -> None:
    rows = httpx.get(f"{served.url}/tasks").json()
    assert rows["total"] == 4
    assert {row["task_id"] for row in rows["tasks"]} == {f"light-{n}" for n in range(4)}
    second = httpx.get(f"{served.url}/tasks", params={"split": "train", "offset": 1, "limit": 1}).json()
    assert [row["task_id"] for row in second["tasks"]] == ["light-1"]
    assert httpx.get(f"{served.url}/tasks", params={"split": "dev"}).status_code == 404
    assert httpx.get(f"{served.url}/tasks/light-2").json()["problem_statement"] == "Say the answer of exercise 2."
    missing = httpx.get(f"{served.url}/tasks/light-22")
    assert missing.status_code == 404 and "Did you mean 'light-2'?" in missing.json()["detail"]


def test_openenvs_task_routes_agree_with_the_tasks_route(served: Any) -> None:
    def post(name: str, **body: Any) -> httpx.Response:
        return httpx.post(f"{served.url}/etude/{name}", json=body)

    assert {row["name"] for row in httpx.get(f"{served.url}/etude/splits").json()} == {"train", "test"}
    assert post("num_tasks", split="train").json() == {"num_tasks": 3}
    assert post("task", split="train", index=2).json()["task"]["task_id"] == "light-2"
    assert [t["task_id"] for t in post("task_range", split="train", start=1).json()["tasks"]] == ["light-1", "light-2"]
    assert post("task", split="train", index=3).status_code == 400
    assert post("task", split="train", index=-1).status_code == 400
    assert post("tasks", split="dev").status_code == 400


def test_episode_is_served_only_with_the_token_of_its_session(served: Any, light: Any) -> None:
    def get(token: str | None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        return httpx.get(f"{served.url}/episodes/shared%2Fid", headers=headers)

    with etude_connect(served.url) as one, etude_connect(served.url) as other:
        for client, text in ((one, "text-one"), (other, "text-other")):
            client.reset(episode_id="shared/id")
            client.step(light.say(text))
        token = one.state().token
        assert token is not None and len(bytes.fromhex(token)) == 16 and token != other.state().token
        assert "text-one" in get(token).text and "text-other" not in get(token).text
        assert {
            get(wrong).status_code for wrong in (None, "0" * 32, "x", token[:-1], token + "0", token.upper() + "G")
        } == {401}
        one.reset()
        assert "text-one" in get(token).text, "an earlier episode of the session can still be read"
    assert "text-one" in get(token).text, "also when its session has ended"
    assert get("0" * 32).json() == httpx.get(f"{served.url}/episodes/none").json(), (
        "the answer does not show which ids exist"
    )


def test_state_has_no_token_without_a_session(served: Any) -> None:
    assert httpx.get(f"{served.url}/state").json()["token"] is None


def test_stateless_routes_leave_no_session(served: Any, light: Any) -> None:
    closed = light.LightSession.closed_count
    assert httpx.post(f"{served.url}/reset", json={"task_id": "light-0"}).json()["observation"]["prompt"]
    assert served.wait_until(lambda: light.LightSession.closed_count == closed + 1)
    refused = httpx.post(f"{served.url}/step", json={"action": light.SUBMIT})
    assert refused.status_code == 409 and "reset first" in refused.json()["detail"]


def test_bodies_and_frames_are_refused_when_they_are_too_long(light: Any) -> None:
    with light.serving(light.light_app(max_body=1000)) as served:
        big = json.dumps({"task_id": "x" * 2000})
        assert httpx.post(f"{served.url}/reset", content=big).status_code == 413
        chunks = iter([big[:500].encode(), big[500:].encode()])
        assert httpx.post(f"{served.url}/reset", content=chunks).status_code == 413
        with ws(served.url) as socket:
            assert "over 1000 bytes" in ask(socket, big)["data"]["message"]
            assert ask(socket, {"type": "state"})["type"] == "state"


@pytest.mark.parametrize(
    "body", ['{"seed": NaN}', '{"\\ud800": "\\ud800"}', '{"episode_id": "\\ud800", "seed": 1e999}']
)
@pytest.mark.parametrize("path", ["/reset", "/step", "/etude/num_tasks"])
def test_body_that_cannot_be_encoded_again_is_a_client_error(served: Any, path: str, body: str) -> None:
    answer = httpx.post(served.url + path, content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500 and answer.json()["detail"]


def test_body_is_refused_when_it_has_too_many_values(served: Any) -> None:
    body = b'{"replay": [' + b"[]," * 200_000 + b"1]}"
    answer = httpx.post(f"{served.url}/reset", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413 and "JSON values" in answer.json()["detail"]


def test_text_full_of_commas_counts_as_one_value(served: Any, light: Any) -> None:
    with ws(served.url) as socket:
        ask(socket, {"type": "reset", "data": {}})
        assert ask(socket, {"type": "step", "data": light.say("[1, 2]," * 50_000)})["type"] == "observation"


# --- OpenEnv's own judgement


@pytest.mark.parametrize("mode", ["simulation", "production"])
def test_openenvs_url_validation_passes(light: Any, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("OPENENV_MODE", mode)
    with light.serving(light.light_app()) as served:
        report = validate_running_environment(served.url)
    assert report["mode"] == mode
    assert [c["passed"] for c in report["criteria"]] == [True] * 6, report


def test_openenvs_folder_validation_passes_on_a_clean_clone(
    tmp_path: Path, checkout_in: Callable[[Path], Path]
) -> None:
    openenv = Path(sys.executable).with_name("openenv")
    command = [openenv, "validate", checkout_in(tmp_path), "--level", "static"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "Verdict: PASS" in done.stdout, done.stdout + done.stderr


def test_runtime_plan_fulfils_openenvs_contract(served: Any) -> None:
    plan = json.loads((ROOT / "validation" / "runtime.json").read_text())
    with ws(served.url) as socket:
        data = {"episode_id": plan["reset"]["episode_id"], "seed": plan["reset"]["seed"], **plan["reset"]["options"]}
        assert ask(socket, {"type": "reset", "data": data})["type"] == "observation"
        for number, action in enumerate(plan["actions"], 1):
            answer = ask(socket, {"type": "step", "data": action})
            assert answer["type"] == "observation" and 0.0 <= answer["data"]["reward"] <= 1.0
            state = ask(socket, {"type": "state"})["data"]
            assert (state["episode_id"], state["step_count"]) == (plan["reset"]["episode_id"], number)


def test_manifest_agrees_with_the_served_application(served: Any) -> None:
    import yaml

    from etude.environments.coding.tools import TOOLS

    manifest = yaml.safe_load((ROOT / "openenv.yaml").read_text())
    declared = manifest["validation"]["capabilities"]["declared_tools"]
    assert declared == list(TOOLS)
    execution = manifest["validation"]["execution"]
    assert (ROOT / execution["dockerfile"]).is_file() and (ROOT / execution["probe_path"]).is_file()
    assert asyncio.run(_health(served.url)) == {"status": "healthy"}


async def _health(url: str) -> Any:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{url}/health")).json()
