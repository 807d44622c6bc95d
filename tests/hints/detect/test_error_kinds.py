"""The decision table, row by row."""

from __future__ import annotations

import pytest

from etude.environments.tool_protocol import capped
from etude.hints import PastCall, error_kind, read_status
from etude.hints.transcript.status_line import NONE, OUTPUT, is_status, was_cut

CRASH = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    f()\nValueError: no'


def kind(tool: str, content: str) -> str | None:
    line, _, body = content.partition("\n")
    return error_kind(PastCall("c", tool, read_status(line), body=body))


@pytest.mark.parametrize(
    ("tool", "content", "expected"),
    [
        ("grep", "error tool_not_found: there is no tool 'grep'", "tool_not_found"),
        ("bash", "error malformed_call: arguments are not valid JSON", "malformed_call"),
        ("bash", "error invalid_args: bash needs the argument 'command'", "invalid_args"),
        ("read_file", "error file_not_found: no such file: x", "file_not_found"),
        ("edit_file", "error edit_failed: old is not in x", "edit_failed"),
        ("fetch", "error transport_error: 503", "transport_error"),
        ("fetch", "error timeout: longer than 10 s", "timeout"),
        ("write_file", "error io_error: cannot write x: No space left on device", "nonzero_exit"),
        ("bash", "error false_claim: no code of a call", "nonzero_exit"),
        ("bash", "exit 1\nboom", "nonzero_exit"),
        ("bash", "exit 1", "nonzero_exit"),
        ("bash", "exit 127\nbash: x: command not found", "command_not_found"),
        ("execute_command", "exit 127", "command_not_found"),
        ("deploy", "exit 127", "nonzero_exit"),
        ("bash", "exit 1\nstart\n" + CRASH, "traceback"),
        ("bash", "exit 1\n" + CRASH + "\nnothing of this was written\n\n1 failed", "nonzero_exit"),
        ("python", "exit 1\nNameError: name 'x' is not defined", "nonzero_exit"),
        ("python", "exit 1\n" + CRASH, "traceback"),
        ("python", "error nonzero_exit: exit 1\n" + CRASH, "traceback"),
        ("python", "error io_error: no space\n" + CRASH, "nonzero_exit"),
        ("run_tests", "error nonzero_exit: exit 1\n" + CRASH, "nonzero_exit"),
        ("bash", "exit 1\nNameError: name 'x' is not defined", "nonzero_exit"),
        ("run_tests", "exit 2\n" + CRASH, "nonzero_exit"),
        ("bash", "timeout 30s", "timeout"),
        ("bash", "timeout 0.5s\nhalf", "timeout"),
        ("run_tests", "exit 1\n1 failed", None),
        ("bash", "ok\n" + CRASH, None),
        ("bash", "ok\nexit 1", None),
        ("bash", "not run: episode ended", None),
    ],
)
def test_a_status_means_a_kind(tool: str, content: str, expected: str | None) -> None:
    assert kind(tool, content) == expected


def test_without_a_result_only_a_call_that_could_not_be_read_is_an_error() -> None:
    assert error_kind(PastCall("c", "bash", NONE)) is None
    assert error_kind(PastCall("c", "bash", NONE, problem="malformed_call: no JSON")) == "malformed_call"


@pytest.mark.parametrize("data", [b"x" * (OUTPUT + 1), "é".encode() * OUTPUT, b"line\n" * OUTPUT, b"a\xff" * OUTPUT])
def test_a_result_that_was_cut_is_output_limit(data: bytes) -> None:
    body = capped(data)
    assert kind("bash", f"ok\n{body}") == "output_limit"
    assert kind("bash", f"exit 1\n{body}") == "nonzero_exit"
    assert kind("run_tests", f"exit 1\n{body}\n[killed: out of memory]") == "output_limit"


@pytest.mark.parametrize("filler", [b"x", b"\xff", "é".encode(), b"\n"])
def test_a_command_that_prints_the_mark_does_not_seem_cut(filler: bytes) -> None:
    mark = b"\n[... 7 bytes dropped ...]\n"
    size = (OUTPUT - len(mark)) // 2 // len(filler)
    body = capped(filler * size + mark + filler * size)
    assert not was_cut(body)
    assert kind("bash", f"ok\n{body}") is None


@pytest.mark.parametrize("content", ["ok", "ok\nx", "exit 3", "timeout 2s\n", "error a: b", "not run: episode ended"])
def test_a_status_line_is_recognised(content: str) -> None:
    assert is_status(content)


@pytest.mark.parametrize("content", ["", "okay", "Ok", "exit", "exit -1", " ok", "error: x", "timeout", "error a b"])
def test_anything_else_is_none(content: str) -> None:
    assert not is_status(content)
