"""TRL's ``environment_factory``: TRL's trainers play our episodes with their own loop.

    factory = environment_factory("http://127.0.0.1:8000")
    GRPOTrainer(model, args=args, train_dataset=Dataset.from_list(factory.rows()), environment_factory=factory)

TRL reads the tools of an environment from its class, once. Where every task has the same tools, each is a method; where
they differ, as in drills, the one method is ``call_tool(name, arguments)`` and the prompt lists the task's tools.

Several servers in one run need names: TRL finds them in each row, and names its reward metrics after them.

    factories = {name: environment_factory(url, name=name) for name, url in servers.items()}
    rows = Dataset.from_list([row for factory in factories.values() for row in factory.rows()])
    GRPOTrainer(model, args=args, train_dataset=rows, environment_factory=factories)

The calls that a model makes in one turn are one turn of the episode. ``GRPOTrainer`` itself waits for the tools of one
sample before it starts those of the next; with ``together.ToolsTogether`` they all run at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from ...client import SyncClient
from ...errors import ConnectionLost
from ...models import ErrorTurn, Finding
from ..rollouts.dataset_rows import RESET, reset_arguments, reset_rows
from . import tool_methods
from .episodes import Episode, Outcome
from .sessions import Sessions

__all__ = ["RESET", "EnvironmentFactory", "environment_factory"]


def environment_factory(
    url: str, *, split: str = "train", tasks: Sequence[str] | None = None, name: str = ""
) -> EnvironmentFactory:
    """Ask the server for the tasks of ``split`` (or only those in ``tasks``, by id) and their tools.

    It also works in a notebook, where an event loop is running. Raises ConnectionLost, ServerError, and ValueError for
    an unknown task or an empty split.
    """
    toolsets = _fetch_toolsets(url, split)
    if tasks is not None:
        missing = sorted(set(tasks) - set(toolsets))
        if missing:
            raise ValueError(f"the server at {url} has no task {missing[0]!r} in the split {split!r}")
        toolsets = {task: toolsets[task] for task in tasks}
    if not toolsets:
        raise ValueError(f"the server at {url} has no tasks in the split {split!r}")
    return EnvironmentFactory(url, list(toolsets), tool_methods.common_tools(list(toolsets.values())), name)


class EnvironmentFactory:
    """Factory of environments that share the sessions of one server. It can be pickled; sessions open when used.

    ``tools`` are those that every task has, in OpenAI's function style; with None the tasks' tools differ, and
    ``call_tool`` is offered. ``name`` is this factory's among several.
    """

    def __init__(
        self, url: str, tasks: Sequence[str], tools: Sequence[tool_methods.Schema] | None, name: str = ""
    ) -> None:
        self.url, self.tasks, self.tools, self.name = url, list(tasks), tools, name
        self.sessions = Sessions(url)
        self._class = _environment_class(tools, name)

    def __call__(self) -> Any:
        return self._class(self.sessions)

    def __reduce__(self) -> Any:
        return EnvironmentFactory, (self.url, self.tasks, self.tools, self.name)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each task, for ``datasets.Dataset.from_list``; ``prompt`` may get a system message."""
        rows = reset_rows([{"task_id": task} for task in self.tasks])
        return [row | {"environment": self.name} for row in rows] if self.name else rows

    def close(self) -> None:
        """End the sessions, which also end with their last user and with the process. Idempotent."""
        self.sessions.close()


class _Environment:
    """The part of an environment that TRL sees besides its tools; TRL skips underscored names and properties."""

    _generic = False

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._episode = Episode(sessions)
        sessions.leave_with(self, self._episode.leave)
        self._open: _OpenTurn | None = None
        self._together = False

    def reset(self, **row: Any) -> str:
        """Start the row's episode and return its prompt. Raises as ``Episode.begin``, and ValueError."""
        first = self._sessions.run(self._episode.begin(reset_arguments(row)))
        prompt = first.prompt or ""
        return f"{prompt}\n\n{tool_methods.tools_text(first.tools)}" if self._generic and first.tools else prompt

    def get_reward(self) -> float | None:
        """Return the verified reward, or None when the episode has no valid score.

        TRL keeps None out of the baseline; beside other reward functions only with ``ToolsTogether``.
        """
        return self._settle().reward

    @property
    def outcome(self) -> Outcome:
        """Return the episode's outcome; an episode that is not over is submitted as it is, and graded."""
        return self._settle()

    @property
    def error_turns(self) -> list[ErrorTurn]:
        """Return the policy's errors, with hints; ``turn`` counts the turns with calls that reached the server."""
        return self._settle().error_turns

    @property
    def findings(self) -> list[Finding]:
        """Return the monitors' findings."""
        return self._settle().findings

    def _settle(self) -> Outcome:
        return self._sessions.run(self._episode.settle())

    async def _call(self, name: str, arguments: Any) -> Any:
        """Make one call; the calls made in one iteration of TRL's event loop are one turn."""
        turn = self._open
        if turn is None:
            turn = self._open = _OpenTurn()
            asyncio.get_running_loop().call_soon(self._send)
        place = len(turn.calls)
        turn.calls.append((name, arguments))
        if self._together:
            return PendingResult(turn.results, place)
        return (await asyncio.shield(asyncio.wrap_future(turn.results)))[place]  # other calls wait for it too

    def _send(self) -> None:
        turn, self._open = self._open, None
        assert turn is not None
        self._sessions.submit(self._episode.play_calls(turn.calls)).add_done_callback(turn.finish)


class _OpenTurn:
    """The calls of a turn as they are collected, and a future of their results."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.results: Future[list[str]] = Future()

    def finish(self, turn: Future[list[str]]) -> None:
        """Pass on the results, or the error of a turn that failed or never began."""
        if turn.cancelled():
            self.results.set_exception(ConnectionLost("the sessions were closed while a turn was played"))
        elif error := turn.exception():
            self.results.set_exception(error)
        else:
            self.results.set_result(turn.result())


class PendingResult(str):
    """Stand-in for a result that is not there yet; only ToolsTogether makes such results, and replaces them."""

    results: Future[list[str]]
    place: int

    def __new__(cls, results: Future[list[str]], place: int) -> PendingResult:
        pending = super().__new__(cls, "not run: the result was not waited for")
        pending.results, pending.place = results, place
        return pending

    def __str__(self) -> str:
        """Return the object itself: TRL converts every result to a string at once."""
        return self

    def text(self) -> str:
        """Wait for the result and return it; not to be used on an event loop."""
        return self.results.result()[self.place]


def _environment_class(tools: Sequence[tool_methods.Schema] | None, name: str) -> type[_Environment]:
    """Return a class with the tools as methods; TRL names the reward's metric after the class."""
    call = _Environment._call
    methods = tool_methods.generic_method(call) if tools is None else tool_methods.methods(tools, call)
    return type(name or "EtudeEnvironment", (_Environment,), {**methods, "_generic": tools is None})


def _fetch_toolsets(url: str, split: str) -> dict[str, list[Mapping[str, Any]]]:
    """Return each task's tools, by the task's id, as its episodes have them."""
    with SyncClient(url) as client:
        rows = client.rows(split)
    parameters = {row["task_id"]: row["responses_create_params"] for row in rows}
    return {task: [_chat_style(tool) for tool in fields.get("tools") or []] for task, fields in parameters.items()}


def _chat_style(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a tool from the Responses style of ``/rows``."""
    function = {name: tool[name] for name in ("name", "description", "parameters") if name in tool}
    return {"type": "function", "function": function}
