"""``environment_factory`` for TRL: its trainers play our episodes with their own loop, and we are their environment.

    factory = environment_factory("http://127.0.0.1:8000")
    GRPOTrainer(model, args=args, train_dataset=Dataset.from_list(factory.rows()), environment_factory=factory)

TRL takes tools from a class, once. Where every task has the same tools, each is a method; where they differ, as in
drills, the one method is ``call_tool(name, arguments)`` and the prompt lists the task's tools.

Several servers in one run need names, which TRL finds in each row and its metrics of rewards are called after:

    made = {name: environment_factory(url, name=name) for name, url in servers.items()}
    rows = Dataset.from_list([row for factory in made.values() for row in factory.rows()])
    GRPOTrainer(model, args=args, train_dataset=rows, environment_factory=made)

Calls that a model makes in one turn are one turn of the episode. ``GRPOTrainer`` itself waits for the tools of one
sample before it starts those of the next; with ``together.ToolsTogether`` they all run at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from ...client import Client, LoopThread
from ...errors import ConnectionLost
from ...models import ErrorTurn, Finding
from ..rollouts.dataset_rows import RESET, reset_arguments, reset_rows
from . import tools as toolbox
from .episodes import Episode, Outcome
from .sessions import Sessions

__all__ = ["RESET", "EnvironmentFactory", "environment_factory"]


def environment_factory(
    url: str, *, split: str = "train", tasks: Sequence[str] | None = None, name: str = ""
) -> EnvironmentFactory:
    """Ask the server for the tasks of ``split`` (or only those in ``tasks``, by id) and their tools.

    Raises ConnectionLost, ServerError, and ValueError when there is no such task. A notebook, whose event loop runs
    already, may call it too.
    """
    found = _asked(url, split)
    if tasks is not None:
        missing = sorted(set(tasks) - set(found))
        if missing:
            raise ValueError(f"the server at {url} has no task {missing[0]!r} in the split {split!r}")
        found = {name: found[name] for name in tasks}
    if not found:
        raise ValueError(f"the server at {url} has no tasks in the split {split!r}")
    return EnvironmentFactory(url, list(found), toolbox.alike(list(found.values())), name)


class EnvironmentFactory:
    """Makes environments that share the sessions of one server. It can be pickled; sessions are opened when used.

    ``tools`` are what every task has, in OpenAI's function style; None: tasks differ, and ``call_tool`` is offered.
    ``name``: this one's among several.
    """

    def __init__(self, url: str, tasks: Sequence[str], tools: Sequence[toolbox.Schema] | None, name: str = "") -> None:
        self.url, self.tasks, self.tools, self.name = url, list(tasks), tools, name
        self.sessions = Sessions(url)
        self._class = _class(tools, name)

    def __call__(self) -> Any:
        return self._class(self.sessions)

    def __reduce__(self) -> Any:
        return EnvironmentFactory, (self.url, self.tasks, self.tools, self.name)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each task, for ``datasets.Dataset.from_list``; put a system message into ``prompt`` if you like."""
        rows = reset_rows([{"task_id": name} for name in self.tasks])
        return [row | {"environment": self.name} for row in rows] if self.name else rows

    def close(self) -> None:
        """End the sessions; also done when nobody uses them any more, and at exit. Idempotent."""
        self.sessions.close()


class _Environment:
    """What TRL sees besides the tools. Names that begin with an underscore are no tools, nor are properties."""

    _generic = False

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._episode = Episode(sessions)
        sessions.abandon(self, self._episode.leave)
        self._open: _OpenTurn | None = None
        self._together = False

    def reset(self, **row: Any) -> str:
        """Start the episode that the row names; the prompt. Raises as ``Episode.begin``, and ValueError."""
        first = self._sessions.run(self._episode.begin(reset_arguments(row)))
        prompt = first.prompt or ""
        return f"{prompt}\n\n{toolbox.described(first.tools)}" if self._generic and first.tools else prompt

    def get_reward(self) -> float | None:
        """The verified reward; None when the episode has no honest score, which TRL keeps out of the baseline: beside
        other reward functions only with ``ToolsTogether``."""
        return self._settled().reward

    @property
    def outcome(self) -> Outcome:
        """All that the episode came to. Asked for before its end, it is submitted as it is, and so graded."""
        return self._settled()

    @property
    def error_turns(self) -> list[ErrorTurn]:
        """Where the policy erred, with hints; ``turn`` counts the turns with calls that reached the server."""
        return self._settled().error_turns

    @property
    def findings(self) -> list[Finding]:
        return self._settled().findings

    def _settled(self) -> Outcome:
        return self._sessions.run(self._episode.settle())

    async def _call(self, name: str, arguments: Any) -> Any:
        """One call. Those that are made before the loop goes round again are of one turn."""
        turn = self._open
        if turn is None:
            turn = self._open = _OpenTurn()
            asyncio.get_running_loop().call_soon(self._send)
        place = turn.add(name, arguments)
        if self._together:
            return Later(turn.results, place)
        return (await asyncio.shield(asyncio.wrap_future(turn.results)))[place]  # other calls' too

    def _send(self) -> None:
        turn, self._open = self._open, None
        assert turn is not None
        self._sessions.submit(self._episode.turn(turn.calls)).add_done_callback(turn.played)


class _OpenTurn:
    """The calls of a turn, gathered, and their results to come."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.results: Future[list[str]] = Future()

    def add(self, name: str, arguments: Any) -> int:
        self.calls.append((name, arguments))
        return len(self.calls) - 1

    def played(self, turn: Future[list[str]]) -> None:
        """Whoever waits is told, also of a turn that was never begun."""
        if turn.cancelled():
            self.results.set_exception(ConnectionLost("the sessions were closed while a turn was played"))
        elif error := turn.exception():
            self.results.set_exception(error)
        else:
            self.results.set_result(turn.result())


class Later(str):
    """A result that is still to come, in the place of its text. Only ToolsTogether makes them, and takes them away."""

    results: Future[list[str]]
    place: int

    def __new__(cls, results: Future[list[str]], place: int) -> Later:
        made = super().__new__(cls, "not run: the result was not waited for")
        made.results, made.place = results, place
        return made

    def __str__(self) -> str:
        """Itself: TRL makes a string of every result at once."""
        return self

    def text(self) -> str:
        """Wait for it; not on an event loop."""
        return self.results.result()[self.place]


def _class(tools: Sequence[toolbox.Schema] | None, name: str) -> type[_Environment]:
    """TRL names the reward's metric after the class."""
    made = toolbox.generic(_Environment._call) if tools is None else toolbox.methods(tools, _Environment._call)
    return type(name or "EtudeEnvironment", (_Environment,), {**made, "_generic": tools is None})


def _asked(url: str, split: str) -> dict[str, list[Mapping[str, Any]]]:
    thread = LoopThread()
    try:
        return thread.run(_ask(url, split))
    finally:
        thread.stop()


async def _ask(url: str, split: str) -> dict[str, list[Mapping[str, Any]]]:
    """Each task's tools, by the task's id, as its episodes have them."""
    async with Client(url) as client:
        rows = await client.rows(split)
    return {row["task_id"]: [_chat_style(tool) for tool in _listed(row)] for row in rows}


def _listed(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = row["responses_create_params"].get("tools") or []
    return list(found)


def _chat_style(tool: Mapping[str, Any]) -> dict[str, Any]:
    """From the Responses style of ``/rows``."""
    function = {name: tool[name] for name in ("name", "description", "parameters") if name in tool}
    return {"type": "function", "function": function}
