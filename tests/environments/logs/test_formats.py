"""Each format, read from a file that the other tool wrote: turns, errors, recoveries, rewards and ids as scripted.

``docs/annotate.md`` says which tool wrote which file. All tell one story: an unknown tool, arguments that are not JSON
or do not fit, a file that does not exist, a command that fails, and the same done right.
"""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from etude.environments.runs.reader import Stored

Errors = list[tuple[int, str, bool | None]]
STORY: Errors = [
    (0, "tool_not_found", True),
    (1, "malformed_call", True),
    (2, "invalid_args", True),
    (3, "file_not_found", False),
    (4, "nonzero_exit", False),
]
WITHOUT_BROKEN_JSON: Errors = [  # the API that streams the arguments checks that they are JSON
    (0, "tool_not_found", True),
    (1, "invalid_args", True),
    (2, "file_not_found", False),
    (3, "nonzero_exit", False),
]
SESSION: Errors = [
    (0, "tool_not_found", True),
    (1, "file_not_found", False),
    (2, "nonzero_exit", False),
    (3, "invalid_args", True),
]
SUB_AGENT: Errors = [(0, "nonzero_exit", True)]
HIDDEN_CAUSE = [*STORY[:3], (3, "transport_error", False), STORY[4]]
"""NeMo Gym's server answers an exception of a tool with ``Internal Server Error`` alone."""


def errors_of(stored: Stored) -> Errors:
    return [(error.turn, error.kind, error.recovered) for error in stored.episode.error_turns]


def reward_of(stored: Stored) -> float | None:
    return stored.episode.reward.value if stored.episode.reward else None


@pytest.mark.parametrize(
    ("file", "name", "errors", "about"),
    [
        ("inspect/notes.eval", "inspect", STORY, ("notes/notes-1", "mockllm/model", 1.0)),
        ("inspect/notes.json", "inspect", STORY, ("notes/notes-1", "mockllm/model", 1.0)),
        ("verifiers/results.jsonl", "verifiers", STORY, ("notes/0", "scripted", 1.0)),
        ("verifiers/traces.jsonl", "verifiers", STORY, ("notes-1", "scripted", 1.0)),
        ("nemo_gym/rollouts.jsonl", "nemo-gym", HIDDEN_CAUSE, ("0", "scripted", 1.0)),
        ("sdk/chat.json", "openai", STORY, ("chat", "scripted", None)),
        ("sdk/responses.jsonl", "openai", STORY, ("responses", "scripted", None)),
        ("sdk/anthropic.json", "anthropic", WITHOUT_BROKEN_JSON, ("anthropic", "claude-scripted-1", None)),
    ],
)
def test_a_log_of_another_tool_is_annotated_as_it_was_scripted(
    file: str, name: str, errors: Errors, about: tuple[str, str, float | None], logs: Path, annotate: Any
) -> None:
    report, (stored,) = annotate(logs / file)
    (summary,) = report.files
    assert (summary.format, summary.episodes, summary.skipped, report.unread) == (name, 1, 0, [])
    assert errors_of(stored) == errors
    assert (stored.episode.task_id, stored.agent, reward_of(stored)) == about
    assert len(stored.episode.turns) == len(errors) + 2
    assert stored.episode.turns[-1].action["content"] == "notes.txt has 2 lines."
    assert stored.episode.prompt.endswith("How many lines has notes.txt?")
    assert all(error.hints for error in stored.episode.error_turns)


def test_a_session_of_claude_code_has_its_sub_agent_as_an_episode(logs: Path, annotate: Any) -> None:
    (session,) = (logs / "claude_code").glob("*.jsonl")
    report, (main, sub) = annotate(session)
    assert [summary.format for summary in report.files] == ["claude-code", "claude-code"]
    assert (errors_of(main), errors_of(sub)) == (SESSION, SUB_AGENT)
    assert (main.agent, sub.agent) == ("claude-scripted-1", "claude-scripted-1 (general-purpose)")
    assert sub.episode.task_id.startswith(main.episode.task_id + "/")
    assert (len(main.episode.turns), len(sub.episode.turns)) == (7, 3)
    assert (main.episode.reward, sub.episode.prompt) == (None, "SUBTASK: list the files here.")
    both = main.episode.turns[4]  # two calls in one answer, whose lines and results are separate in the file
    assert [call["name"] for call in both.action["tool_calls"]] == ["Bash", "Read"]
    assert sorted(message.content for message in both.messages) == ["1\tone\n2\ttwo\n3\t", "2 notes.txt"]


def test_a_trial_of_harbor_has_the_reward_of_its_result(logs: Path, annotate: Any) -> None:
    report, (main, sub) = annotate(logs / "harbor" / "trial")
    assert [(summary.format, summary.episodes) for summary in report.files] == [("atif", 2)]
    assert (errors_of(main), errors_of(sub)) == (SESSION, SUB_AGENT)
    assert (main.episode.task_id, reward_of(main), reward_of(sub)) == ("notes", 1.0, None)
    assert main.agent == "claude-code claude-scripted-1"


def test_embedded_sub_agents_of_a_trajectory_are_episodes(logs: Path, annotate: Any) -> None:
    _, (planner, counter) = annotate(logs / "harbor" / "delegation.json")
    assert (errors_of(planner), errors_of(counter)) == (
        [],
        [(0, "invalid_args", True), (1, "nonzero_exit", False)],
    )
    asked = [message.content for message in planner.episode.turns[0].messages if message.role == "user"]
    assert asked == ["Are you sure?"]
    assert counter.episode.tools[0]["function"]["name"] == "shell"


def test_an_archive_of_inspect_with_deflate_is_read(logs: Path, annotate: Any, tmp_path: Path) -> None:
    """Older versions of Inspect compress with deflate, which every Python reads."""
    zstd = importlib.import_module("zipfile" if sys.version_info >= (3, 14) else "backports.zstd.zipfile")
    with zstd.ZipFile(logs / "inspect" / "notes.eval") as source:
        members = {name: source.read(name) for name in source.namelist()}
    with zipfile.ZipFile(tmp_path / "old.eval", "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in members.items():
            target.writestr(name, data)
    _, (stored,) = annotate(tmp_path / "old.eval")
    assert errors_of(stored) == STORY


def test_a_folder_of_all_logs_is_read_and_reading_the_result_changes_nothing(logs: Path, annotate: Any) -> None:
    report, first = annotate(logs)
    assert {summary.format for summary in report.files} == {
        "claude-code",
        "atif",
        "inspect",
        "verifiers",
        "nemo-gym",
        "anthropic",
        "openai",
    }
    again_report, again = annotate(Path(report.out))
    assert [summary.format for summary in again_report.files] == ["etude"]
    assert len(first) == 14 and again == first
