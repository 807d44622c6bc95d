"""Etude's client over a network that fails: it connects again by itself, in a bounded number of tries."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from helpers.slow_sessions import SlowSession, slow_server

from etude.benchmarks.chaos_parts.network import faulty_network
from etude.client import connect
from etude.errors import ConnectionLost
from etude.server.workers.place import Place


def test_etudes_client_connects_again_by_itself(light: Any) -> None:
    with slow_server(light) as served, faulty_network(served.url) as network, connect(network.url) as client:
        client.reset(task_id="light-1")
        assert client.step(light.say("answer-1")).messages[0].content == "ok\nanswer-1"
        network.cut()
        assert client.step(light.say("x")).messages[0].content == "ok\nanswer-1,x"
        cutter = threading.Thread(target=lambda: (SlowSession.started.wait(30), network.cut(), SlowSession.go.set()))
        cutter.start()
        assert client.step(light.say("slow")).messages[0].content == "ok\nanswer-1,x,slow"
        cutter.join()
        network.cut()
        last = client.step(light.SUBMIT)
        assert (last.done, last.reward) == (True, 1.0)
        assert client.state().step_count == 4
        assert network.connections == 4


def test_etudes_client_starts_its_first_episode_in_a_new_session_when_the_connection_drops(light: Any) -> None:
    with light.serving(light.light_app()) as served, faulty_network(served.url) as network:
        with connect(network.url) as client:
            network.cut()
            assert client.reset(task_id="light-1").prompt
            assert client.step(light.say("a")).messages[0].content == "ok\na"
        assert served.wait_until(lambda: served.sessions == 0)


def test_etudes_client_gives_up_after_its_tries(light: Any) -> None:
    with light.serving(light.light_app()) as served:
        with faulty_network(served.url) as network:
            client = connect(network.url, reconnect_tries=2)
            client.reset()
        with pytest.raises(ConnectionLost, match="and 2 tries to connect again failed"):
            client.step(light.say("a"))
        client.close()


def test_etudes_client_says_when_its_session_is_gone(light: Any) -> None:
    with light.serving(light.light_app(reconnect_s=0.05)) as served, faulty_network(served.url) as network:
        client = connect(network.url)
        client.reset()
        network.cut()
        assert served.wait_until(lambda: served.sessions == 0)
        with pytest.raises(ConnectionLost, match="the server closed the session: no session"):
            client.step(light.say("a"))
        client.connect()
        assert client.reset().prompt, "the same client starts another session"
        client.close()


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (Place("blue", 1, "29"), "410: this session ended with its process"),
        (Place("green", 1, "2a"), "421: this session is on worker 1 of replica green"),
    ],
)
def test_etudes_client_says_at_once_when_its_session_is_in_another_process(
    light: Any, place: Place, reason: str
) -> None:
    application = light.light_app(place=Place("blue", 1, "2a"))
    with light.serving(application) as served, faulty_network(served.url) as network:
        client = connect(network.url)
        client.reset()
        client._client._socket.token = f"{place.prefix}x"
        network.cut()
        with pytest.raises(ConnectionLost, match=reason):
            client.step(light.say("a"))
        assert network.connections == 2, "it tried once"
        client.close()


def test_etudes_client_loses_its_session_when_it_may_not_connect_again(light: Any) -> None:
    with light.serving(light.light_app()) as served, faulty_network(served.url) as network:
        client = connect(network.url, reconnect_tries=0)
        client.reset()
        network.cut()
        with pytest.raises(ConnectionLost, match="the server closed the session"):
            client.step(light.say("a"))
        client.close()
