"""Calls in tags, as they are read from what a model wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from etude.environments.agents.text_tool_calls import read_calls


def tagged(*values: Any) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(value)}\n</tool_call>" for value in values)


def call(text: str = "x") -> dict[str, Any]:
    return {"name": "f", "arguments": {"text": text}}


ODD = [call("a </tool_call> b"), call("</think> <tool_call>")]


@pytest.mark.parametrize(
    ("content", "text", "calls"),
    [
        ("It is done.", "It is done.", []),
        (f"First. {tagged(call())} Then.", "First.  Then.", [call()]),
        (tagged(call("a"), call("b")), "", [call("a"), call("b")]),
        (tagged(call()).removesuffix("\n</tool_call>"), "", [call()]),
        (f"<think>{tagged(call('no'))}</think>Now. {tagged(call())}", "Now.", [call()]),
        (f"maybe {tagged(call('no'))}</think>{tagged(call())}", "", [call()]),
        (f"<tool_call> or not</think>{tagged(call())}", "", [call()]),
        (tagged(*ODD), "", ODD),
        (f"<think>Hm.</think>{tagged(call('</think>'))}", "", [call("</think>")]),
        ("<tool_call>\n{not json\n</tool_call> So.", "So.", [{"name": "", "arguments": "{not json"}]),
        ('<tool_call>{"name": "f", "arg', "", [{"name": "f", "arguments": '{"name": "f", "arg'}]),
        ("<tool_call></tool_call>", "", [{"name": "", "arguments": ""}]),
    ],
)
def test_calls_are_read_whatever_stands_around_and_in_them(content: str, text: str, calls: list[Any]) -> None:
    assert read_calls(content) == (text, calls)
