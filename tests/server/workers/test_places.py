"""Places in tokens, and the requests that name them."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

from etude.client import connect
from etude.server.admission import ServerLimits
from etude.server.workers.place import Place, new_place, place_in
from etude.server.workers.request_head import MAX_HEAD, RequestHead, read_head

HERE, OTHER, EARLIER = Place("blue", 1, "2a"), Place("green", 1, "2a"), Place("blue", 1, "29")


def read(*parts: bytes) -> RequestHead | None:
    """Return what the front reads of a connection on which these parts arrive one by one, before it is closed."""
    near, far = socket.socketpair()
    near.setblocking(False)

    async def send() -> None:
        for part in parts:
            await asyncio.get_running_loop().sock_sendall(far, part)
            await asyncio.sleep(0)
        far.close()

    async def both() -> RequestHead | None:
        far.setblocking(False)
        sending = asyncio.create_task(send())
        head = await read_head(near)
        await sending
        return head

    with near, far:
        return asyncio.run(both())


def test_tokens_name_their_place_and_others_name_none() -> None:
    for place in (HERE, Place("", 3, "ff"), new_place("pod-0"), new_place("", 2)):
        assert place_in(place.prefix + "secret") == place
    assert Place().prefix == "" and new_place() == Place()
    for token in ("", "secret", "a.b.c.secret", "blue.1.2a.", "blue.1.2a", "x y.1.2a.s", ".99999.2a.s"):
        assert place_in(token) is None, token


@pytest.mark.parametrize("name", ["a.b", "a b", "x" * 64, "ä"])
def test_a_replica_needs_a_name_that_tokens_can_carry(name: str) -> None:
    with pytest.raises(ValueError, match="--replica is .*: give letters"):
        new_place(name)


@pytest.mark.parametrize(
    "line",
    [
        f"X-Etude-Session: {HERE.prefix}s",
        f"X-Etude-Near: {HERE.prefix}s",
        f"Cookie: a=b; etude_session={HERE.prefix}s",
        f"Authorization: Bearer {HERE.prefix}s",
        f"X-Session-Tokens: {HERE.prefix}s {OTHER.prefix}s",
    ],
)
def test_a_head_names_the_place_of_its_token(line: str) -> None:
    head = read(b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: web", f"socket\r\n{line}\r\n".encode(), b"\r\nrest")
    assert head is not None and head.places[0] == HERE
    assert head.opens_session is not line.startswith("X-Etude-Session")
    assert head.data.endswith(b"\r\n\r\nrest")


def test_a_call_of_mcp_names_the_place_of_its_session_wherever_it_is_in_the_body() -> None:
    body = b'{"params": {"text": "%s", "session_id": "%ss"}}' % (b"x" * 200_000, HERE.prefix.encode())
    head = read(b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body), body[:9], body[9:])
    assert head is not None and head.places == [HERE] and head.data.endswith(body[-9:])
    other = read(b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]")
    assert other is not None and other.places == []


def test_what_is_no_request_is_read_up_to_a_limit_for_a_worker_to_refuse() -> None:
    long = read(b"GET /" + b"x" * 2 * MAX_HEAD)
    assert long is not None and (long.method, long.places) == ("", []) and len(long.data) > MAX_HEAD
    broken = read(b"\x16\x03\x01\r\n\r\n")
    assert broken is not None and broken.method == ""
    assert read(b"GET / HT") is None


def test_workers_share_the_slots_and_have_one_each() -> None:
    limits = ServerLimits(sessions=9, executions=7, gradings=1)
    assert limits.of_worker(0) == limits
    assert limits.of_worker(2) == ServerLimits(sessions=9, executions=3, gradings=1)


def test_a_session_of_another_place_is_refused_with_the_place(light: object) -> None:
    with light.serving(light.light_app(place=HERE)) as served, connect(served.url) as client:  # type: ignore[attr-defined]
        client.reset(task_id="light-1", episode_id="one")
        token = client.state().token or ""
        assert place_in(token) == HERE

        def status(method: str, path: str, **headers: str) -> tuple[int, str]:
            answer = httpx.request(method, served.url + path, headers=headers, json={"task_id": "light-1"})
            return answer.status_code, answer.headers.get("x-etude-replica", "")

        assert status("GET", "/episodes/one", Authorization=f"Bearer {token}") == (200, "")
        assert status("GET", "/episodes/one", Authorization=f"Bearer {OTHER.prefix}x") == (421, "green")
        assert status("GET", "/episodes/one", Authorization=f"Bearer {EARLIER.prefix}x") == (410, "blue")
        assert status("GET", "/episodes/one", Authorization="Bearer x") == (401, "")
        assert status("POST", "/say", Cookie=f"etude_session={OTHER.prefix}x") == (421, "green")
        assert status("POST", "/say", Cookie=f"etude_session={EARLIER.prefix}x") == (410, "blue")
        assert status("POST", "/seed_session", Cookie=f"etude_session={OTHER.prefix}x") == (421, "green")
        seeded = httpx.post(
            f"{served.url}/seed_session",
            json={"task_id": "light-1"},
            headers={"Cookie": f"etude_session={EARLIER.prefix}x"},
        )
        assert seeded.status_code == 200 and place_in(seeded.cookies["etude_session"]) == HERE


def test_a_socket_for_a_session_of_another_place_is_refused_before_it_opens(light: object) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect as connect_socket

    with light.serving(light.light_app(place=HERE)) as served:  # type: ignore[attr-defined]
        address = served.url.replace("http", "ws") + "/ws"
        for place, expected in ((OTHER, 421), (EARLIER, 410)):
            with pytest.raises(InvalidStatus) as refused:
                connect_socket(address, proxy=None, additional_headers={"X-Etude-Near": place.prefix + "x"})
            assert refused.value.response.status_code == expected
            assert refused.value.response.headers["x-etude-replica"] == place.replica
        with connect_socket(address, proxy=None, additional_headers={"X-Etude-Near": HERE.prefix + "x"}):
            pass


def test_a_fork_of_an_episode_elsewhere_says_where_it_is(light: object) -> None:
    from etude.errors import ServerError

    elsewhere = "on worker 1 of replica green: connect with the header x-etude-near"
    with (
        light.serving(light.light_app(place=HERE)) as served,  # type: ignore[attr-defined]
        connect(served.url) as client,
        pytest.raises(ServerError, match=elsewhere),
    ):
        client.reset(fork_of="one", turn=0, token=OTHER.prefix + "x")
