"""The API key, pages of other sites, request ids, probes, metrics and the log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from openenv.core.generic_client import GenericEnvClient
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from etude.client import Client
from etude.client import connect as etude_connect
from etude.errors import ServerError
from etude.server.access import check_key
from etude.server.log_lines import JsonLines
from etude.server.serving import NO_KEY, serve

KEY = "k" * 32
SENT = {"X-API-Key": KEY}


@pytest.fixture(scope="module")
def locked(light: Any) -> Iterator[Any]:
    """A server that needs a key, and has two sessions."""
    with light.serving(light.light_app(api_key=KEY, max_sessions=2)) as running:
        yield running


# --- the key


@pytest.mark.parametrize(
    "headers", [{}, {"X-API-Key": KEY[:-1]}, {"Authorization": "Bearer wrong"}, {"X-API-Key": "é"}]
)
def test_requests_without_the_key_are_refused_on_every_route(locked: Any, headers: dict[str, str]) -> None:
    sent = {name.encode(): value.encode() for name, value in headers.items()}
    paths = [route.path for route in locked.app.routes if "{" not in route.path]
    assert {"/", "/tasks", "/metrics", "/docs", "/openapi.json", "/reset"} <= {*paths}
    for path in {*paths, "/tasks/light-1", "/episodes/x", "/bash"} - {"/health", "/healthz", "/readyz"}:
        for method in ("GET", "POST"):
            answer = httpx.request(method, locked.url + path, headers=sent)
            assert answer.status_code == 401, path
            assert answer.json() == {"detail": "this server needs its API key: send it as the header X-API-Key"}


def test_probes_need_no_key(locked: Any) -> None:
    assert {httpx.get(locked.url + path).status_code for path in ("/health", "/healthz", "/readyz")} == {200}


@pytest.mark.parametrize("headers", [SENT, {"Authorization": f"Bearer {KEY}"}])
def test_either_header_carries_the_key(locked: Any, headers: dict[str, str]) -> None:
    assert httpx.get(f"{locked.url}/tasks", headers=headers).status_code == 200


def test_sockets_need_the_key_before_they_open(locked: Any) -> None:
    address = "ws" + locked.url.removeprefix("http")
    for path in ("/ws", "/mcp"):
        with pytest.raises(InvalidStatus) as refused:
            connect(address + path, proxy=None)
        assert refused.value.response.status_code == 403
        connect(address + path, proxy=None, additional_headers=SENT).close()


def test_clients_send_the_key_of_the_environment(locked: Any, light: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ServerError, match=r"refused the connection: HTTP 403; if it needs an API key, set ETUDE_API_KEY$"
    ) as refused:
        etude_connect(locked.url)
    assert refused.value.code == "HTTP_403"
    monkeypatch.setenv("ETUDE_API_KEY", KEY)
    with etude_connect(locked.url) as client:
        client.reset(task_id="light-1")
        client.step(light.say("answer-1"))
        assert client.step(light.SUBMIT).reward == 1.0
        assert client.episode().task_id == "light-1"  # the session's token and the key travel together
        assert client.tasks()


def test_openenvs_client_sends_the_key_as_a_header(locked: Any, light: Any) -> None:
    with GenericEnvClient(base_url=locked.url, headers=SENT).sync() as client:
        client.reset(task_id="light-1")
        assert client.step(light.SUBMIT).done


def test_the_token_of_a_session_is_no_key(locked: Any) -> None:
    async def token() -> str | None:
        async with Client(locked.url, api_key=KEY) as client:
            await client.reset(task_id="light-1")
            return (await client.state()).token

    headers = {"Authorization": f"Bearer {asyncio.run(token())}"}
    assert httpx.get(f"{locked.url}/tasks", headers=headers).status_code == 401


@pytest.mark.parametrize("key", ["short", "k" * 31 + " ", "k" * 31 + "é", "k" * 31 + "\n"])
def test_keys_that_are_weak_or_fit_no_header_get_one_line(
    key: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETUDE_API_KEY", key)
    assert serve(None, port=0, environment="drill") == 1
    error = capfd.readouterr().err
    assert error.startswith("error: ETUDE_API_KEY must have 16 printable ASCII characters") and error.count("\n") == 1
    assert key not in error
    assert check_key("") == ""


def test_serving_a_network_without_a_key_warns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Stopped(Exception):
        pass

    def stop(address: str) -> None:
        raise Stopped

    for host, key, warned in (("0.0.0.0", "", True), ("0.0.0.0", KEY, False), ("127.0.0.1", "", False)):
        caplog.clear()
        monkeypatch.setenv("ETUDE_API_KEY", key)
        with suppress(Stopped):
            serve(None, host, 0, environment="drill", ready=stop)
        assert (NO_KEY in [record.getMessage() for record in caplog.records]) == warned


# --- pages of other sites


def test_pages_of_other_sites_may_not_use_the_server(served: Any) -> None:
    other, own = {"Origin": "https://evil.example"}, {"Origin": served.url}
    assert httpx.post(f"{served.url}/reset", headers=other, json={}).status_code == 403
    assert httpx.get(f"{served.url}/tasks", headers=own).status_code == 200
    assert "access-control-allow-origin" not in httpx.get(f"{served.url}/tasks", headers=own).headers
    address = "ws" + served.url.removeprefix("http") + "/ws"
    with pytest.raises(InvalidStatus) as refused:
        connect(address, proxy=None, origin="https://evil.example")  # type: ignore[arg-type]
    assert refused.value.response.status_code == 403
    connect(address, proxy=None, origin=served.url).close()
    forwarded = {**other, "X-Forwarded-Host": "evil.example"}  # a proxy says what the browser asked for
    assert httpx.get(f"{served.url}/tasks", headers=forwarded).status_code == 200


# --- request ids


def test_every_answer_names_its_request(served: Any) -> None:
    assert httpx.get(f"{served.url}/tasks", headers={"X-Request-Id": "run-7:3"}).headers["x-request-id"] == "run-7:3"
    made = [httpx.get(f"{served.url}/tasks", headers={"X-Request-Id": "a b"}).headers["x-request-id"] for _ in "ab"]
    assert len({*made}) == 2 and all(len(name) == 32 for name in made)
    with connect("ws" + served.url.removeprefix("http") + "/ws", proxy=None) as socket:
        assert socket.response is not None and len(socket.response.headers["x-request-id"]) == 32


def test_the_log_leads_from_a_frame_to_its_grade(served: Any, light: Any, caplog: pytest.LogCaptureFixture) -> None:
    formatter, lines = JsonLines(), []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(formatter.format(record)))

    logger, handler = logging.getLogger("etude.server.watched"), Kept()
    logger.addHandler(handler)
    with caplog.at_level(logging.INFO, "etude.server.watched"):
        address = "ws" + served.url.removeprefix("http") + "/ws"
        with connect(address, proxy=None, additional_headers={"X-Request-Id": "job-9"}) as socket:
            for frame in (
                {"type": "reset", "data": {"task_id": "light-1", "episode_id": "the-episode"}},
                {"type": "step", "data": light.say("answer-1")},
                {"type": "step", "data": light.SUBMIT},
                {"type": "step", "data": light.SUBMIT},
            ):
                socket.send(json.dumps(frame))
                socket.recv(timeout=30)
    logger.removeHandler(handler)
    assert [(line["request_id"], line["call"], line["outcome"]) for line in lines] == [
        ("job-9.1", "reset", "ok"),
        ("job-9.2", "step", "ok"),
        ("job-9.3", "step", "ok"),
        ("job-9.4", "step", "refused"),
    ]
    assert (lines[2]["episode_id"], lines[2]["end"], lines[2]["reward"]) == ("the-episode", "submit", 1.0)
    assert "end" not in lines[3] and all(line["seconds"] >= 0 for line in lines)


def test_log_lines_hold_no_secrets() -> None:
    formatter = JsonLines((KEY,))
    message = f"GET /x?token=abc123 X-API-Key: {KEY[:-1]}z Authorization: Bearer s3cret; also {KEY}"
    try:
        raise ValueError(message)
    except ValueError as error:
        record = logging.LogRecord(
            "etude", logging.ERROR, "f", 1, message, (), (type(error), error, error.__traceback__)
        )
    line = formatter.format(record)
    assert json.loads(line)["message"] == "GET /x?token=*** X-API-Key: *** Authorization: Bearer ***; also ***"
    assert not any(secret in line for secret in (KEY, "abc123", "s3cret", KEY[:-1] + "z"))


def test_unknown_log_format_gets_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert serve(None, port=0, environment="drill", log_format="xml") == 1
    assert capfd.readouterr().err == "error: the log format is 'xml': give text or json\n"


# --- probes and metrics


def values(url: str, headers: dict[str, str]) -> dict[str, float]:
    answer = httpx.get(f"{url}/metrics", headers=headers)
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def test_metrics_count_calls_episodes_rewards_and_refusals(light: Any) -> None:
    with light.serving(light.light_app(max_sessions=1)) as running:
        with etude_connect(running.url) as client:
            client.reset(task_id="light-1")
            client.step(light.say("answer-1"))
            client.step(light.SUBMIT)
            with pytest.raises(ServerError):
                client.step(light.SUBMIT)
            client.reset(task_id="light-1")
            client.step(light.SUBMIT)
            assert httpx.get(f"{running.url}/readyz").status_code == 503
            assert httpx.get(f"{running.url}/readyz").json()["reason"] == "every session is in use"
            with pytest.raises(ServerError), etude_connect(running.url) as second:
                second.reset(task_id="light-1")
            counted = values(running.url, {})
        expected = {
            "etude_sessions": 1,
            "etude_sessions_limit": 1,
            "etude_calls_total reset ok": 2,
            "etude_calls_total step ok": 3,
            "etude_calls_total step refused": 1,
            "etude_call_seconds_count step": 4,
            "etude_episodes_total submit": 2,
            "etude_reward_count": 2,
            "etude_reward_sum": 1,
            "etude_refused_total capacity": 1,
        }
        assert {name: counted.get(name) for name in expected} == expected
        assert counted["process_resident_memory_bytes"] > 0


def test_readyz_answers_503_without_tasks(light: Any) -> None:
    from etude.environments.tasks.task_set import TaskSet
    from etude.server.app import create_app

    with light.serving(create_app(TaskSet([]))) as running:
        answer = httpx.get(f"{running.url}/readyz")
    assert (answer.status_code, answer.json()["reason"], answer.json()["tasks"]) == (503, "no tasks", 0)
