"""Turns as ids: what a policy of any family would have sampled for a turn that somebody else made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tokenizers_made_here import FAMILIES, tokenizer

from etude.hints.parsing import parse_turn
from etude.trainers.chat import ChatError, TemplateChat
from etude.trainers.replay.states import as_message
from etude.trainers.rollouts import Sample

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"It can {name}.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "line": {"type": "integer"}}},
        },
    }
    for name in ("read_file", "submit")
]
READ = {"name": "read_file", "arguments": {"path": "a/b.py", "line": 3}}
DONE = {"name": "submit", "arguments": {"path": "a\nb"}}
TURNS: dict[str, dict[str, Any]] = {
    "one call": {"text": "", "tool_calls": [READ]},
    "two calls": {"text": "", "tool_calls": [READ, DONE]},
    "words and a call": {"text": "Let me look.", "tool_calls": [DONE]},
    "words and two calls": {"text": "Both at once.", "tool_calls": [READ, DONE]},
    "words": {"text": "It is done."},
    "thinking and words": {"text": "<think>\nHm. So.\n</think>\n\nIt is done."},
    "thinking and a call": {"text": "<think>\nHm.\n</think>", "tool_calls": [READ]},
    "marks that are text": {"text": "", "tool_calls": [{"name": "submit", "arguments": {"path": "<|im_end|></s>"}}]},
}


async def never(ids: Sequence[int], room: int) -> Sample:
    raise AssertionError("nobody samples here")


def asked(name: str) -> tuple[TemplateChat, list[int]]:
    """A family's chat, and its generation prompt after a question."""
    chat = TemplateChat(tokenizer(name), never, arguments=FAMILIES[name].arguments)
    written = chat.prompt([{"role": "user", "content": "Find it."}], TOOLS)
    return chat, written.ids[written.generation :]


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_turn_reads_back_as_it_was_made(name: str, turn: str) -> None:
    chat, opening = asked(name)
    made = TURNS[turn]
    ids = chat.turn(as_message(made, 0, decoded=True), opening)
    assert ids[-1] in chat.stops and not chat.stops.intersection(ids[:-2])
    read, meant = parse_turn(chat.action(ids), 0), parse_turn(made, 0)
    assert [(call.name, call.arguments) for call in read.calls] == [(c.name, c.arguments) for c in meant.calls]
    words = [t.text.removeprefix("<think>\n\n</think>").split() for t in (read, meant)]
    assert words[0] == words[1]


@pytest.mark.parametrize(
    ("name", "turn", "text"),
    [
        ("qwen3", "thinking and a call", "<think>\nHm.\n</think>\n\n<tool_call>\n{}\n</tool_call><|im_end|>"),
        ("qwen3", "words", "<think>\n\n</think>\n\nIt is done.<|im_end|>"),
        ("qwen3-no-thinking", "words and a call", "Let me look.\n<tool_call>\n{}\n</tool_call><|im_end|>"),
        ("qwen3-no-thinking", "one call", "<tool_call>\n{}\n</tool_call><|im_end|>"),
        ("qwen3.5", "thinking and words", "Hm. So.\n</think>\n\nIt is done.<|im_end|>"),
        ("qwen3.5", "words", "\n</think>\n\nIt is done.<|im_end|>"),
        ("deepseek-r1", "thinking and words", "Hm. So.\n</think>\n\nIt is done.<｜end▁of▁sentence｜>"),
        ("llama3.1", "words", "It is done.<|eot_id|>"),
    ],
)
def test_what_stands_after_the_generation_prompt(name: str, turn: str, text: str) -> None:
    chat, opening = asked(name)
    ids = chat.turn(as_message(TURNS[turn], 0, decoded=True), opening)
    call = TURNS[turn].get("tool_calls", [{}])[0]
    written = text.replace("{}", json.dumps(call))
    assert tokenizer(name).decode(ids) == written
    assert ids == tokenizer(name).encode(written, add_special_tokens=False)


def test_a_turn_that_reads_back_otherwise_is_refused_unless_it_is_only_read() -> None:
    chat, opening = asked("qwen3-no-thinking")
    message = as_message({"text": "<tool_call>no call</tool_call>"}, 0, decoded=True)
    with pytest.raises(ChatError, match="no turn that reads back"):
        chat.turn(message, opening)
    assert chat.turn(message, opening, exact=False)[-1] in chat.stops
