"""For the wire's tests: a session without a sandbox, tasks with a canary in every secret field, a server thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from helpers.documented import Documented

from etude.environments.session import Standing
from etude.environments.tasks.task_set import TaskSet
from etude.errors import SandboxError, SessionError
from etude.models import (
    Episode,
    EpisodeEnd,
    ErrorTurn,
    GeneratorRef,
    Grade,
    Observation,
    PytestVerifier,
    Reward,
    SnapshotRef,
    State,
    Task,
    TestFailure,
    ToolMessage,
    Turn,
)

HOST_PATH = "/srv/canary-host-path/layers"
SEED = 918273645
CANARIES = ["CANARY-", str(SEED), "canary-host-path"]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": about,
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        },
    }
    for name, about in (("say", "Keep a text."), ("hang", "Never answer."), ("crash", "Fail."), ("submit", "End."))
]


def task(number: int, split: str = "train") -> Task:
    """Solved by saying ``answer-NUMBER`` before ``submit``."""
    return Task(
        task_id=f"light-{number}",
        repo="light",
        base_commit="CANARY-commit",
        snapshot=SnapshotRef(digest="CANARY-digest", recipe={"cache": HOST_PATH, "note": "CANARY-recipe"}),
        generator=GeneratorRef(name="hand", version="1", seed=SEED, knobs={"CANARY-knob": "CANARY-value"}),
        problem_statement=f"Say the answer of exercise {number}.",
        patch="CANARY-patch",
        test_patch="CANARY-test-patch",
        workspace_patch="CANARY-workspace-patch",
        FAIL_TO_PASS=["tests/CANARY-f2p.py::test_a"],
        PASS_TO_PASS=["tests/CANARY-p2p.py::test_b"],
        source_globs=["CANARY-glob"],
        protected_paths=["CANARY-protected"],
        verifier=PytestVerifier(args=["tests/CANARY-args.py"], config_file="CANARY-config"),
        split=split,
        blobs={"CANARY-blob": "CANARY-sha"},
    )


def task_set(count: int = 3) -> TaskSet:
    return TaskSet([task(n) for n in range(count)] + [task(count, "test")])


class LightSession:
    """Plays by the rules of a real session. ``hang`` waits until it is cancelled, ``crash`` breaks the machine."""

    closed_count = 0
    hanging = threading.Event()

    def __init__(self, tasks: TaskSet) -> None:
        self.tasks = tasks
        self.task: Task | None = None
        self.said: list[str] = []
        self.silent = 0
        self.turns: list[Turn] = []
        self.errors: list[ErrorTurn] = []
        self.reward: Reward | None = None
        self.id = ""
        self.closed = False

    async def reset(self, **given: Any) -> Observation:
        if not self.tasks.list_splits():
            raise SessionError("no tasks")
        wanted = given.get("task_id")
        self.task = (
            self.tasks.by_id(wanted)
            if wanted
            else self.tasks.get_task(given.get("split", "train"), given.get("index", 0))
        )
        self.id = given.get("episode_id", f"episode-{id(self)}")
        self.said, self.silent, self.turns, self.errors, self.reward = [], 0, [], [], None
        return Observation(prompt=self.task.problem_statement, tools=TOOLS, workdir="/workspace")

    async def step(self, action: Mapping[str, Any]) -> Observation:
        if self.reward is not None:
            raise SessionError("this episode is over: reset to play another")
        calls = action.get("tool_calls")
        if calls is None and action.get("tool") is not None:
            calls = [{"name": action["tool"], "arguments": action.get("arguments")}]
        if isinstance(calls, list) and calls:
            messages, self.silent = [await self._call(call) for call in calls], 0
        else:
            messages, self.silent = (
                [ToolMessage(role="user", content="error malformed_call: call a tool")],
                self.silent + 1,
            )
            if self.silent == 2:
                self._grade()
        self.turns.append(Turn(action=dict(action), messages=messages))
        if self.reward is None:
            return Observation(messages=messages)
        return Observation(messages=messages, done=True, reward=self.reward.value)

    async def _call(self, call: Any) -> ToolMessage:
        call = call if isinstance(call, dict) else {}
        name, arguments = call.get("name"), call.get("arguments")
        text = arguments.get("text") if isinstance(arguments, dict) else None
        if name == "crash":
            raise SandboxError(f"cannot mount {HOST_PATH}/upper: no space left")
        if name == "hang":
            LightSession.hanging.set()
            await asyncio.Event().wait()
        if name == "submit":
            self._grade()
            content = "ok\nsubmitted"
        elif name == "say" and isinstance(text, str):
            self.said.append(text)
            content = "ok\n" + ",".join(self.said)
        else:
            kind = "invalid_args" if name == "say" else "tool_not_found"
            content = f"error {kind}: {name!r}"
            self.errors.append(ErrorTurn(turn=len(self.turns), kind=kind, tool=str(name), message=content))  # type: ignore[arg-type]
        return ToolMessage(tool_call_id=str(call.get("id", "")), name=str(name), content=content)

    def _grade(self) -> None:
        assert self.task is not None
        good = f"answer-{self.task.task_id.removeprefix('light-')}" in self.said
        parts = {"fail_to_pass": float(good), "pass_to_pass": 1.0, "no_confirmed_finding": 1.0}
        self.reward = Reward(value=float(good), components=parts)

    @property
    def end(self) -> EpisodeEnd | None:
        if self.reward is None:
            return None
        return "no_tool_call" if self.silent else "submit"

    def state(self) -> State:
        return State(
            episode_id=self.id,
            step_count=len(self.turns),
            task_id=self.task.task_id if self.task else None,
            error_turns=self.errors,
            reward=self.reward,
            end=self.end,
        )

    def standing(self) -> Standing:
        episode = self.episode()
        return Standing(episode, "", lambda: episode)

    def episode(self) -> Episode:
        assert self.task is not None
        failures = [TestFailure(test="tests/CANARY-f2p.py::test_a", cause="CANARY-cause", component="fail_to_pass")]
        return Episode(
            episode_id=self.id,
            task_id=self.task.task_id,
            seed=SEED,
            prompt=self.task.problem_statement,
            tools=TOOLS,
            turns=self.turns,
            error_turns=self.errors,
            reward=self.reward,
            grade=Grade(reward=self.reward, failures=failures) if self.reward else None,
            end=self.end or ("closed" if self.closed else None),
        )

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            LightSession.closed_count += 1


def say(text: str) -> dict[str, Any]:
    return {"tool_calls": [{"id": "c1", "name": "say", "arguments": {"text": text}}]}


def call(name: str) -> dict[str, Any]:
    return {"tool_calls": [{"id": "c1", "name": name, "arguments": {}}]}


SUBMIT = call("submit")


class Served:
    """A running server: its address, its application and uvicorn's half of it."""

    def __init__(self, url: str, app: Any, uvicorn: Any, thread: threading.Thread) -> None:
        self.url = url
        self.app = app
        self.uvicorn = uvicorn
        self.thread = thread

    @property
    def sessions(self) -> int:
        return self.app.state.sessions.active_sessions

    def wait_until(self, condition: Callable[[], bool], seconds: float = 20.0) -> bool:
        """Ask again until ``condition`` holds; whether it did in time."""
        done = threading.Event()
        for _ in range(int(seconds / 0.01)):
            if condition():
                return True
            done.wait(0.01)
        return False


@contextlib.contextmanager
def serving(app: Any, **pings: float) -> Iterator[Served]:
    """Serve ``app`` from a thread on a free port of 127.0.0.1.

    The OpenAPI document of one that plays sessions must know every answer.
    """
    from etude.server.serving import listen, uvicorn_server

    listening = listen("127.0.0.1", 0)
    documented = Documented(app)
    server = uvicorn_server(documented, **pings)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", app, server, thread)
    finally:
        server.should_exit = True
        thread.join(30)
    missing = documented.missing if hasattr(app.state, "sessions") else set()
    assert not missing, f"answers that /openapi.json does not know: {sorted(missing)}"


def light_app(tasks: TaskSet | None = None, **options: Any) -> Any:
    from etude.server.app import create_app

    tasks = tasks if tasks is not None else task_set()
    return create_app(tasks, **{"make_session": lambda: LightSession(tasks), **options})
