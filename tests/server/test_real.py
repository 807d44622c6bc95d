"""Real tasks in real sandboxes over the wire: three clients solve one, sixty-four play at once, secrets stay in."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from helpers.paths import DATA
from openenv.core.generic_client import GenericEnvClient
from websockets.sync.client import connect as ws_connect

from etude.client import Client, connect
from etude.environments import agents
from etude.environments.tasks.task_set import TaskSet
from etude.generators.generate import generate
from etude.models import Task

pytestmark = pytest.mark.slow

SAMPLE = DATA / "scales"
SEED = 918273645


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskSet]:
    """Tasks of the sample package; the cache's path holds a canary."""
    folder = tmp_path_factory.mktemp("canary-host-path")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETUDE_CACHE", str(folder / "cache"))
        generate([str(SAMPLE)], generators=["all"], count=4, seed=SEED, out=folder / "tasks")
        yield TaskSet.load(folder / "tasks")


@pytest.fixture(scope="module")
def served(tasks: TaskSet, light: Any) -> Iterator[Any]:
    from etude.server.app import create_app

    with light.serving(create_app(tasks)) as running:
        yield running


def bash(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"id": "c1", "name": "bash", "arguments": {"command": command}}]}


def solve(task: Task, reset: Any, step: Any) -> tuple[bool, float]:
    """Play the oracle's episode and return the last ``done`` and ``reward``; observations are flat."""
    agent, seen = agents.make("oracle", task), reset(task.task_id)
    while not seen["done"]:
        action = agent.act(seen)
        assert action is not None
        seen = step(action)
    return seen["done"], seen["reward"]


def test_prepared_task_has_its_workspaces_before_its_first_reset(
    tasks: TaskSet, light: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from etude.environments.tasks import task_trees
    from etude.server.app import create_app

    monkeypatch.setattr(task_trees, "_materials", OrderedDict())
    made: list[str] = []
    make = task_trees.make_workspace
    monkeypatch.setattr(task_trees, "make_workspace", lambda *a, **k: (made.append("tree"), make(*a, **k))[1])
    with light.serving(create_app(tasks, prepare=len(tasks))) as running:
        while httpx.get(f"{running.url}/readyz").status_code != 200:
            time.sleep(0.05)
        assert len(made) == 2 * len(tasks)  # the agent's tree and the one for grading
        with connect(running.url) as client:
            assert all(client.reset(task_id=task.task_id).prompt for task in tasks)
    assert len(made) == 2 * len(tasks)


def test_etudes_client_solves_a_task(served: Any, tasks: TaskSet) -> None:
    task = next(iter(tasks))
    with connect(served.url) as client:
        last = solve(task, lambda t: client.reset(task_id=t).model_dump(), lambda a: client.step(a).model_dump())
        assert last == (True, 1.0)
        episode, state = client.episode(), client.state()
    assert state.reward is not None and state.reward.components["fail_to_pass"] == 1.0
    assert episode.grade is None and episode.seed is None and episode.sandbox is not None
    with connect(served.url) as client:
        first = client.reset(task_id=task.task_id, replay=[turn.action for turn in episode.turns])
        assert [m.content for m in first.messages] == [m.content for turn in episode.turns for m in turn.messages]
        assert (first.done, first.reward) == (True, 1.0)


def test_openenvs_generic_client_solves_a_task(served: Any, tasks: TaskSet) -> None:
    def flat(result: Any) -> dict[str, Any]:
        return {**result.observation, "done": result.done, "reward": result.reward}

    with GenericEnvClient(base_url=served.url, message_timeout_s=600).sync() as client:
        last = solve(
            next(iter(tasks)), lambda t: flat(client.reset(task_id=t)), lambda action: flat(client.step(action))
        )
    assert last == (True, 1.0)


def test_plain_websocket_solves_a_task(served: Any, tasks: TaskSet) -> None:
    with ws_connect("ws" + served.url.removeprefix("http") + "/ws", proxy=None, max_size=None) as socket:

        def ask(kind: str, data: dict[str, Any]) -> dict[str, Any]:
            socket.send(json.dumps({"type": kind, "data": data}))
            answer = json.loads(socket.recv(timeout=600))
            assert answer["type"] == "observation", answer
            return {**answer["data"]["observation"], "done": answer["data"]["done"], "reward": answer["data"]["reward"]}

        last = solve(next(iter(tasks)), lambda t: ask("reset", {"task_id": t}), lambda action: ask("step", action))
    assert last == (True, 1.0)


def test_sixty_four_real_sessions_stay_isolated(served: Any, tasks: TaskSet) -> None:
    ids = [task.task_id for task in tasks]

    async def play(number: int, started: asyncio.Barrier) -> None:
        async with Client(served.url) as client:
            await client.reset(task_id=ids[number % len(ids)], episode_id=f"e{number}")
            await client.step(bash(f"echo {number} > own.txt; echo {number} > /tmp/own.txt"))
            await started.wait()
            seen = await client.step(bash("cat own.txt /tmp/own.txt; git status --short; ls /tmp; ps ax | wc -l"))
            lines = seen.messages[0].content.splitlines()
            assert lines[:3] == ["ok", str(number), str(number)], lines
            assert "?? own.txt" in lines and int(lines[-1]) < 12, lines
            state = await client.state()
            assert (state.episode_id, state.step_count) == (f"e{number}", 2)

    async def play_all() -> None:
        started = asyncio.Barrier(64)
        await asyncio.gather(*(play(number, started) for number in range(64)))

    asyncio.run(play_all())
    assert served.wait_until(lambda: served.sessions == 0)


def test_no_frame_of_a_real_episode_contains_a_secret(served: Any, tasks: TaskSet) -> None:
    texts = [httpx.get(f"{served.url}{path}").text for path in ("/tasks", "/metadata", "/schema", "/openapi.json")]
    look = (
        "cat /proc/mounts /proc/self/mountinfo /proc/1/cmdline; env; df; id; ls -la / /opt/etude ..; git log -p | head"
    )
    for task in tasks:
        texts.append(httpx.get(f"{served.url}/tasks/{task.task_id}").text)
        with ws_connect("ws" + served.url.removeprefix("http") + "/ws", proxy=None, max_size=None) as socket:
            frames = [("reset", {"task_id": task.task_id}), ("step", bash(look)), ("step", bash("exit 3"))]
            frames += [
                ("step", {"tool": "run_tests"}),
                ("step", {"tool": "no_such_tool"}),
                ("step", {"tool": "submit"}),
            ]
            for kind, data in frames:
                socket.send(json.dumps({"type": kind, "data": data}))
                texts.append(str(socket.recv(timeout=600)))
            socket.send('{"type": "state"}')
            texts.append(str(socket.recv(timeout=60)))
            state = json.loads(texts[-1])["data"]
            headers = {"Authorization": f"Bearer {state['token']}"}
            texts.append(httpx.get(f"{served.url}/episodes/{state['episode_id']}", headers=headers).text)
            assert state["reward"] is not None and state["reward"]["value"] == 0.0
        assert task.snapshot is not None
        secrets = [
            "canary-host-path",
            str(SAMPLE),
            str(SEED),
            task.snapshot.digest,
            *_added(task.patch),
            *_added(task.test_patch),
        ]
        for secret in secrets:
            spelled = json.dumps(secret)[1:-1]
            assert not [text[:200] for text in texts if secret in text or spelled in text], secret


def _added(patch: str) -> list[str]:
    """Return the longest run of added lines of a patch, which identifies the solution or the hidden test."""
    runs, run = [], []
    for line in [*patch.splitlines(), ""]:
        if line.startswith("+") and not line.startswith("+++"):
            run.append(line[1:])
        elif run:
            runs.append("\n".join(run))
            run = []
    return [max(runs, key=len)] if runs else []
