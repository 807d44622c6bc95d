"""Annotations: a host that has only the transcript makes the same ones as the session."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from etude import hints
from etude.environments.annotations import annotated
from etude.environments.coding.session import CodingSession
from etude.environments.running import Budget
from etude.environments.tasks.task_set import TaskSet
from etude.environments.wire_values import served_episode
from etude.models import Episode, Task


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
    """Return the episode, and its annotations after each turn."""

    async def script() -> tuple[Episode, list[Any]]:
        session = CodingSession(tasks, budget=budget)
        observed = []
        try:
            await session.reset()
            for action in actions:
                await session.step(action)
                observed.append(session.state().error_turns)
            return session.episode(), observed
        finally:
            await session.close()

    return asyncio.run(script())


@pytest.fixture(scope="module")
def episode(tasks: TaskSet) -> Episode:
    return played(tasks, *ACTIONS)[0]


def test_each_mistake_is_one_error_of_its_kind(episode: Episode) -> None:
    assert [error.kind for error in episode.error_turns if error.kind not in BEHAVIOURS] == KINDS


def test_a_host_finds_in_the_transcript_what_the_session_stored(episode: Episode) -> None:
    assert hints.annotate(hints.transcript(episode), episode.tools, episode.files) == episode.error_turns


def test_a_stored_episode_is_annotated_alike(episode: Episode) -> None:
    stored = Episode.model_validate_json(episode.model_dump_json())
    messages = json.loads(json.dumps(hints.transcript(stored)))
    assert hints.annotate(messages, json.loads(json.dumps(stored.tools)), stored.files) == episode.error_turns


def test_a_host_with_the_messages_alone_annotates_the_same_calls(episode: Episode) -> None:
    messages = hints.transcript(episode)
    messages[0] = {"role": "user", "content": episode.prompt}
    result = [(error.turn, error.call_index, error.kind) for error in hints.annotate(messages, [])]
    assert result == [(error.turn, error.call_index, error.kind) for error in episode.error_turns]


def test_a_budget_that_runs_out_is_an_error_of_the_last_turn(tasks: TaskSet) -> None:
    episode, _ = played(tasks, bash("true"), bash("true"), budget=Budget(turns=2))
    assert [(error.kind, error.turn) for error in episode.error_turns if error.kind not in BEHAVIOURS] == [
        ("budget", 1)
    ]


def test_the_files_are_those_that_the_agent_can_list(tasks: TaskSet, task: Task) -> None:
    episode, _ = played(tasks, {"tool": "list_files"})
    assert episode.turns[0].messages[0].content.split("\n") == ["ok", *episode.files]
    assert "src/tally/core.py" in episode.files
    assert "tests/test_hidden.py" in task.test_patch
    assert "tests/test_hidden.py" not in episode.files


def test_a_wrong_path_is_answered_with_the_nearest_though_nothing_was_listed(tasks: TaskSet) -> None:
    episode, _ = played(tasks, {"tool": "read_file", "arguments": {"path": "tally/wrods.py"}})
    assert "the nearest path is src/tally/words.py" in episode.error_turns[0].hints[0].text


CLAIM = {"tool": "submit", "arguments": {"summary": "I have updated src/tally/words.py."}}


@pytest.mark.parametrize(("written", "kinds"), [("/tmp/words.py", ["false_claim"]), ("src/tally/words.py", [])])
def test_a_claim_is_held_against_the_frozen_diff_by_both(tasks: TaskSet, written: str, kinds: list[str]) -> None:
    """Write with an opaque command, whose effect shows in the diff alone."""
    folder, _, name = written.rpartition("/")
    script = f"from pathlib import Path\nPath({folder!r}, {name[:-3]!r} + '.py').write_text('LIMIT = 99')\n"
    write = {"tool": "write_file", "arguments": {"path": "/tmp/run.py", "content": script}}
    episode, _ = played(tasks, write, bash("python /tmp/run.py"), CLAIM)
    assert [error.kind for error in episode.error_turns] == kinds
    for record in (episode.model_dump(mode="json"), served_episode(episode)):
        assert annotated(Episode.model_validate(record)) == episode.error_turns


def test_an_uncollected_workspace_does_not_make_a_claim_false(tasks: TaskSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etude.environments.coding.session.MAX_CHANGES", 1)
    make = {"tool": "write_file", "arguments": {"path": "/tmp/run.sh", "content": "touch a b c"}}
    episode, _ = played(tasks, make, bash("bash /tmp/run.sh"), CLAIM)
    assert episode.grade is not None and "cannot be collected" in episode.grade.end_cause
    assert episode.error_turns == []
