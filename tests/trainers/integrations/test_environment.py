"""Tests of an environment without TRL: tool schemas, prompt, sessions, failures."""

from __future__ import annotations

import asyncio
import gc
import pickle
import queue
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import Any

import pytest
from helpers.scripted_policy import TASKS
from transformers.utils import get_json_schema

from etude.environments.coding.tools import TOOLS
from etude.errors import ConnectionLost, ServerError
from etude.trainers.integrations import tool_methods
from etude.trainers.integrations.environment import EnvironmentFactory, _Environment, environment_factory
from etude.trainers.integrations.sessions import Sessions
from etude.trainers.integrations.together import _AnyTool
from etude.trainers.rollouts.dataset_rows import reset_rows

TASK = TASKS.list_tasks("train")[0].task_id
CODING = [tool.schema() for tool in TOOLS.values()]


def solution() -> list[tuple[str, Any]]:
    drill = TASKS.drill(TASK)
    return [*drill.solution(), ("submit", {"answer": drill.answer})]


def play(environment: Any, *calls: tuple[str, Any]) -> list[str]:
    """Make the calls of one turn as TRL does."""

    async def turn() -> list[str]:
        return await asyncio.gather(*(getattr(environment, name)(**arguments) for name, arguments in calls))

    return asyncio.run(turn())


@pytest.fixture
def factory(limited_url: str) -> Any:
    factory = environment_factory(limited_url, tasks=[TASK])
    yield factory
    factory.close()


@pytest.mark.parametrize("schema", CODING, ids=[schema["function"]["name"] for schema in CODING])
def test_method_has_the_schema_of_the_servers_tool(schema: Any) -> None:
    environment = EnvironmentFactory("http://127.0.0.1:9", [TASK], CODING)()
    expected = schema["function"]
    actual = get_json_schema(getattr(environment, expected["name"]))["function"]
    assert (actual["name"], actual["description"]) == (expected["name"], expected["description"])
    assert set(actual["parameters"]["properties"]) == set(expected["parameters"]["properties"])
    assert actual["parameters"].get("required", []) == expected["parameters"]["required"]
    for name, argument in expected["parameters"]["properties"].items():
        assert actual["parameters"]["properties"][name]["type"] == argument["type"]
        assert actual["parameters"]["properties"][name]["description"] == argument.get("description", name)


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": ["integer", "null"]}, {"type": "integer", "nullable": True}),
        ({"type": "object"}, {"type": "object"}),
        ({"anyOf": [{"type": "string"}]}, {}),
    ],
)
def test_method_has_the_types_of_the_arguments(schema: Any, written: Any) -> None:
    function = {"name": "f", "description": "F.", "parameters": {"properties": {"x": schema}, "required": ["x"]}}
    environment = EnvironmentFactory("http://127.0.0.1:9", [TASK], [{"function": function}])()
    assert get_json_schema(environment.f)["function"]["parameters"]["properties"]["x"] == {
        **written,
        "description": "x",
    }


@pytest.mark.parametrize("name", ["reset", "get_reward", "_hidden", "not a name", "class"])
def test_common_tools_is_none_when_a_tool_cannot_be_a_method(name: str) -> None:
    tool = {"type": "function", "function": {"name": name, "parameters": {}}}
    assert tool_methods.common_tools([[tool], [tool]]) is None


def test_class_has_no_public_methods_besides_tools_and_trls() -> None:
    environment = EnvironmentFactory("http://127.0.0.1:9", [TASK], None)()
    functions = {name for name in dir(type(environment)) if callable(getattr(type(environment), name))}
    assert {name for name in functions if not name.startswith("_")} == {"reset", "get_reward", "call_tool"}


def test_prompt_lists_the_tools_when_call_tool_is_offered(limited_url: str) -> None:
    factory = environment_factory(limited_url)
    environment = factory()
    assert f'{{"name": "{solution()[0][0]}"' in environment.reset(**reset_rows([{"task_id": TASK}])[0])
    for name, arguments in solution():
        (result,) = play(environment, ("call_tool", {"name": name, "arguments": arguments}))
        assert result.startswith("ok")
    assert environment.get_reward() == 1.0
    factory.close()


def test_reset_ignores_other_columns_of_a_row(factory: Any) -> None:
    environment = factory()
    environment.reset(prompt=[], task_id=TASK, seed=None, tools=["other"], solution=3)
    assert environment.outcome.task_id == TASK
    with pytest.raises(ValueError, match="a row names no task"):
        environment.reset(prompt=[])
    with pytest.raises(ServerError, match="no-such-task"):
        environment.reset(task_id="no-such-task")


def test_reward_grades_an_episode_that_was_not_submitted(factory: Any) -> None:
    environment = factory()
    environment.reset(task_id=TASK)
    first, _ = solution()
    play(environment, first)
    assert (environment.get_reward(), environment.outcome.end, environment.outcome.turns) == (0.0, "submit", 1)
    assert play(environment, first) == ["not run: episode ended"]


def test_reset_tries_a_new_session_when_the_old_one_is_lost(factory: Any) -> None:
    environment = factory()
    environment.reset(task_id=TASK)
    factory.sessions.run(environment._episode._client._socket.connection.close())
    assert environment.reset(task_id=TASK)
    play(environment, *solution())
    assert environment.get_reward() == 1.0


def test_sessions_are_reused(factory: Any) -> None:
    for _ in range(3):
        for environment in (factory(), factory()):
            environment.reset(task_id=TASK)
            play(environment, *solution())
    assert len(factory.sessions._open) == 1


def test_collected_environment_leaves_its_session(factory: Any) -> None:
    abandoned = []
    for _ in range(2):
        environment = factory()
        environment.reset(task_id=TASK)
        abandoned.append(environment._episode._client)
        del environment
        gc.collect()
    for client in abandoned:
        tries = 1000
        while client in factory.sessions._open and (tries := tries - 1):
            factory.sessions.run(asyncio.sleep(0.01))
        assert tries
    assert factory().reset(task_id=TASK)


def test_episode_has_no_reward_when_the_server_dies(mortal: tuple[subprocess.Popen[str], str]) -> None:
    process, url = mortal
    factory = environment_factory(url, tasks=[TASK])
    environment = factory()
    environment.reset(task_id=TASK)
    process.kill()
    process.wait()
    (result,) = play(environment, solution()[0])
    assert result.startswith("not run: ") and environment.get_reward() is None
    assert "closed the session" in environment.outcome.problem
    factory.close()


def test_closing_sessions_ends_the_calls_that_wait() -> None:
    sessions, begun, messages = Sessions("http://127.0.0.1:9"), threading.Event(), queue.Queue[str]()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    def play() -> None:
        try:
            sessions.run(wait())
        except ConnectionLost as error:
            messages.put(str(error))

    threading.Thread(target=play, daemon=True).start()
    pending = sessions.submit(wait())
    assert begun.wait(20)
    sessions.close()
    assert "the sessions were closed" in messages.get(timeout=20) and pending.cancelled()
    sessions.close()


@pytest.mark.parametrize("begun", [True, False])
def test_closing_sessions_ends_a_turn_in_progress(begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, playing = EnvironmentFactory("http://127.0.0.1:9", [TASK], None)(), threading.Event()

    async def turn(*_: Any) -> None:
        playing.set()
        await asyncio.Event().wait()

    def close() -> None:
        assert playing.wait(20)
        environment._sessions.close()

    def submit(call: Any) -> Any:
        """Behave as if the sessions were closed before the turn began."""
        call.close()
        cancelled: Future[Any] = Future()
        cancelled.cancel()
        cancelled.set_running_or_notify_cancel()
        return cancelled

    monkeypatch.setattr(environment._episode, "play_calls", turn)
    if not begun:
        monkeypatch.setattr(environment._sessions, "submit", submit)
    closing = threading.Thread(target=close if begun else bool, daemon=True)
    closing.start()
    with pytest.raises(ConnectionLost, match="the sessions were closed"):
        asyncio.run(asyncio.wait_for(environment.call_tool(name="x", arguments={}), 20))
    closing.join(20)


def test_factory_can_be_made_on_an_event_loop(limited_url: str) -> None:
    async def notebook() -> list[str]:
        return environment_factory(limited_url, tasks=[TASK]).tasks

    assert asyncio.run(notebook()) == [TASK]


@pytest.mark.parametrize("argument", ["self", "name", "environment", "arguments", "call"])
def test_tool_argument_can_have_any_name(argument: str) -> None:
    calls = []

    class Recording(_Environment):
        async def _call(self, name: str, arguments: Any) -> str:
            calls.append((name, arguments))
            return "ok"

    schema = {"type": "function", "function": {"name": "find", "parameters": {"properties": {}}}}
    environment = Recording(Sessions("http://127.0.0.1:9"))
    known_tool = tool_methods.methods([schema], Recording._call)["find"].__get__(environment)
    unknown_tool = _AnyTool({}, environment)["lose"]
    asyncio.run(known_tool(**{argument: "x"}))
    asyncio.run(unknown_tool(**{argument: "x"}))
    assert calls == [("find", {argument: "x"}), ("lose", {argument: "x"})]


def test_factory_is_pickled_without_its_sessions(factory: Any) -> None:
    factory().reset(task_id=TASK)
    again = pickle.loads(pickle.dumps(factory))
    assert (again.url, again.tasks, again.tools, again.sessions._open) == (
        factory.url,
        factory.tasks,
        factory.tools,
        set(),
    )


def test_sessions_end_with_the_process(limited_url: str) -> None:
    code = (
        "import sys\nfrom etude.trainers.integrations.environment import environment_factory\n"
        "url, task = sys.argv[1:]\nfactory = environment_factory(url, tasks=[task])\n"
        "environments = [factory() for _ in range(4)]\n[one.reset(task_id=task) for one in environments]\n"
        "print(sorted({'torch', 'trl', 'transformers', 'openenv'} & set(sys.modules)))"
    )
    for _ in range(2):  # there is room for four: the second process needs the first one's to be free
        done = subprocess.run([sys.executable, "-c", code, limited_url, TASK], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("[]\n", "")
