"""Lines that a user types, as calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from etude.cli.terminal.input_lines import action_of, usage
from etude.environments.coding.tools import TOOLS, schemas
from etude.environments.declaration import SUBMIT_SCHEMA
from etude.errors import UnreadableLine

SCHEMAS = schemas(list(TOOLS))


def further(*lines: str) -> Callable[[], str]:
    """Return a function that returns these lines one after the other."""
    rest = iter(lines)

    def more() -> str:
        try:
            return next(rest)
        except StopIteration:
            raise EOFError from None

    return more


def arguments(line: str, *lines: str, tools: list[dict[str, Any]] = SCHEMAS) -> Any:
    return action_of(line, tools, further(*lines))["tool_calls"][0]["arguments"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bash ls -la | head", {"command": "ls -la | head"}),
        ("bash X=1 env", {"command": "X=1 env"}),
        ("bash command='ls -la' timeout_s=3", {"command": "ls -la", "timeout_s": 3}),
        ("bash sleep 1 timeout_s=0.5", {"command": "sleep 1", "timeout_s": 0.5}),
        ("read_file src/a.py start_line=2", {"path": "src/a.py", "start_line": 2}),
        ("read_file start_line=two path=12", {"path": "12", "start_line": "two"}),
        ("run_tests", {}),
        ("gone anything at all", {"text": "anything at all"}),
        ("gone key=1", {"key": 1}),
        ('bash {"command": "ls"}', '{"command": "ls"}'),
        ("bash {broken", "{broken"),
    ],
)
def test_a_line_becomes_the_arguments_of_a_call(line: str, expected: Any) -> None:
    assert arguments(line) == expected


def test_a_block_becomes_the_value_when_a_word_ends_it() -> None:
    read = arguments("write_file path=a.py content=<<END", "x = 1", "", "y = 2", "END")
    assert read == {"path": "a.py", "content": "x = 1\n\ny = 2\n"}


def test_a_here_document_stays_in_the_command_when_it_is_one_of_the_shell() -> None:
    assert arguments("bash cat > a <<EOF", "one", "EOF") == {"command": "cat > a <<EOF\none\nEOF\n"}


def test_the_answer_is_the_text_when_a_tool_requires_nothing() -> None:
    assert arguments("submit 4 2", tools=[SUBMIT_SCHEMA]) == {"answer": "4 2"}


@pytest.mark.parametrize("line", ["write_file path='a", "write_file path=a b"])
def test_a_line_is_refused_when_it_cannot_be_read(line: str) -> None:
    with pytest.raises(UnreadableLine):
        arguments(line)


def test_the_end_of_the_input_is_raised_when_a_block_is_open() -> None:
    with pytest.raises(EOFError):
        arguments("write_file path=a content=<<END", "x")


def test_usage_puts_brackets_around_arguments_that_may_be_left_out() -> None:
    assert usage(SUBMIT_SCHEMA) == "submit [answer] [summary]"
