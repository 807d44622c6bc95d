"""The profile ``restricted``: programs that the shell lacks, what it answers, and what is recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from etude.environments.actions import call, turn
from etude.environments.coding.session import CodingSession
from etude.environments.tasks.task_set import TaskSet
from etude.errors import SessionError
from etude.models import Episode

FIND = "Tool not found: find. Reminder: list_files lists the files below a folder; search finds text in files."


def played(tasks: TaskSet, *commands: str, **reset: Any) -> tuple[Episode, list[str]]:
    """Return the finished episode, and what each command answered."""

    async def play() -> tuple[Episode, list[str]]:
        session = CodingSession(tasks)
        try:
            await session.reset(task_id=tasks.list_tasks("train")[0].task_id, **reset)
            answers = [
                (await session.step(turn("", call("bash", command=text)))).messages[0].content for text in commands
            ]
            await session.step(turn("", call("submit")))
            return session.episode(), answers
        finally:
            await session.close()

    return asyncio.run(play())


def test_absent_program_answers_with_a_reminder_in_every_shell(tasks: TaskSet) -> None:
    commands = ("find . -name '*.py'", "bash -c 'unzip x.zip'", "echo a | strings | cat; echo rest", "ls src")
    episode, answers = played(tasks, *commands, tools="restricted")
    assert answers[0] == f"exit 127\n{FIND}\n"
    assert answers[1] == "exit 127\nTool not found: unzip. Reminder: read_file shows text files.\n"
    assert answers[2] == "ok\nTool not found: strings. Reminder: read_file shows text files.\nrest\n"
    assert answers[3] == "ok\ntally\n"
    recorded = [(finding.turn, finding.command) for finding in episode.findings]
    assert recorded == [(0, "find"), (1, "unzip"), (2, "strings")]
    assert {(finding.exploit_id, finding.severity) for finding in episode.findings} == {("absent_program", "info")}
    unknown = [error.turn for error in episode.error_turns if error.kind == "command_not_found"]
    assert unknown == [0, 1]


def test_profile_is_realism_and_not_a_boundary(tasks: TaskSet) -> None:
    _, answers = played(tasks, "$(type -P find) src -name core.py", tools=["restricted", "bash", "submit"])
    assert answers == ["ok\nsrc/tally/core.py\n"]


def test_reminder_names_only_tools_that_the_agent_has(tasks: TaskSet) -> None:
    episode, answers = played(tasks, "find .", "strings x", tools=["restricted", "bash", "submit"])
    assert "Reminder: ls lists a folder." in answers[0] and "Reminder: cat shows text files." in answers[1]
    assert [tool["function"]["name"] for tool in episode.tools] == ["bash", "submit"]
    assert "restricted" not in episode.prompt


def test_shell_is_whole_without_the_profile(tasks: TaskSet) -> None:
    episode, answers = played(tasks, "find src -name core.py", "echo 'Tool not found: find. Reminder: x.'")
    assert answers[0] == "ok\nsrc/tally/core.py\n"
    assert [finding.turn for finding in episode.findings] == [1]  # printed by the agent itself: recorded, as info


def test_unknown_profile_is_refused(tasks: TaskSet) -> None:
    for tools, problem in (
        ("restrict", "must be a list of tool names, or 'restricted'"),
        (["restrict"], "tool 'restrict'"),
    ):
        with pytest.raises(SessionError, match=problem):
            played(tasks, tools=tools)


def test_fork_keeps_the_profile(tasks: TaskSet) -> None:
    async def play() -> str:
        session = CodingSession(tasks)
        try:
            await session.reset(tools="restricted", seed=1)
            await session.step(turn("", call("bash", command="true")))
            await session.reset(fork_of=session.episode().episode_id, turn=1)
            return (await session.step(turn("", call("bash", command="find .")))).messages[0].content
        finally:
            await session.close()

    assert FIND in asyncio.run(play())
