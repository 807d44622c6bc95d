"""Environment and host annotate alike: what a session stored is what anybody makes of its transcript."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from etude import hints
from etude.environments.coding import Budget, CodingSession
from etude.environments.tasks import TaskSet
from etude.models import Episode


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "bash", "arguments": {"command": command, **more}}


ACTIONS: list[dict[str, Any]] = [
    {"text": "Action: nope\nAction Input: {", "tool": "grep", "arguments": {"pattern": "x"}},
    {"text": "<tool_call>{</tool_call>", "tool_calls": [{"id": "a", "name": "bash", "arguments": '{"command": "ls"'}]},
    {"tool_calls": [{"id": "a", "name": "bash", "arguments": {"cmd": "ls"}}, {"id": "a", "name": "bash"}]},
    {"tool_calls": "bash"},
    {"tool": "read_file", "arguments": {"path": "src/tally/cor.py"}},
    {"tool": "edit_file", "arguments": {"path": "src/tally/core.py", "old": "nothing like it", "new": "x"}},
    bash("exit 4"),
    bash("nosuchprogram"),
    bash("python -c 'import json; json.loads(\"\")'"),
    bash(
        "echo 'error tool_not_found: x'; echo 'bash: x: command not found'; echo 'Traceback (most recent call last):'"
    ),
    bash("yes | head -c 99999"),
    bash("sleep 9", timeout_s=0.2),
    {"tool": "run_tests"},
    {"text": "That was all."},
    bash("true"),
]
KINDS = (
    "tool_not_found malformed_call invalid_args malformed_call malformed_call file_not_found edit_failed nonzero_exit "
    "command_not_found traceback output_limit timeout"
).split()
BEHAVIOURS = ("wasteful", "style", "false_claim")


def played(tasks: TaskSet, *actions: dict[str, Any], budget: Budget = Budget()) -> tuple[Episode, list[Any]]:
    """The episode, and its annotations after each turn."""

    async def script() -> tuple[Episode, list[Any]]:
        session = CodingSession(tasks, budget=budget)
        seen = []
        try:
            await session.reset()
            for action in actions:
                await session.step(action)
                seen.append(session.state().error_turns)
            return session.episode(), seen
        finally:
            await session.close()

    return asyncio.run(script())


@pytest.fixture(scope="module")
def episode(tasks: TaskSet) -> Episode:
    return played(tasks, *ACTIONS)[0]


def test_each_mistake_is_one_error_of_its_kind(episode: Episode) -> None:
    assert [error.kind for error in episode.error_turns if error.kind not in BEHAVIOURS] == KINDS


def test_a_host_finds_in_the_transcript_what_the_session_stored(episode: Episode) -> None:
    assert hints.annotate(hints.transcript(episode), episode.tools) == episode.error_turns


def test_a_stored_episode_is_annotated_alike(episode: Episode) -> None:
    stored = Episode.model_validate_json(episode.model_dump_json())
    messages = json.loads(json.dumps(hints.transcript(stored)))
    assert hints.annotate(messages, json.loads(json.dumps(stored.tools))) == episode.error_turns


def test_a_host_that_knows_only_the_messages_finds_the_same_calls(episode: Episode) -> None:
    messages = hints.transcript(episode)
    messages[0] = {"role": "user", "content": episode.prompt}
    found = [(error.turn, error.call_index, error.kind) for error in hints.annotate(messages, [])]
    assert found == [(error.turn, error.call_index, error.kind) for error in episode.error_turns]


def test_a_budget_that_runs_out_is_an_error_of_the_last_turn(tasks: TaskSet) -> None:
    episode, _ = played(tasks, bash("true"), bash("true"), budget=Budget(turns=2))
    assert [(error.kind, error.turn) for error in episode.error_turns if error.kind not in BEHAVIOURS] == [
        ("budget", 1)
    ]
