"""Names that a server answers to, how often a client may ask, and requests that fail in an unforeseen way."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from openenv.core.generic_client import GenericEnvClient
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from etude.client import connect as etude_connect
from etude.errors import ServerError
from etude.server.access import HostNames, Rates, RateSettings
from etude.server.serving import serve


def ws(url: str, **options: Any) -> Any:
    return connect("ws" + url.removeprefix("http") + "/ws", proxy=None, **options)


def refused_count(url: str, reason: str) -> float:
    text = httpx.get(f"{url}/metrics").text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(
        sample.value for sample in samples if sample.name == "etude_refused_total" and reason in sample.labels.values()
    )


# --- the server's names


@pytest.fixture(scope="module")
def named(light: Any) -> Iterator[Any]:
    """A server as `etude serve` makes it on a loopback address, with one allowed name and one pattern."""
    with light.serving(light.light_app(hosts=["gym.example", "*.inner.example"])) as running:
        yield running


@pytest.mark.parametrize("host", ["evil.example", "gym.example.evil.example", "evilgym.example", "inner.example", "["])
def test_requests_to_another_name_are_refused(named: Any, host: str) -> None:
    for path in ("/tasks", "/", "/healthz", "/view", "/openapi.json"):
        answer = httpx.get(named.url + path, headers={"Host": host, "X-Forwarded-Host": "gym.example"})
        assert answer.status_code == 421
        assert answer.json() == {
            "detail": f"this server is not called {host!r}: allow it with --allowed-host or ETUDE_ALLOWED_HOSTS"
        }


@pytest.mark.parametrize(
    "host",
    ["gym.example", "GYM.example.:8000", "a.b.inner.example", "localhost", "x.localhost:1", "127.0.0.9:80", "[::1]:80"],
)
def test_requests_to_the_servers_names_and_to_addresses_pass(named: Any, host: str) -> None:
    assert httpx.get(f"{named.url}/tasks", headers={"Host": host}).status_code == 200


def test_page_of_a_site_whose_name_points_at_the_server_gets_no_socket(named: Any) -> None:
    before = refused_count(named.url, "host")
    port = named.url.rpartition(":")[2]
    rebound = {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"}
    assert httpx.post(f"{named.url}/reset", json={}, headers=rebound).status_code == 421
    with socket.create_connection(("127.0.0.1", int(port))) as raw, pytest.raises(InvalidStatus) as refused:
        connect(f"ws://evil.example:{port}/ws", sock=raw, proxy=None)
    assert refused.value.response.status_code == 403
    assert refused_count(named.url, "host") == before + 2


def test_clients_and_proxies_play_on_a_server_that_checks_names(named: Any, light: Any) -> None:
    port = named.url.rpartition(":")[2]
    for url in (named.url, f"http://localhost:{port}"):
        with GenericEnvClient(base_url=url).sync() as client:
            client.reset(task_id="light-1")
            assert client.step(light.SUBMIT).done
        with etude_connect(url) as own:
            assert own.reset(task_id="light-1").prompt
    # A proxy sends its upstream's address or, with `proxy_set_header Host $host`, the name that the browser asked for.
    with socket.create_connection(("127.0.0.1", int(port))) as raw:
        connect("ws://gym.example/ws", sock=raw, proxy=None, origin="http://gym.example").close()  # type: ignore[arg-type]


class Stopped(Exception):
    """Raised to leave a server that is about to start."""


def stop(address: str) -> None:
    raise Stopped


@pytest.mark.parametrize(
    ("host", "options", "variable", "names"),
    [
        ("127.0.0.1", None, "", []),
        ("::1", None, "", []),
        ("127.0.0.1", ["gym.example"], "other.example", ["gym.example"]),
        ("127.0.0.1", None, "a.example, *.b.example", ["a.example", "*.b.example"]),
        ("127.0.0.1", ["*"], "", ["*"]),
        ("0.0.0.0", None, "", ["*"]),
        ("0.0.0.0", ["gym.example"], "", ["gym.example"]),
    ],
)
def test_serve_checks_names_on_loopback_addresses_unless_it_is_given_others(
    monkeypatch: pytest.MonkeyPatch, host: str, options: list[str] | None, variable: str, names: list[str]
) -> None:
    from etude.server.workers import settings

    chosen: list[list[str]] = []
    original = settings.create_app

    def create_app(*arguments: Any, **named: Any) -> Any:
        chosen.append(HostNames(named["hosts"]).names)
        return original(*arguments, **named)

    monkeypatch.setattr(settings, "create_app", create_app)
    monkeypatch.setenv("ETUDE_ALLOWED_HOSTS", variable)
    with suppress(Stopped):
        assert serve(None, host, 0, environment="drill", allowed_hosts=options, ready=stop) == 0
    assert chosen == [names]


@pytest.mark.parametrize("name", ["http://gym.example", "gym.example:8000", "a*.example", "*.", "gÿm.example"])
def test_name_that_is_no_host_name_gets_one_line(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert serve(None, port=0, environment="drill", allowed_hosts=[name], ready=stop) == 1
    error = capfd.readouterr().err
    assert error.startswith(f"error: {name!r} is not a host name: give names without scheme") and error.count("\n") == 1


# --- how often a client may ask


def test_rate_allows_a_seconds_worth_at_once_and_then_one_for_each_interval() -> None:
    now = [100.0]
    rates = Rates(4, clock=lambda: now[0])
    assert [rates.ask("one") for _ in range(4)] == [0, 0, 0, 0]
    assert rates.ask("one") == pytest.approx(0.25) and rates.ask("other") == 0
    now[0] += 0.25
    assert rates.ask("one") == 0 and rates.ask("one") == pytest.approx(0.25)
    assert [rates.reserve("one"), rates.reserve("one")] == pytest.approx([0.25, 0.5]), "those that wait queue up"
    now[0] += 60
    assert [rates.ask("one") for _ in range(5)] == pytest.approx([0, 0, 0, 0, 0.25])
    assert {Rates(0).ask("one") for _ in range(100)} == {0}


def test_rates_remember_a_bounded_number_of_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etude.server.access.request_rates.MAX_CLIENTS", 3)
    rates = Rates(1, clock=lambda: 0.0)
    for name in ("a", "b", "c", "d"):
        rates.ask(name)
    assert [bool(rates.ask(name)) for name in ("d", "c", "b", "a")] == [True, True, True, False]


def test_requests_over_the_rate_get_429_and_the_seconds_to_wait(light: Any) -> None:
    with light.serving(light.light_app(rates=RateSettings(requests=5), api_key="k" * 32)) as served:
        answers = [httpx.get(f"{served.url}/tasks") for _ in range(40)]
        late = [answer for answer in answers if answer.status_code == 429]
        assert late and {answer.status_code for answer in answers} == {401, 429}, "a key cannot be guessed faster"
        assert all(1 <= int(answer.headers["retry-after"]) <= 2 for answer in late)
        assert late[0].json()["detail"].startswith("too many requests: try again in ")
        assert late[0].headers["x-request-id"]
        assert {httpx.get(f"{served.url}/healthz").status_code for _ in range(20)} == {200}, "probes have no limit"


def test_connections_over_the_rate_get_429_and_frames_wait(light: Any) -> None:
    rates = RateSettings(requests=10, connections=2)
    with light.serving(light.light_app(rates=rates)) as served:
        with ws(served.url) as first, ws(served.url):
            with pytest.raises(InvalidStatus) as refused:
                for _ in range(10):
                    ws(served.url).close()
            answer = refused.value.response
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
            assert b"too many connections" in (answer.body or b"") and answer.headers["x-request-id"]
            began = time.monotonic()
            for _ in range(25):
                first.send('{"type": "state"}')
            kinds = {json.loads(first.recv(timeout=30))["type"] for _ in range(25)}
            assert kinds == {"state"} and time.monotonic() - began > 1.3, "25 frames at 10 a second, 10 of them at once"
        with pytest.raises(ServerError) as busy:
            for _ in range(10):
                etude_connect(served.url).close()
        assert busy.value.code == "HTTP_429"


@pytest.mark.parametrize("variable", ["ETUDE_CLIENT_REQUESTS", "ETUDE_CLIENT_CONNECTIONS"])
def test_rates_come_from_variables_and_bad_ones_get_one_line(
    variable: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "7")
    field = "requests" if "REQUESTS" in variable else "connections"
    assert getattr(RateSettings.read(), field) == 7
    assert getattr(RateSettings.read(**{field: 3}), field) == 3
    monkeypatch.setenv(variable, "fast")
    assert serve(None, port=0, environment="drill", ready=stop) == 1
    expected = f"error: {variable} is 'fast': give a number for each second, or 0 for no limit\n"
    assert capfd.readouterr().err == expected


def test_archive_that_is_no_number_gets_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETUDE_ARCHIVE_MB", "lots")
    assert serve(None, port=0, environment="drill", ready=stop) == 1
    expected = "error: ETUDE_ARCHIVE_MB is 'lots': give a number of MiB, 0 to keep nothing\n"
    assert capfd.readouterr().err == expected


# --- what nothing has foreseen


def test_unforeseen_failure_shows_its_request_id_alone(light: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = light.light_app()

    @app.get("/broken", include_in_schema=False)
    async def broken() -> None:
        raise RuntimeError(f"cannot read {light.HOST_PATH}/secret")

    app.router.routes.insert(0, app.router.routes.pop())
    with pytest.raises(AssertionError, match="GET /broken: 500"), light.serving(app) as served:
        with caplog.at_level(logging.ERROR, "etude.server.access.gate"):
            answer = httpx.get(f"{served.url}/broken", headers={"X-Request-Id": "job-4"})
        assert (answer.status_code, answer.headers["x-request-id"]) == (500, "job-4")
        assert answer.json() == {"detail": "internal error; the server's log has its cause at request job-4"}
        assert httpx.get(f"{served.url}/tasks").status_code == 200
    assert light.HOST_PATH in caplog.text and "request job-4 failed" in caplog.text


def test_post_to_a_path_with_other_methods_is_a_call_only_for_a_session(served: Any) -> None:
    answer = httpx.post(f"{served.url}/tasks", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert httpx.post(f"{served.url}/no_such_path", json={}).status_code == 409
    with httpx.Client(base_url=served.url) as host:
        host.post("/seed_session", json={"task_id": "light-1"})
        assert host.post("/tasks", json={}).text.startswith("error tool_not_found")
