"""An environment by hand: its tools' schemas, its prompt, its sessions, what breaks."""

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
from etude.trainers.integrations import tools as toolbox
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
    """Calls of one turn, as TRL makes them."""

    async def turn() -> list[str]:
        return await asyncio.gather(*(getattr(environment, name)(**given) for name, given in calls))

    return asyncio.run(turn())


@pytest.fixture
def factory(limited_url: str) -> Any:
    made = environment_factory(limited_url, tasks=[TASK])
    yield made
    made.close()


@pytest.mark.parametrize("schema", CODING, ids=[schema["function"]["name"] for schema in CODING])
def test_a_method_says_what_the_servers_schema_says(schema: Any) -> None:
    environment = EnvironmentFactory("http://127.0.0.1:9", [TASK], CODING)()
    wanted = schema["function"]
    found = get_json_schema(getattr(environment, wanted["name"]))["function"]
    assert (found["name"], found["description"]) == (wanted["name"], wanted["description"])
    assert set(found["parameters"]["properties"]) == set(wanted["parameters"]["properties"])
    assert found["parameters"].get("required", []) == wanted["parameters"]["required"]
    for name, given in wanted["parameters"]["properties"].items():
        assert found["parameters"]["properties"][name]["type"] == given["type"]
        assert found["parameters"]["properties"][name]["description"] == given.get("description", name)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": ["integer", "null"]}, {"type": "integer", "nullable": True}),
        ({"type": "object"}, {"type": "object"}),
        ({"anyOf": [{"type": "string"}]}, {}),
    ],
)
def test_types_of_arguments(given: Any, written: Any) -> None:
    function = {"name": "f", "description": "F.", "parameters": {"properties": {"x": given}, "required": ["x"]}}
    environment = EnvironmentFactory("http://127.0.0.1:9", [TASK], [{"function": function}])()
    assert get_json_schema(environment.f)["function"]["parameters"]["properties"]["x"] == {
        **written,
        "description": "x",
    }


@pytest.mark.parametrize("name", ["reset", "get_reward", "_hidden", "not a name", "class"])
def test_a_tool_that_cannot_be_a_method_goes_through_call_tool(name: str) -> None:
    tool = {"type": "function", "function": {"name": name, "parameters": {}}}
    assert toolbox.alike([[tool], [tool]]) is None


def test_nothing_but_tools_is_public_on_the_class() -> None:
    environment = EnvironmentFactory("http://127.0.0.1:9", [TASK], None)()
    functions = {name for name in dir(type(environment)) if callable(getattr(type(environment), name))}
    assert {name for name in functions if not name.startswith("_")} == {"reset", "get_reward", "call_tool"}


def test_the_prompt_lists_the_tools_that_call_tool_calls(limited_url: str) -> None:
    factory = environment_factory(limited_url)
    environment = factory()
    assert f'{{"name": "{solution()[0][0]}"' in environment.reset(**reset_rows([{"task_id": TASK}])[0])
    for name, arguments in solution():
        (said,) = play(environment, ("call_tool", {"name": name, "arguments": arguments}))
        assert said.startswith("ok")
    assert environment.get_reward() == 1.0
    factory.close()


def test_a_row_may_have_columns_of_its_own(factory: Any) -> None:
    environment = factory()
    environment.reset(prompt=[], task_id=TASK, seed=None, tools=["other"], solution=3)
    assert environment.outcome.task_id == TASK
    with pytest.raises(ValueError, match="a row names no task"):
        environment.reset(prompt=[])
    with pytest.raises(ServerError, match="no-such-task"):
        environment.reset(task_id="no-such-task")


def test_an_episode_that_nobody_submitted_is_graded_as_it_is(factory: Any) -> None:
    environment = factory()
    environment.reset(task_id=TASK)
    first, _ = solution()
    play(environment, first)
    assert (environment.get_reward(), environment.outcome.end, environment.outcome.turns) == (0.0, "submit", 1)
    assert play(environment, first) == ["not run: episode ended"]


def test_a_lost_session_gets_one_fresh_try_at_reset(factory: Any) -> None:
    environment = factory()
    environment.reset(task_id=TASK)
    factory.sessions.run(environment._episode._client._socket.close())
    assert environment.reset(task_id=TASK)
    play(environment, *solution())
    assert environment.get_reward() == 1.0


def test_sessions_are_used_again(factory: Any) -> None:
    for _ in range(3):
        for environment in (factory(), factory()):
            environment.reset(task_id=TASK)
            play(environment, *solution())
    assert len(factory.sessions._open) == 1


def test_an_environment_that_nobody_has_any_more_leaves_its_session(factory: Any) -> None:
    left = []
    for _ in range(2):
        environment = factory()
        environment.reset(task_id=TASK)
        left.append(environment._episode._client)
        del environment
        gc.collect()
    for client in left:
        tries = 1000
        while client in factory.sessions._open and (tries := tries - 1):
            factory.sessions.run(asyncio.sleep(0.01))
        assert tries
    assert factory().reset(task_id=TASK)


def test_a_server_that_dies_in_mid_episode_leaves_no_reward(mortal: tuple[subprocess.Popen[str], str]) -> None:
    process, url = mortal
    factory = environment_factory(url, tasks=[TASK])
    environment = factory()
    environment.reset(task_id=TASK)
    process.kill()
    process.wait()
    (said,) = play(environment, solution()[0])
    assert said.startswith("not run: ") and environment.get_reward() is None
    assert "closed the session" in environment.outcome.problem
    factory.close()


def test_closing_lets_go_of_whoever_waits() -> None:
    sessions, begun, told = Sessions("http://127.0.0.1:9"), threading.Event(), queue.Queue[str]()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    def play() -> None:
        try:
            sessions.run(wait())
        except ConnectionLost as error:
            told.put(str(error))

    threading.Thread(target=play, daemon=True).start()
    left = sessions.submit(wait())
    assert begun.wait(20)
    sessions.close()
    assert "the sessions were closed" in told.get(timeout=20) and left.cancelled()
    sessions.close()


@pytest.mark.parametrize("begun", [True, False])
def test_closing_lets_go_of_a_turn_that_is_played(begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, playing = EnvironmentFactory("http://127.0.0.1:9", [TASK], None)(), threading.Event()

    async def turn(*_: Any) -> None:
        playing.set()
        await asyncio.Event().wait()

    def close() -> None:
        assert playing.wait(20)
        environment._sessions.close()

    def submit(call: Any) -> Any:
        """As if the sessions were closed before the turn began."""
        call.close()
        left: Future[Any] = Future()
        left.cancel()
        left.set_running_or_notify_cancel()
        return left

    monkeypatch.setattr(environment._episode, "turn", turn)
    if not begun:
        monkeypatch.setattr(environment._sessions, "submit", submit)
    closing = threading.Thread(target=close if begun else bool, daemon=True)
    closing.start()
    with pytest.raises(ConnectionLost, match="the sessions were closed"):
        asyncio.run(asyncio.wait_for(environment.call_tool(name="x", arguments={}), 20))
    closing.join(20)


def test_a_factory_is_made_where_an_event_loop_runs(limited_url: str) -> None:
    async def notebook() -> list[str]:
        return environment_factory(limited_url, tasks=[TASK]).tasks

    assert asyncio.run(notebook()) == [TASK]


@pytest.mark.parametrize("argument", ["self", "name", "environment", "arguments", "call"])
def test_an_argument_may_have_any_name(argument: str) -> None:
    heard = []

    class Heard(_Environment):
        async def _call(self, name: str, arguments: Any) -> str:
            heard.append((name, arguments))
            return "ok"

    schema = {"type": "function", "function": {"name": "find", "parameters": {"properties": {}}}}
    environment = Heard(Sessions("http://127.0.0.1:9"))
    known = toolbox.methods([schema], Heard._call)["find"].__get__(environment)
    unknown = _AnyTool({}, environment)["lose"]
    asyncio.run(known(**{argument: "x"}))
    asyncio.run(unknown(**{argument: "x"}))
    assert heard == [("find", {argument: "x"}), ("lose", {argument: "x"})]


def test_a_factory_is_pickled_without_its_sessions(factory: Any) -> None:
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
        "kept = [factory() for _ in range(4)]\n[each.reset(task_id=task) for each in kept]\n"
        "print(sorted({'torch', 'trl', 'transformers', 'openenv'} & set(sys.modules)))"
    )
    for _ in range(2):  # room for four: the second finds it only when the first has left
        done = subprocess.run([sys.executable, "-c", code, limited_url, TASK], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("[]\n", "")
