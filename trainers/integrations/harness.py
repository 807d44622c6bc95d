"""OpenEnv's ``ResourceSessionFactory`` over a served task set: for harnesses that own no loop, as TRL's AsyncGRPO.

HarnessRolloutWorker(
    harness_session_factory=functools.partial(EtudeSessionFactory, "http://127.0.0.1:8000"),
    harness_adapter=MCPHarnessAdapter(), dataset=Dataset.from_list(harness_rows(tasks)), ...)

There a call is a turn, and the harness writes every prompt anew. ``owned.OwnedSessionFactory``, without an adapter,
plays whole turns, broken ones too, and its ids are those that were sampled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from openenv.core.env_server.mcp_types import Tool
from openenv.core.harness import Message, ResourceSession, ResourceSessionFactory, ToolResult, VerifyResult

from ...hints.transcript.status_line import read_status
from ...models import Observation
from .episodes import Episode, Outcome
from .sessions import Sessions


def harness_rows(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose prompt is the arguments of a ``reset`` as JSON: a prompt is all that a factory is told of its row."""
    return [{"prompt": [{"role": "user", "content": json.dumps(dict(task))}]} for task in tasks]


class EtudeSession(ResourceSession):
    """One episode. A call is a turn: the interface has no other. What goes wrong is a result, never an exception.

    ``system`` opens the dialogue. Raises as ``Episode.begin``.
    """

    def __init__(self, sessions: Sessions, arguments: Mapping[str, Any], system: str = "") -> None:
        self._sessions, self._system = sessions, system
        self._episode = Episode(sessions)
        sessions.abandon(self, self._episode.leave)
        self._first: Observation = sessions.run(self._episode.begin(arguments, wait=True))

    def initial_messages(self) -> list[Message]:
        system = [{"role": "system", "content": self._system}] if self._system else []
        return [*system, {"role": "user", "content": self._first.prompt or ""}]

    def list_tools(self) -> list[Tool]:
        functions = [tool["function"] for tool in self._first.tools or []]
        return [
            Tool(name=each["name"], description=each.get("description", ""), input_schema=each.get("parameters", {}))
            for each in functions
        ]

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """``error`` is the status line of a call that failed; ``reward`` is in the metadata of the last call alone."""
        (text,) = self._sessions.run(self._episode.turn([(name, arguments)]))
        status, outcome = read_status(text), self._episode.outcome
        metadata = {"reward": outcome.reward} if outcome.reward is not None else {}
        error = None if status.word == "ok" else status.line
        return ToolResult(data=text, done=self._episode.over, metadata=metadata, error=error)

    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        """The verified reward, None when there is no honest score; what goes on is submitted as it is, and graded.

        ``artifacts`` are for whoever trains, not for the policy: error turns with their hints, each with ``message``,
        the place in ``transcript`` of the assistant's message that erred.
        """
        outcome = self._settled()
        places = self._turns_in(transcript)
        errors = [error.model_dump(mode="json") for error in outcome.error_turns]
        for error in errors:
            error["message"] = places[error["turn"]] if error["turn"] < len(places) else None
        return VerifyResult(
            env_reward=outcome.reward,
            done=self._episode.over,
            metrics={
                "turns": outcome.turns,
                "error_turns": len({error.turn for error in outcome.error_turns}),
                "findings": len(outcome.findings),
                "valid": outcome.reward is not None,
                **{f"reward/{name}": value for name, value in outcome.components.items()},
            },
            artifacts={
                "task_id": outcome.task_id,
                "episode_id": outcome.episode_id,
                "end": outcome.end,
                "problem": outcome.problem,
                "error_turns": errors,
                "findings": [finding.model_dump(mode="json") for finding in outcome.findings],
            },
        )

    def close(self) -> None:
        """Idempotent; an episode that goes on ends ungraded."""
        self._sessions.run(self._episode.leave())

    def _settled(self) -> Outcome:
        return self._sessions.run(self._episode.settle())

    def _turns_in(self, transcript: Sequence[Message]) -> list[int]:
        """The place of each turn: here of the assistant's message that asked for each result."""
        return _callers(transcript)


class EtudeSessionFactory(ResourceSessionFactory[EtudeSession]):
    """Sessions on one server. It can be pickled; connections are opened where it is used.

    ``create`` takes a task's id, the arguments of a ``reset``, or the messages of one of ``harness_rows``. Messages
    without a word draw a task of ``split`` by ``seed``: TRL gives each group its own.
    """

    def __init__(self, url: str, *, split: str = "train", system: str = "") -> None:
        self.url, self.split, self.system = url, split, system
        self._sessions = Sessions(url)

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> EtudeSession:
        """Raises as ``Episode.begin``, and ValueError for a task that is none of these."""
        return EtudeSession(self._sessions, self._given(task, seed, episode_id), self.system)

    def close(self) -> None:
        """End all sessions. Idempotent."""
        self._sessions.close()

    def _given(self, task: Any, seed: int | None, episode_id: str | None) -> dict[str, Any]:
        """The arguments of the ``reset``."""
        arguments = _arguments(task) or {"split": self.split}
        given = {"seed": seed, "episode_id": episode_id, **arguments}
        if "fork_of" in arguments:
            given.pop("seed")
        return {name: value for name, value in given.items() if value is not None}

    def __reduce__(self) -> Any:
        return _made, (self.url, self.split, self.system)


def _made(url: str, split: str, system: str) -> EtudeSessionFactory:
    return EtudeSessionFactory(url, split=split, system=system)


def _arguments(task: Any) -> dict[str, Any]:
    if isinstance(task, Mapping):
        return dict(task)
    if isinstance(task, Sequence) and not isinstance(task, str):
        text = str(task[-1]["content"]).strip() if task else ""
        try:
            found = json.loads(text) if text else {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ValueError(f"a prompt must be the arguments of a reset as JSON (harness_rows), not {text[:60]!r}")
        return found
    return {"task_id": task} if task else {}


def _callers(transcript: Sequence[Message]) -> list[int]:
    """For each result in the transcript, the place of the assistant's message that asked for it."""
    found, asked = [], -1
    for place, message in enumerate(transcript):
        if message["role"] == "assistant":
            asked = place
        elif message["role"] == "tool":
            found.append(asked)
    return found
