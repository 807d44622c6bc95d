"""ErrorTurns come from status lines alone, and from the transcript alone."""

from __future__ import annotations

from typing import Any

import pytest

from etude.hints import annotate, read_status


def chat(*turns: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Turns of (tool, content) results as a message list."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number, results in enumerate(turns):
        messages.append({"role": "assistant", "content": ""})
        for index, (tool, content) in enumerate(results):
            messages.append({"role": "tool", "tool_call_id": f"c{number}{index}", "name": tool, "content": content})
    return messages


@pytest.mark.parametrize(
    ("tool", "content", "kind"),
    [
        ("grep", "error tool_not_found: there is no tool 'grep'", "tool_not_found"),
        ("bash", "error malformed_call: arguments are not valid JSON", "malformed_call"),
        ("bash", "error invalid_args: bash needs the argument 'command'", "invalid_args"),
        ("read_file", "error file_not_found: no such file: x", "file_not_found"),
        ("edit_file", "error edit_failed: old is not in x", "edit_failed"),
        ("write_file", "error io_error: cannot write x: No space left on device", "nonzero_exit"),
        ("bash", "exit 1\nboom", "nonzero_exit"),
        ("bash", "exit 127\nbash: x: command not found", "command_not_found"),
        ("bash", "timeout 30s", "timeout"),
        ("bash", "timeout 0.5s\nhalf", "timeout"),
        ("run_tests", "exit 2\ninterrupted", "nonzero_exit"),
    ],
)
def test_status_lines_mean_kinds(tool: str, content: str, kind: str) -> None:
    (error,) = annotate(chat([(tool, content)]), [])
    assert (error.kind, error.tool, error.turn, error.call_index, error.call_id) == (kind, tool, 0, 0, "c00")
    assert error.evidence == content.partition("\n")[0]


@pytest.mark.parametrize(
    ("tool", "content"),
    [
        ("bash", "ok\nerror tool_not_found: printed by a command"),
        ("bash", "ok\nexit 1\ntimeout 30s"),
        ("run_tests", "exit 1\n1 failed"),
        ("bash", "not run: episode ended"),
        ("bash", "ok"),
        ("bash", "okay then"),
    ],
)
def test_what_a_command_prints_changes_nothing(tool: str, content: str) -> None:
    assert annotate(chat([(tool, content)]), []) == []


def test_recovery_is_the_same_tool_working_again() -> None:
    failed, fine = ("edit_file", "error edit_failed: x"), ("edit_file", "ok\nedited")
    (error,) = annotate(chat([failed], [("bash", "ok")], [fine]), [])
    assert (error.recovered, error.turns_to_recover) == (True, 2)
    (error,) = annotate(chat([failed], [("bash", "ok")]), [])
    assert (error.recovered, error.turns_to_recover) == (False, None)
    (error,) = annotate(chat([failed]), [])
    assert error.recovered is None


def test_a_tool_that_does_not_exist_is_recovered_by_any_other() -> None:
    (error,) = annotate(chat([("grep", "error tool_not_found: x")], [("search", "ok")]), [])
    assert (error.recovered, error.turns_to_recover) == (True, 1)


def test_injected_faults_come_from_the_log_and_are_annotated_at_the_recovery() -> None:
    (error,) = annotate(chat([("bash", "exit 1\n")]), [], injected={"c00": "disk full"})
    assert (error.injected, error.site) == (True, "recovery")


def test_a_status_is_the_first_line_only() -> None:
    assert read_status("exit 3\nok").exit_code == 3
    assert read_status("ok \n").word == "other"
    assert read_status("").word == "other"
