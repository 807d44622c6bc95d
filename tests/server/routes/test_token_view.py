"""The viewer on a served environment: it shows the episodes of the tokens that it is given, and no secret."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from helpers import light_server
from helpers.browser import chromium, opened

from etude.client import SyncClient, connect
from etude.models import State

KEY = "a-key-of-24-characters--"


@pytest.fixture(scope="module")
def served() -> Iterator[Any]:
    with light_server.serving(light_server.light_app()) as running:
        yield running


def played(client: SyncClient, episode_id: str, *actions: dict[str, Any]) -> State:
    client.reset(task_id="light-0", episode_id=episode_id)
    for action in actions:
        client.step(action)
    return client.state()


def index(url: str, *tokens: str | None, after: str = "") -> dict[str, Any]:
    headers = {"X-Session-Tokens": " ".join(map(str, tokens))}
    return dict(httpx.get(f"{url}/view/data/index", params={"after": after}, headers=headers).json())


def test_view_shows_the_episodes_of_its_tokens_alone(served: Any) -> None:
    with connect(served.url) as one, connect(served.url) as other:
        played(one, "first", light_server.SUBMIT)
        mine = played(one, "second", light_server.say("x"))
        foreign = played(other, "third", light_server.SUBMIT)
        assert {row["episode"] for row in index(served.url, mine.token)["rows"]} == {"first", "second"}
        both = index(served.url, mine.token, foreign.token)["rows"]
        assert {row["episode"] for row in both} == {"first", "second", "third"}
        assert [row["episode"] for row in both if row["running"]] == ["second"]
        for tokens in ((), ("x" * 32,), (str(mine.token)[:-1],)):
            assert index(served.url, *tokens)["rows"] == []


def test_view_shows_a_running_episode_turn_by_turn(served: Any) -> None:
    with connect(served.url) as client:
        token = played(client, "live", light_server.say("x")).token
        before = index(served.url, token)
        assert index(served.url, token, after=before["cursor"])["rows"] == []
        client.step(light_server.say("y"))
        (row,) = index(served.url, token, after=before["cursor"])["rows"]
        assert (before["rows"][0]["turns"], row["turns"], row["id"]) == (1, 2, before["rows"][0]["id"])


def test_view_needs_the_token_for_each_episode(served: Any) -> None:
    with connect(served.url) as client:
        token = str(played(client, "guarded", light_server.SUBMIT).token)
        (row,) = index(served.url, token)["rows"]
        address = f"{served.url}/view/data/episodes/{row['id']}"
        assert httpx.get(address, headers={"X-Session-Tokens": token}).status_code == 200
        assert httpx.get(address).status_code == 401
        assert httpx.get(address, headers={"X-Session-Tokens": "x" * 32}).status_code == 401
        assert token not in row["id"]


def test_view_carries_no_secret(served: Any) -> None:
    with connect(served.url) as client:
        token = str(played(client, "secret", light_server.say("x"), light_server.SUBMIT).token)
        rows = index(served.url, token)
        address = f"{served.url}/view/data/episodes/{rows['rows'][0]['id']}"
        detail = httpx.get(address, headers={"X-Session-Tokens": token}).text
        answers = [httpx.get(f"{served.url}/view").text, str(rows), detail]
    assert "Say the answer of exercise 0." in answers[2]
    for answer in answers:
        for canary in light_server.CANARIES:
            assert canary not in answer


def test_key_is_the_password_that_a_browser_asks_for() -> None:
    with light_server.serving(light_server.light_app(api_key=KEY)) as locked:
        refused = httpx.get(f"{locked.url}/view")
        assert (refused.status_code, refused.headers["www-authenticate"].split()[0]) == (401, "Basic")
        for path in ("/view", "/view/data/index"):
            assert httpx.get(locked.url + path, auth=("any", KEY)).status_code == 200
            assert httpx.get(locked.url + path, auth=("any", KEY[:-1])).status_code == 401
            assert httpx.get(locked.url + path, headers={"Authorization": "Basic %%%"}).status_code == 401
        credentials = base64.b64encode(f"any:{KEY}".encode()).decode()
        for path in ("/tasks", "/episodes/x", "/viewer"):  # elsewhere a browser would send it by itself
            assert httpx.get(locked.url + path, headers={"Authorization": f"Basic {credentials}"}).status_code == 401


def test_browser_shows_episodes_once_it_has_a_token(served: Any) -> None:
    with connect(served.url) as client:
        token = str(played(client, "seen", light_server.say("x")).token)
        with chromium() as browser, opened(browser) as page:
            page.goto(f"{served.url}/view")
            page.wait_for_selector(".tokens")
            assert "No episodes for these tokens" in page.locator(".empty").inner_text()
            page.fill("input[name=tokens]", token)
            page.click(".tokens button")
            page.click(".window .row >> text=light-0")
            page.wait_for_selector("#turn-0")
            client.step(light_server.say("y"))
            page.wait_for_selector("#turn-1")
            page.keyboard.press("f")
            command = page.locator(".fork .command").inner_text()
            assert token not in page.url
    assert 'client.reset(fork_of="seen", turn=0, token=TOKEN)' in command
