"""OpenEnv's ``ResourceSessionFactory`` over a served task set, for harnesses with their own loop, as TRL's AsyncGRPO.

HarnessRolloutWorker(
    harness_session_factory=functools.partial(EtudeSessionFactory, "http://127.0.0.1:8000"),
    harness_adapter=MCPHarnessAdapter(), dataset=Dataset.from_list(harness_rows(tasks)), ...)

In this interface a call is a turn, and the harness renders every prompt again. ``async_grpo.OwnedSessionFactory``,
without an adapter, plays whole turns, malformed ones too, and returns the ids that were sampled.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

from openenv.core.env_server.mcp_types import Tool
from openenv.core.harness import Message, ResourceSession, ResourceSessionFactory, ToolResult, VerifyResult

from ...hints.transcript.status_line import read_status
from ...models import Observation
from .episodes import Episode, Outcome
from .sessions import Sessions


def harness_rows(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows whose prompt is the arguments of a ``reset`` as JSON: a factory sees only the prompt of its row."""
    return [{"prompt": [{"role": "user", "content": json.dumps(dict(task))}]} for task in tasks]


class EtudeSession(ResourceSession):
    """One episode, in which each call is a turn, as the interface demands. Failures become results, not exceptions.

    ``system`` opens the dialogue. Raises as ``Episode.begin``.
    """

    def __init__(self, sessions: Sessions, arguments: Mapping[str, Any], system: str = "") -> None:
        self._sessions, self._system = sessions, system
        self._episode = Episode(sessions)
        sessions.leave_with(self, self._episode.leave)
        self._first: Observation = sessions.run(self._episode.begin(arguments, wait=True))

    def initial_messages(self) -> list[Message]:
        """Return the first messages of the dialogue."""
        system = [{"role": "system", "content": self._system}] if self._system else []
        return [*system, {"role": "user", "content": self._first.prompt or ""}]

    def list_tools(self) -> list[Tool]:
        """Return the task's tools."""
        functions = [tool["function"] for tool in self._first.tools or []]
        return [
            Tool(name=f["name"], description=f.get("description", ""), input_schema=f.get("parameters", {}))
            for f in functions
        ]

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Play one call; ``error`` is the status line of a failed call, and the last call's metadata has ``reward``."""
        (text,) = self._sessions.run(self._episode.play_calls([(name, arguments)]))
        status, outcome = read_status(text), self._episode.outcome
        metadata = {"reward": outcome.reward} if outcome.reward is not None else {}
        error = None if status.word == "ok" else status.line
        return ToolResult(data=text, done=self._episode.over, metadata=metadata, error=error)

    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        """Return the verified reward, None without a valid score; an episode in progress is graded as it is.

        ``artifacts`` are for the trainer, not the policy: error turns with their hints, each with ``message``, the
        index in ``transcript`` of the assistant's message that erred.
        """
        outcome = self._settle()
        places = self._turn_places(transcript)
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
        """End an episode in progress, ungraded. Idempotent."""
        self._sessions.run(self._episode.leave())

    def _settle(self) -> Outcome:
        return self._sessions.run(self._episode.settle())

    def _turn_places(self, transcript: Sequence[Message]) -> list[int]:
        """Return the index of each turn's message: here of the assistant's message that asked for each result."""
        places, last = [], -1
        for place, message in enumerate(transcript):
            if message["role"] == "assistant":
                last = place
            elif message["role"] == "tool":
                places.append(last)
        return places


@dataclass(eq=False)
class EtudeSessionFactory(ResourceSessionFactory[EtudeSession]):
    """Factory of sessions on one server. It can be pickled; connections open where it is used.

    ``create`` takes a task's id, the arguments of a ``reset``, or the messages of one of ``harness_rows``. An empty
    message draws a task of ``split`` by ``seed``: TRL gives each group a different seed.
    """

    url: str
    """Address of the server."""
    _: KW_ONLY
    split: str = "train"
    """Split from which an empty message draws its task."""
    system: str = ""
    """System message that opens the dialogue."""

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.url)

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> EtudeSession:
        """Start an episode. Raises as ``Episode.begin``, and ValueError for a task of another form."""
        return EtudeSession(self.sessions, self._reset_arguments(task, seed, episode_id), self.system)

    def close(self) -> None:
        """End all sessions. Idempotent."""
        self.sessions.close()

    def _reset_arguments(self, task: Any, seed: int | None, episode_id: str | None) -> dict[str, Any]:
        arguments = {"seed": seed, "episode_id": episode_id, **(_arguments(task) or {"split": self.split})}
        if "fork_of" in arguments:
            arguments.pop("seed")
        return {name: value for name, value in arguments.items() if value is not None}

    def __reduce__(self) -> Any:
        return functools.partial(type(self), **{field.name: getattr(self, field.name) for field in fields(self)}), ()


def _arguments(task: Any) -> dict[str, Any]:
    if isinstance(task, Mapping):
        return dict(task)
    if isinstance(task, Sequence) and not isinstance(task, str):
        text = str(task[-1]["content"]).strip() if task else ""
        try:
            arguments = json.loads(text) if text else {}
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            raise ValueError(f"a prompt must be the arguments of a reset as JSON (harness_rows), not {text[:60]!r}")
        return arguments
    return {"task_id": task} if task else {}
