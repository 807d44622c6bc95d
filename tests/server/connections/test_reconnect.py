"""Sessions that outlive their sockets: the same turn after a drop, each numbered frame played once, bounded waits."""

from __future__ import annotations

import json
import math
import socket
from typing import Any

import httpx
import pytest
from helpers.slow_sessions import SlowSession, slow_server
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as ws_connect

from etude.client import RECONNECT_HEADER, SESSION_HEADER, connect
from etude.errors import ServerFull
from etude.server.connections.answers import RecordedAnswers
from etude.server.serving import serve


def opened(url: str, token: str = "") -> ClientConnection:
    headers = {SESSION_HEADER: token} if token else {}
    return ws_connect(f"ws{url.removeprefix('http')}/ws", proxy=None, additional_headers=headers)


def ask(connection: ClientConnection, kind: str, data: Any = None, number: int | None = None) -> dict[str, Any]:
    frame = {"type": kind, **({} if data is None else {"data": data}), **({} if number is None else {"id": number})}
    connection.send(json.dumps(frame))
    return json.loads(connection.recv(timeout=30))


def begun(url: str) -> tuple[ClientConnection, str]:
    """Return a connection whose episode has begun with frame 1, and the token of its session."""
    connection = opened(url)
    assert ask(connection, "reset", {}, 1)["id"] == 1
    return connection, ask(connection, "state")["data"]["token"]


def drop(connection: ClientConnection) -> None:
    """Lose a connection without a close frame."""
    connection.socket.shutdown(socket.SHUT_RDWR)


def content(answer: dict[str, Any]) -> str:
    return answer["data"]["observation"]["messages"][0]["content"]


def test_session_goes_on_at_the_same_turn_when_its_client_connects_again(light: Any, served: Any) -> None:
    before = served.sessions
    first, token = begun(served.url)
    ask(first, "step", light.say("a"))
    drop(first)
    second = opened(served.url, token)
    assert content(ask(second, "step", light.say("b"))) == "ok\na,b"
    assert ask(second, "state")["data"]["step_count"] == 2
    assert served.sessions == before + 1
    second.close()
    assert served.wait_until(lambda: served.sessions == before)


def test_call_goes_on_without_its_client_and_is_played_once(light: Any) -> None:
    with slow_server(light) as served:
        first, token = begun(served.url)
        first.send(json.dumps({"type": "step", "id": 2, "data": light.say("slow")}))
        assert SlowSession.started.wait(30)
        drop(first)
        second = opened(served.url, token)
        second.send(json.dumps({"type": "step", "id": 2, "data": light.say("slow")}))
        SlowSession.go.set()
        answer = json.loads(second.recv(timeout=30))
        assert (answer["id"], content(answer)) == (2, "ok\nslow")
        answer = ask(second, "state")
        assert (answer["type"], answer["data"]["step_count"]) == ("state", 1), "one answer came, not two"
        second.close()


def test_repeated_frame_gets_the_recorded_answer_and_is_not_played(light: Any, served: Any) -> None:
    first, token = begun(served.url)
    answer = ask(first, "step", light.say("a"), 2)
    assert ask(first, "step", light.say("a"), 2) == answer
    drop(first)
    second = opened(served.url, token)
    assert ask(second, "step", light.say("a"), 2) == answer
    assert ask(second, "state")["data"]["step_count"] == 1
    assert content(ask(second, "step", light.say("a"), 3)) == "ok\na,a", "the same action with a new id is a new turn"
    second.close()


@pytest.mark.parametrize(
    ("number", "text", "code", "reason"),
    [
        (4, "b", "OUT_OF_ORDER", "frame 4 is out of order: ids count up by one; send frame 3 next"),
        (2, "b", "OUT_OF_ORDER", "frame 2 was another frame: give a new frame the next id, which is 3"),
        (0, "b", "VALIDATION_ERROR", "the id of a frame must be a whole number from 1 on"),
        (True, "b", "VALIDATION_ERROR", "the id of a frame must be a whole number from 1 on"),
        ("3", "b", "VALIDATION_ERROR", "the id of a frame must be a whole number from 1 on"),
    ],
)
def test_frame_out_of_order_is_refused_and_changes_nothing(
    number: Any, text: str, code: str, reason: str, light: Any, served: Any
) -> None:
    with begun(served.url)[0] as connection:
        ask(connection, "step", light.say("a"), 2)
        assert ask(connection, "step", light.say(text), number)["data"] == {"message": reason, "code": code}
        assert ask(connection, "state")["data"]["step_count"] == 1
        assert content(ask(connection, "step", light.say("c"), 3)) == "ok\na,c"


def test_frames_without_ids_are_played_each_time(light: Any, served: Any) -> None:
    with begun(served.url)[0] as connection:
        answers = [ask(connection, "step", light.say("a")) for _ in range(2)]
        assert [content(answer) for answer in answers] == ["ok\na", "ok\na,a"]
        assert "id" not in answers[0]


def test_refused_call_is_an_answer_that_is_recorded(light: Any, served: Any) -> None:
    with opened(served.url) as connection:
        answer = ask(connection, "step", light.say("a"), 1)
        assert (answer["id"], answer["type"]) == (1, "error") and "reset first" in answer["data"]["message"]
        assert ask(connection, "step", light.say("a"), 1) == answer
        assert ask(connection, "reset", {}, 2)["type"] == "observation"


def test_recorded_answers_are_bounded_in_number_and_size() -> None:
    answers = RecordedAnswers(most=3, most_bytes=1000)
    for number in range(1, 6):
        assert answers.begin(number, "frame") is None
        answers.record(number, "frame", f"answer {number}")
    assert answers.begin(5, "frame") == "answer 5" and answers.begin(3, "frame") == "answer 3"
    assert "not stored any more" in (answers.begin(2, "frame") or "")
    assert answers.begin(6, "frame") is None
    answers.record(6, "frame", "x" * 5000)
    assert answers.begin(6, "frame") == "x" * 5000, "the newest answer is stored whatever its size"
    assert "not stored any more" in (answers.begin(5, "frame") or "")


def test_wrong_token_opens_no_session(light: Any, served: Any) -> None:
    first, token = begun(served.url)
    drop(first)
    with opened(served.url, "0" * 32) as stranger:
        answer = json.loads(stranger.recv(timeout=30))
        assert answer["data"]["code"] == "SESSION_GONE" and token not in json.dumps(answer)
        with pytest.raises(ConnectionClosed):
            stranger.recv(timeout=30)
    with opened(served.url, token) as second:
        assert ask(second, "state")["data"]["token"] == token


def test_session_ends_when_its_client_stays_away(light: Any) -> None:
    with light.serving(light.light_app(reconnect_s=0.2)) as served:
        closed = light.LightSession.closed_count
        first, token = begun(served.url)
        drop(first)
        assert served.wait_until(lambda: served.sessions == 0)
        assert served.wait_until(lambda: light.LightSession.closed_count == closed + 1)
        with opened(served.url, token) as second:
            assert json.loads(second.recv(timeout=30))["data"]["code"] == "SESSION_GONE"


def test_running_call_is_cut_off_when_its_client_stays_away(light: Any) -> None:
    with light.serving(light.light_app(reconnect_s=0.2)) as served:
        light.LightSession.hanging.clear()
        first, _ = begun(served.url)
        first.send(json.dumps({"type": "step", "data": light.call("hang")}))
        assert light.LightSession.hanging.wait(20)
        drop(first)
        assert served.wait_until(lambda: served.sessions == 0)


def test_session_ends_at_once_when_its_client_closes_it(light: Any) -> None:
    with light.serving(light.light_app()) as served:
        for end in ({"type": "close"}, None):
            connection, token = begun(served.url)
            if end is not None:
                connection.send(json.dumps(end))
            connection.close()
            assert served.wait_until(lambda: served.sessions == 0)
            with opened(served.url, token) as second:
                assert json.loads(second.recv(timeout=30))["data"]["code"] == "SESSION_GONE"


def test_session_ends_at_once_when_no_session_waits(light: Any) -> None:
    with light.serving(light.light_app(reconnect_s=0)) as served:
        first, token = begun(served.url)
        drop(first)
        assert served.wait_until(lambda: served.sessions == 0)
        with opened(served.url, token) as second:
            assert json.loads(second.recv(timeout=30))["data"]["code"] == "SESSION_GONE"


def test_waiting_session_counts_in_admission(light: Any) -> None:
    with light.serving(light.light_app(max_sessions=1)) as served:
        first, token = begun(served.url)
        drop(first)
        metric = "etude_sessions_waiting 1.0"
        assert served.wait_until(lambda: metric in httpx.get(f"{served.url}/metrics").text)
        with connect(served.url) as other, pytest.raises(ServerFull):
            other.reset()
        with opened(served.url, token) as second:
            assert ask(second, "state")["data"]["step_count"] == 0


def test_second_connection_takes_the_place_of_the_first(light: Any, served: Any) -> None:
    first, token = begun(served.url)
    second = opened(served.url, token)
    assert content(ask(second, "step", light.say("b"), 2)) == "ok\nb"
    with pytest.raises(ConnectionClosed) as closed:
        first.recv(timeout=30)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 4001
    third = opened(served.url, token)
    assert content(ask(third, "step", light.say("c"), 3)) == "ok\nb,c"
    third.close()


def test_stopping_server_ends_a_waiting_session(light: Any) -> None:
    tasks, sessions = light.task_set(), []

    def make() -> Any:
        sessions.append(light.LightSession(tasks))
        return sessions[-1]

    with light.serving(light.light_app(tasks, make_session=make)) as served:
        first, _ = begun(served.url)
        drop(first)
        metric = "etude_sessions_waiting 1.0"
        assert served.wait_until(lambda: metric in httpx.get(f"{served.url}/metrics").text)
        assert not any(session.closed for session in sessions)
    assert sessions and all(session.closed for session in sessions)


def test_session_of_plain_http_waits_for_no_socket(light: Any, served: Any) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {}}
    session = httpx.post(f"{served.url}/mcp", json=request).json()["result"]["session_id"]
    address = f"ws{served.url.removeprefix('http')}/ws?session_id={session}"
    first = ws_connect(address, proxy=None)
    ask(first, "reset", {})
    ask(first, "state")
    drop(first)
    sessions = served.app.state.sessions
    assert served.wait_until(lambda: session not in sessions._session_websocket_attachments)
    with ws_connect(address, proxy=None) as second:
        assert content(ask(second, "step", light.say("a"))) == "ok\na"
    httpx.post(
        f"{served.url}/mcp", json={**request, "method": "openenv/session/close", "params": {"session_id": session}}
    )


def test_server_names_how_long_it_waits(light: Any) -> None:
    with light.serving(light.light_app(reconnect_s=7.5)) as served, opened(served.url) as connection:
        assert connection.response is not None and connection.response.headers[RECONNECT_HEADER] == "7.5"


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf"])
def test_serve_prints_one_line_when_the_time_to_reconnect_is_no_number(
    value: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETUDE_RECONNECT", value)
    assert serve(None, port=0) == 1
    expected = f"error: ETUDE_RECONNECT is {value!r}: give a number of seconds, 0 to keep no session\n"
    assert capfd.readouterr().err == expected


@pytest.mark.parametrize("option", ["reconnect_s", "drain_s"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_serve_prints_one_line_when_a_chosen_time_is_no_number_of_seconds(
    option: str, value: float, capfd: pytest.CaptureFixture[str]
) -> None:
    assert serve(None, port=0, **{option: value}) == 1
    error = capfd.readouterr().err
    assert f"is '{value}': give a number of seconds, 0 " in error and error.count("\n") == 1
