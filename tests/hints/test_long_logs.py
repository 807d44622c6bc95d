"""What a policy writes must not make the annotator slow: cost grows with the text and the log, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from etude.hints import annotate
from etude.hints.detect.behaviour.claims import claims

WORDS = "all tests pass now, I ran them again. "
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]


def seconds(run: Callable[[], Any]) -> float:
    """CPU seconds, the least of three."""
    errors = []
    for _ in range(3):
        started = time.process_time()
        run()
        errors.append(time.process_time() - started)
    return min(errors)


@pytest.mark.parametrize(
    "unit",
    [" ", "\t", "\r\n", "\n", "\u3000", '"', "“", "`", "```", "> ", "- ", ", ", ",", ". ", "a, ", "<think>", "I "],
)
def test_no_text_costs_much_more_than_ordinary_words(unit: str) -> None:
    """The square of 20,000 characters took 1,000 times as long and more."""
    ordinary = (WORDS * 600)[:20_000]
    hostile = (unit * 20_000)[:19_999] + "!"
    assert seconds(lambda: list(claims(hostile))) < 20 * max(seconds(lambda: list(claims(ordinary))), 0.005)


def log_of(number: int) -> list[dict[str, Any]]:
    """Return a log in which every call fails and names another tool."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "do it"}]
    for turn in range(number):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": f"no_tool_{turn % 50}", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": "error tool_not_found: there is none"})
    return messages


def test_a_log_of_errors_costs_as_many_times_more_as_it_is_longer() -> None:
    short, long = log_of(150), log_of(1500)
    assert seconds(lambda: annotate(long, TOOLS)) < 30 * seconds(lambda: annotate(short, TOOLS))
