"""Faults in real coding episodes."""

from __future__ import annotations

import asyncio
from typing import Any

from etude.environments.coding import CodingSession
from etude.environments.tasks import TaskSet
from etude.environments.tool_errors import FaultySession
from etude.models import Episode

CORE = "src/tally/core.py"
EDIT = {"path": CORE, "old": "    raise NotImplementedError\n", "new": "    return sum(values)\n"}
SUBMIT = {"tool": "submit"}
READ = {"tool": "bash", "arguments": {"command": f"head -c 20 {CORE}"}}


def episode_of(tasks: TaskSet, faults: str, *actions: dict[str, Any]) -> Episode:
    async def run() -> Episode:
        session = FaultySession(CodingSession(tasks), faults)
        try:
            await session.reset()
            for action in actions:
                await session.step(action)
            return session.episode()
        finally:
            await session.close()

    return asyncio.run(run())


def score(episode: Episode) -> float:
    assert episode.reward is not None and episode.reward.valid
    return episode.reward.value


def errors(episode: Episode) -> list[tuple[int, str, str, bool, bool | None, int | None]]:
    return [
        (error.turn, error.kind, error.site, error.injected, error.recovered, error.turns_to_recover)
        for error in episode.error_turns
        if error.kind not in ("style", "wasteful")  # what an agent does at its leisure is not of interest here
    ]


def edit(tool: str) -> dict[str, Any]:
    return {"tool": tool, "arguments": EDIT}


def test_a_renamed_tool_under_its_new_name_solves_the_task(tasks: TaskSet) -> None:
    struck = episode_of(tasks, "renamed@0", edit("edit_file"), SUBMIT)
    now = [tool["function"]["name"] for tool in struck.injected[0].tools or []]
    (name,) = [each for each in now if "edit_file" in each]
    assert (
        struck.turns[0]
        .messages[0]
        .content.startswith(f"error tool_not_found: there is no tool 'edit_file'; did you mean '{name}'?")
    )
    solved = episode_of(tasks, "renamed@0", edit("edit_file"), edit(name), SUBMIT)
    assert errors(solved) == [(0, "tool_not_found", "recovery", True, True, 1)]
    assert score(solved) == 1.0
    assert [change.path for change in solved.diff] == [CORE]
    assert solved.turns[1].messages[0].name == name


def test_an_agent_that_holds_on_to_the_old_name_does_not(tasks: TaskSet) -> None:
    episode = episode_of(tasks, "renamed@0", edit("edit_file"), edit("edit_file"), SUBMIT)
    assert [row[:4] for row in errors(episode)] == [
        (0, "tool_not_found", "recovery", True),
        (1, "tool_not_found", "erring", False),
    ]
    assert score(episode) == 0.0


def test_a_command_in_the_wrong_directory_misses_and_the_absolute_path_holds(tasks: TaskSet) -> None:
    absolute = {"tool": "bash", "arguments": {"command": f"head -c 20 /workspace/{CORE}"}}
    episode = episode_of(tasks, "wrong_directory@0", READ, absolute, edit("edit_file"), SUBMIT)
    assert "No such file" in episode.turns[0].messages[0].content
    assert errors(episode) == [(0, "nonzero_exit", "recovery", True, True, 1)]
    assert score(episode) == 1.0


def test_an_agent_that_gives_up_over_it_scores_zero(tasks: TaskSet) -> None:
    episode = episode_of(tasks, "wrong_directory@0", READ, {"text": "no such file"}, {"text": "so I stop"})
    assert errors(episode) == [(0, "nonzero_exit", "recovery", True, False, None)]
    assert (episode.end, score(episode)) == ("no_tool_call", 0.0)


def test_half_a_file_is_written_and_writing_it_again_mends_it(tasks: TaskSet) -> None:
    write = {"tool": "write_file", "arguments": {"path": "notes.txt", "content": "one two three"}}
    read = {"tool": "bash", "arguments": {"command": "cat notes.txt"}}
    episode = episode_of(tasks, "partial_write@0", write, read, write, read, edit("edit_file"), SUBMIT)
    told = [turn.messages[0].content for turn in episode.turns]
    assert told[0] == "error io_error: wrote 6 of 13 bytes to notes.txt"
    assert (told[1], told[3]) == ("ok\none tw", "ok\none two three")
    assert errors(episode) == [(0, "nonzero_exit", "recovery", True, True, 2)]


def test_a_withheld_call_counts_as_a_turn_and_is_not_run(tasks: TaskSet) -> None:
    touch = {"tool": "bash", "arguments": {"command": "touch made"}}
    look = {"tool": "bash", "arguments": {"command": "ls made"}}
    episode = episode_of(tasks, "timeout@0", touch, look, SUBMIT)
    assert episode.turns[0].messages[0].content == "timeout 30s"
    assert episode.turns[1].messages[0].content.startswith("exit 2\n")
    assert len(episode.turns) == 3
