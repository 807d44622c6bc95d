"""REST session: NeMo Gym's three routes, its cookies, and the reply of ``/verify`` beyond the reward."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partialmethod
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from etude.client import connect as etude_connect
from etude.environments import forks
from etude.environments.drill.tasks import DrillTasks
from etude.environments.tasks.task_set import TaskSet
from etude.models import Episode, SandboxReport
from etude.server import application
from etude.server.app import create_app
from etude.server.routes import rest_session as rest
from etude.server.sessions import Archive
from etude.server.workers.request_head import COOKIE

INPUT = {"input": [{"role": "user", "content": "Say the answer of exercise 1."}]}
ROW = {"task_id": "light-1", "responses_create_params": INPUT, "agent_ref": {"name": "any"}}


@pytest.fixture
def host(served: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        yield client


def seed(host: httpx.Client, row: dict[str, Any] = ROW) -> dict[str, Any]:
    answer = host.post("/seed_session", json=row)
    assert answer.status_code == 200, answer.text
    return answer.json()


def verify(host: httpx.Client, output: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    answer = host.post("/verify", json={**ROW, "response": {"output": output or []}})
    assert answer.status_code == 200, answer.text
    return answer.json()


def called(number: int, name: str, arguments: str, output: str) -> list[dict[str, Any]]:
    """Return a call and its answer in the Responses format."""
    call = {"type": "function_call", "call_id": f"c{number}", "name": name, "arguments": arguments}
    return [call, {"type": "function_call_output", "call_id": f"c{number}", "output": output}]


def test_session_is_seeded_played_and_graded(host: httpx.Client) -> None:
    seeded = seed(host)
    assert seeded["prompt"] == "Say the answer of exercise 1." and seeded["workdir"] == "/workspace"
    assert [tool["function"]["name"] for tool in seeded["tools"]] == ["say", "hang", "crash", "submit"]
    spoken = host.post("/say", json={"text": "answer-1"})
    assert (spoken.status_code, spoken.text) == (200, "ok\nanswer-1")
    assert host.post("/submit", json={}).text == "ok\nsubmitted"
    graded = verify(host)
    assert graded["reward"] == 1.0
    assert graded["reward_components"] == {"fail_to_pass": 1.0, "pass_to_pass": 1.0, "no_confirmed_finding": 1.0}
    assert graded["fail_to_pass"] == 1.0 and graded["end"] == "submit"
    assert graded["responses_create_params"] == INPUT and graded["response"] == {"output": []}


def test_every_answer_sets_the_cookie_again(host: httpx.Client) -> None:
    """NeMo Gym's agents send back the cookies of the last answer alone."""
    answer = host.post("/seed_session", json=ROW)
    for path in ("/say", "/nope", "/submit", "/verify"):
        answer = httpx.post(
            f"{host.base_url}{path}", json={**ROW, "response": None}, cookies=dict(answer.cookies), trust_env=False
        )
        assert answer.status_code == 200 and answer.cookies[COOKIE]


def test_sessions_of_one_server_are_separate(served: Any) -> None:
    with httpx.Client(base_url=served.url) as one, httpx.Client(base_url=served.url) as other:
        seed(one)
        seed(other)
        one.post("/say", json={"text": "answer-1"})
        assert other.post("/say", json={"text": "mine"}).text == "ok\nmine"
        assert (verify(one)["reward"], verify(other)["reward"]) == (1.0, 0.0)
        assert one.cookies[COOKIE] != other.cookies[COOKIE]


def test_error_says_how_to_seed_when_there_is_no_session(served: Any) -> None:
    for path in ("/say", "/verify"):
        answer = httpx.post(f"{served.url}{path}", json={})
        assert answer.status_code == 409 and "POST /seed_session first" in answer.json()["detail"]
    forged = httpx.post(f"{served.url}/verify", json={}, cookies={COOKIE: "forged"})
    assert forged.status_code == 409


@pytest.mark.parametrize(
    ("row", "advice"),
    [
        ({"responses_create_params": INPUT}, "`etude export DIR --format nemo-gym`"),
        ({"task_id": "light-x"}, "light-x"),
        ({"task_id": 7}, "task_id"),
    ],
)
def test_seed_is_refused_when_the_row_names_no_task(
    host: httpx.Client, served: Any, row: dict[str, Any], advice: str
) -> None:
    answer = host.post("/seed_session", json=row)
    assert answer.status_code == 409 and advice in answer.json()["detail"]
    assert served.wait_until(lambda: served.sessions == 0)


@pytest.mark.parametrize("body", [b"[1]", b"{", b"7"])
def test_seed_is_refused_when_the_body_is_not_a_json_object(host: httpx.Client, body: bytes) -> None:
    answer = host.post("/seed_session", content=body)
    assert answer.status_code == 409 and "the body is" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body"), [("/nope", b"{}"), ("/say", b'{"text": 3}'), ("/say", b"{"), ("/say", b"[1]"), ("/say", b"")]
)
def test_call_is_a_turn_whatever_the_model_wrote(host: httpx.Client, path: str, body: bytes) -> None:
    seed(host)
    answer = host.post(path, content=body)
    assert answer.status_code == 200 and answer.text.startswith("error ")
    assert verify(host)["n_error_turns"] == 1


def test_verify_grades_an_episode_without_a_submit(host: httpx.Client) -> None:
    seed(host)
    host.post("/say", json={"text": "answer-1"})
    graded = verify(host, [{"type": "message", "role": "assistant", "content": "I am done."}])
    assert (graded["reward"], graded["end"]) == (1.0, "no_tool_call")


@pytest.mark.parametrize("body", [{**ROW, "response": None}, {**ROW, "response": {"output": []}}])
def test_verify_scores_0_without_error_turns_when_nothing_was_played(host: httpx.Client, body: Any) -> None:
    """Check that the turns with which the server ends the session are not counted as mistakes of the agent."""
    seed(host)
    graded = host.post("/verify", json=body).json()
    assert (graded["reward"], graded["end"]) == (0.0, "no_tool_call")
    assert (graded["error_turns"], graded["n_error_turns"], graded["hints"]) == ([], 0, "")


def test_recovery_of_the_last_mistake_is_unknown_when_the_session_was_cut_short(host: httpx.Client) -> None:
    seed(host)
    host.post("/nope", json={})
    (error,) = verify(host)["error_turns"]
    assert (error["turn"], error["kind"], error["recovered"]) == (0, "tool_not_found", None)


def test_verify_gives_no_score_when_the_episode_does_not_end(light: Any) -> None:
    class Endless(light.LightSession):
        def _grade(self) -> None:
            pass

    tasks = light.task_set()
    app = light.light_app(tasks, make_session=lambda: Endless(tasks))
    with light.serving(app) as served, httpx.Client(base_url=served.url) as host:
        seed(host)
        answer = host.post("/verify", json={**ROW, "response": None})
        assert answer.status_code == 503 and answer.json()["detail"].startswith("infrastructure: the episode did not")


def test_calls_after_the_end_are_not_run(host: httpx.Client) -> None:
    seed(host)
    host.post("/submit", json={})
    assert host.post("/say", json={"text": "answer-1"}).text == "not run: episode ended"
    assert verify(host)["reward"] == 0.0


def test_verify_repeats_its_reply_and_frees_the_session(host: httpx.Client, served: Any) -> None:
    seed(host)
    host.post("/say", json={"text": "answer-1"})
    host.post("/submit", json={})
    first = verify(host)
    assert served.wait_until(lambda: served.sessions == 0)
    assert verify(host) == first
    assert host.post("/say", json={}).text == "not run: episode ended"


def test_seed_ends_the_previous_session_of_the_cookie(host: httpx.Client, served: Any) -> None:
    seed(host)
    seed(host)
    assert served.wait_until(lambda: served.sessions == 1)
    host.post("/submit", json={})
    verify(host)


def test_verify_gives_no_score_when_the_machine_fails(host: httpx.Client, served: Any, light: Any) -> None:
    seed(host)
    host.post("/say", json={"text": "answer-1"})
    for path in ("/crash", "/say", "/verify", "/verify"):
        answer = host.post(path, json=ROW)
        assert answer.status_code == 503 and answer.json()["detail"].startswith("infrastructure: "), path
        assert light.HOST_PATH not in answer.text
    assert served.wait_until(lambda: served.sessions == 0)


def test_verify_gives_no_score_when_the_session_ended_by_idling(light: Any) -> None:
    with light.serving(light.light_app(http_idle_s=0.05)) as served, httpx.Client(base_url=served.url) as host:
        seed(host)
        assert served.wait_until(lambda: served.sessions == 0)
        answer = host.post("/verify", json={**ROW, "response": None})
        assert answer.status_code == 409 and "no score" in answer.json()["detail"]
        assert host.post("/say", json={}).status_code == 409


def test_seed_says_how_to_allow_more_when_the_server_is_full(light: Any) -> None:
    with light.serving(light.light_app(max_sessions=1)) as served, httpx.Client(base_url=served.url) as host:
        seed(host)
        refused = httpx.post(f"{served.url}/seed_session", json=ROW)
        assert refused.status_code == 503 and "MAX_CONCURRENT_ENVS" in refused.json()["detail"]


def test_unplayed_session_is_ended_when_the_server_is_full(light: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "UNPLAYED_S", 0.0)
    with light.serving(light.light_app(max_sessions=2)) as served, contextlib.ExitStack() as stack:
        tried, played, late = (stack.enter_context(httpx.Client(base_url=served.url)) for _ in range(3))
        seed(tried)
        seed(played)
        played.post("/say", json={"text": "answer-1"})
        seed(late)
        assert tried.post("/say", json={}).status_code == 409
        assert played.post("/submit", json={}).text == "ok\nsubmitted" and verify(played)["reward"] == 1.0


# --- What a model names

ODD_NAMES = ["verify", "seed_session", "reset", "step", "mcp", "etude/tasks", "tasks", "docs", "a/b", "session", ""]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_call_is_a_turn_whatever_name_the_model_wrote(host: httpx.Client, name: str) -> None:
    """Hosts post its arguments to /NAME, whatever the name, and show it the answer."""
    seed(host)
    host.post("/say", json={"text": "answer-1"})
    answer = host.post(f"/{name}", json={"task_id": "light-2", "response": {"output": []}})
    assert answer.text == f"error tool_not_found: {name!r}"
    host.post("/submit", json={})
    assert host.post(f"/{name}", json={}).text == "not run: episode ended"
    graded = verify(host)
    assert (graded["reward"], graded["task_id"]) == (1.0, "light-1")
    assert [error["kind"] for error in graded["error_turns"]][:1] == ["tool_not_found"]


@pytest.mark.parametrize("row", [{"task_id": "light-2"}, {**ROW, "task_id": "light-2"}])
def test_a_first_call_cannot_change_the_task(host: httpx.Client, row: dict[str, Any]) -> None:
    seeded = seed(host)
    answer = host.post("/seed_session", json=row)
    assert (answer.status_code, answer.text) == (409, "error tool_not_found: 'seed_session'")
    assert verify(host)["episode_id"] == seeded["episode_id"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"response": {"output": []}},
        {**ROW},
        {**ROW, "task_id": "light-2", "response": None},
        {"responses_create_params": INPUT, "response": None},
        {**ROW, "agent_ref": {"name": "other"}, "response": None},
    ],
)
def test_verify_requires_the_row_that_seeded_the_session(host: httpx.Client, body: dict[str, Any]) -> None:
    seed(host)
    answer = host.post("/verify", json=body)
    assert (answer.status_code, answer.text) == (409, "error tool_not_found: 'verify'")
    first = verify(host)
    assert first["n_error_turns"] == 1
    refused = host.post("/verify", json=body)
    assert refused.status_code == 409 and "the row that seeded the session" in refused.json()["detail"]
    assert verify(host) == first


def test_seed_is_a_turn_when_the_session_was_played_and_not_graded(host: httpx.Client) -> None:
    seed(host)
    host.post("/submit", json={})
    assert host.post("/seed_session", json=ROW).text == "not run: episode ended"
    assert verify(host)["reward"] == 0.0
    assert seed(host, {"task_id": "light-2"})["task_id"] == "light-2"


def test_patch_session_plays_the_call_in_the_body(host: httpx.Client) -> None:
    """Check the request of the bundled NeMo Gym server, with which a model's text never becomes a route."""
    seed(host)
    assert host.patch("/session", json={"name": "say", "arguments": {"text": "answer-1"}}).text == "ok\nanswer-1"
    assert host.patch("/session", json={"name": "verify"}).text == "error tool_not_found: 'verify'"
    assert host.patch("/session", json={"name": ["say"]}).text.startswith("error tool_not_found")
    refused = host.patch("/session", json={"arguments": {}})
    assert refused.status_code == 409 and '{"name": ...' in refused.json()["detail"]
    assert verify(host)["reward"] == 1.0


def test_cookie_of_a_graded_session_leaves_other_routes_alone(host: httpx.Client) -> None:
    seed(host)
    verify(host)
    assert host.post("/reset", json={}).json()["observation"]["prompt"]


# --- Limits of what is stored


def test_verify_repeats_its_reply_after_the_episode_was_dropped(light: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "Archive", lambda: Archive(max_bytes=0))
    with light.serving(light.light_app()) as served, httpx.Client(base_url=served.url) as host:
        seed(host)
        host.post("/nope", json={})
        first = verify(host)
        assert verify(host) == first and first["n_error_turns"] == 1
        other = [*called(1, "say", "{}", "ok"), *called(2, "say", "{}", "timeout 30s")]
        assert {**verify(host, other), "response": first["response"]} == first


def test_stored_replies_are_bounded(light: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with light.serving(light.light_app()) as served, contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(httpx.Client(base_url=served.url)) for _ in range(3)]
        for number, host in enumerate(hosts):
            monkeypatch.setattr(rest, "MAX_BYTES", 1 if number == 2 else 1 << 20)
            seed(host)
            verify(host)
        answers = [host.post("/verify", json={**ROW, "response": None}).json().get("detail", "") for host in hosts]
        assert all("POST /seed_session first" in answer for answer in answers)


def test_graded_session_frees_its_environment(light: Any) -> None:
    tasks, sessions = light.task_set(), []

    def session() -> Any:
        sessions.append(weakref.ref(played := light.LightSession(tasks)))
        return played

    def gone() -> bool:
        gc.collect()
        return sessions[0]() is None

    app = light.light_app(tasks, make_session=session)
    with light.serving(app) as served, httpx.Client(base_url=served.url) as host:
        seed(host)
        host.post("/say", json={"text": "x" * 1000})
        verify(host)
        assert served.wait_until(gone)
        assert verify(host)["reward"] == 0.0


def test_server_answers_while_a_long_rollout_is_annotated(
    host: httpx.Client, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, reply = threading.Event(), threading.Event(), rest.reply

    def slow(*given: Any) -> dict[str, Any]:
        begun.set()
        assert go_on.wait(30)
        return reply(*given)

    monkeypatch.setattr(rest, "reply", slow)
    seed(host)
    with ThreadPoolExecutor(1) as pool:
        graded = pool.submit(verify, host)
        assert begun.wait(30)
        try:
            assert httpx.get(f"{served.url}/health", timeout=10).status_code == 200
        finally:
            go_on.set()
        assert graded.result()["reward"] == 0.0


# --- Rows


def test_row_of_the_server_seeds_its_task(host: httpx.Client, served: Any, light: Any) -> None:
    with etude_connect(served.url) as client:
        rows = client.rows()
        assert [row["task_id"] for row in client.rows("test")] == ["light-3"]
    assert [row["task_id"] for row in rows] == ["light-0", "light-1", "light-2", "light-3"]
    assert seed(host, rows[2])["task_id"] == "light-2"
    assert not [canary for canary in light.CANARIES if canary in json.dumps(rows)]


def test_row_of_a_drill_seeds_the_drill() -> None:
    """Check that the row has the tools of its session, since they differ from task to task."""
    app = create_app(DrillTasks(["choose"], secret="s"), environment="drill")
    with TestClient(app) as host:
        rows = host.get("/rows", params={"split": "train", "limit": 2}).json()
        assert rows["total"] == 1000 and len(rows["rows"]) == 2
        row = rows["rows"][1]
        seeded = seed(host, row)
        assert row["responses_create_params"]["input"][0]["content"] == seeded["prompt"]
        assert [tool["name"] for tool in row["responses_create_params"]["tools"]] == [
            tool["function"]["name"] for tool in seeded["tools"]
        ]
        assert host.post("/no_such_tool", json={}).text.startswith("error tool_not_found")
        graded = host.post("/verify", json={**row, "response": None}).json()
    assert graded["reward"] == 0.0 and graded["task_id"] == row["task_id"]
    assert graded["error_turns"][0]["kind"] == "tool_not_found"


def test_rows_keep_forkable_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks.EpisodeStore, "__init__", partialmethod(forks.EpisodeStore.__init__, max_episodes=3))
    app = create_app(DrillTasks(["choose"], secret="s"), environment="drill")
    with TestClient(app) as host, host.websocket_connect("/ws") as player:
        player.send_json({"type": "reset", "data": {"split": "train", "index": 0, "episode_id": "mine"}})
        player.receive_json()
        assert len(host.get("/rows", params={"limit": 20}).json()["rows"]) == 20
        player.send_json({"type": "reset", "data": {"fork_of": "mine"}})
        assert player.receive_json()["type"] == "observation"


def test_server_answers_between_two_rows(light: Any) -> None:
    turns_of_the_loop, seen = 0, []

    class Counted(light.LightSession):
        async def reset(self, **given: Any) -> Any:
            seen.append(turns_of_the_loop)
            return await super().reset(**given)

    async def count() -> None:
        nonlocal turns_of_the_loop
        while True:
            turns_of_the_loop += 1
            await asyncio.sleep(0)

    async def scenario() -> int:
        tasks = TaskSet([light.task(n).model_copy(update={"environment": "other"}) for n in range(7)])
        app = light.light_app(tasks, make_session=lambda: Counted(tasks))
        counter = asyncio.create_task(count())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as host:
            rows = (await host.get("/rows")).json()["rows"]
        counter.cancel()
        return len(rows)

    assert asyncio.run(scenario()) == 7
    assert len(set(seen)) == 7


# --- Error turns


def test_error_turns_and_hints_are_only_in_the_reply_of_verify(host: httpx.Client) -> None:
    seed(host)
    seen = [host.post("/nope", json={}).text, host.post("/submit", json={}).text]
    graded = verify(host, [*called(1, "nope", "{}", seen[0]), *called(2, "submit", "{}", seen[1])])
    (error,) = [error for error in graded["error_turns"] if error["kind"] != "style"]
    assert (error["turn"], error["call_id"], error["kind"]) == (0, "c1", "tool_not_found")
    assert error["hints"] and graded["n_error_turns"] == len(graded["error_turns"])
    for hint in error["hints"]:
        assert hint["text"] in graded["hints"] and not any(hint["text"] in text for text in seen)


def test_verify_marks_calls_that_the_hosts_harness_answered(host: httpx.Client) -> None:
    seed(host)
    host.post("/submit", json={})
    output = [
        *called(1, "grep_repo", '{"text": "x"}', "error: unknown tool 'grep_repo'"),
        *called(2, "say", '{"text": ', "error: invalid JSON in tool arguments; resend the call"),
        *called(3, "say", '{"text": "error: unknown tool"}', "ok\nTraceback (most recent call last)"),
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]
    kinds = [(error["turn"], error["kind"]) for error in verify(host, output)["error_turns"]]
    assert kinds[:2] == [(0, "tool_not_found"), (1, "malformed_call")]
    assert not [kind for turn, kind in kinds if turn == 2 and kind != "style"]


def test_calls_of_one_message_are_one_turn(host: httpx.Client) -> None:
    seed(host)
    host.post("/submit", json={})
    first, second = called(1, "say", "{}", "error invalid_args: text"), called(2, "nope", "{}", "error: unknown tool")
    thought = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hm."}]}
    errors = verify(host, [thought, first[0], second[0], first[1], second[1]])["error_turns"]
    assert [(error["turn"], error["call_index"]) for error in errors if error["call_id"]] == [(0, 0), (0, 1)]


def test_verify_compares_the_last_message_with_the_frozen_diff(light: Any) -> None:
    """Check that the server asks its session for the diff: the grade, which shows its completeness, is not served."""

    class Sandboxed(light.LightSession):
        def episode(self) -> Episode:
            sandbox = SandboxReport(backend="bubblewrap", isolation="namespaces")
            return super().episode().model_copy(update={"sandbox": sandbox})

    tasks = light.task_set()
    claim = {"type": "message", "role": "assistant", "content": "I have changed src/scales/notes.py and all is well."}
    app = light.light_app(tasks, make_session=lambda: Sandboxed(tasks))
    with light.serving(app) as served, httpx.Client(base_url=served.url) as host:
        seed(host)
        spoken = host.post("/say", json={"text": "answer-1"}).text
        for _ in range(2):  # also once the session is gone
            errors = verify(host, [*called(1, "say", '{"text": "answer-1"}', spoken), claim])["error_turns"]
            assert [(error["turn"], error["kind"]) for error in errors] == [(1, "false_claim")]


@pytest.mark.parametrize("response", [None, 7, {"output": "x"}, {"output": [7, {"type": "message"}, {"type": "x"}]}])
def test_verify_accepts_an_odd_response(host: httpx.Client, response: Any) -> None:
    seed(host)
    host.post("/submit", json={})
    answer = host.post("/verify", json={**ROW, "response": response})
    assert answer.status_code == 200 and answer.json()["response"] == response


def test_no_answer_contains_a_secret(host: httpx.Client, light: Any) -> None:
    seeded = json.dumps(seed(host))
    seeded += host.post("/say", json={"text": "x"}).text + host.post("/submit", json={}).text + json.dumps(verify(host))
    assert '"error_turns"' in seeded
    assert not [canary for canary in light.CANARIES if canary in seeded]


def test_production_server_seeds_no_sessions(light: Any) -> None:
    with light.serving(light.light_app(mode="production")) as served:
        assert httpx.post(f"{served.url}/seed_session", json=ROW).status_code == 404
