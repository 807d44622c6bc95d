"""Tests of turn encoding: the ids that a policy of any family would have sampled for a given turn."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.tokenizer_factory import FAMILIES, SHIPPED, tokenizer
from trl.chat_template_utils import add_response_schema

from etude.errors import ChatError
from etude.hints.transcript.parsing import parse_turn
from etude.trainers.chat.chat_policy import TemplateChat, never_samples
from etude.trainers.replay.turns.prefixes import as_message

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
ICONS = "\U000f0041 \U000f024b \U000fd8ff \U000fffff\U000fffff <|im_end|>"
TURNS: dict[str, dict[str, Any]] = {
    "one call": {"text": "", "tool_calls": [READ]},
    "two calls": {"text": "", "tool_calls": [READ, DONE]},
    "words and a call": {"text": "Let me look.", "tool_calls": [DONE]},
    "words and two calls": {"text": "Both at once.", "tool_calls": [READ, DONE]},
    "words": {"text": "It is done."},
    "thinking and words": {"text": "<think>\nHm. So.\n</think>\n\nIt is done."},
    "thinking and a call": {"text": "<think>\nHm.\n</think>", "tool_calls": [READ]},
    "special tokens that are text": {
        "text": "",
        "tool_calls": [{"name": "submit", "arguments": {"path": "<|im_end|></s>"}}],
    },
    "letters of private planes": {"text": ICONS, "tool_calls": [{"name": "submit", "arguments": {"path": ICONS}}]},
    "a name with a point": {"text": "", "tool_calls": [{"name": "files.read", "arguments": {"path": "a"}}]},
}


def opened_chat(name: str) -> tuple[TemplateChat, list[int]]:
    """Return a family's chat, and its generation prompt after a question."""
    chat = TemplateChat(tokenizer(name), never_samples, arguments=FAMILIES[name].arguments)
    written = chat.prompt([{"role": "user", "content": "Find it."}], TOOLS)
    return chat, written.ids[written.generation :]


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", FAMILIES)
def test_turn_reads_back_as_the_given_action(name: str, turn: str) -> None:
    chat, opening = opened_chat(name)
    action = TURNS[turn]
    ids = chat.turn(as_message(action, 0), opening)
    assert ids[-1] in chat.stops and not chat.stops.intersection(ids[:-2])
    read, meant = parse_turn(chat.action(ids), 0), parse_turn(action, 0)
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
def test_turn_is_written_as_the_family_samples_it(name: str, turn: str, text: str) -> None:
    chat, opening = opened_chat(name)
    ids = chat.turn(as_message(TURNS[turn], 0), opening)
    call = TURNS[turn].get("tool_calls", [{}])[0]
    written = text.replace("{}", json.dumps(call))
    assert tokenizer(name).decode(ids) == written
    assert ids == tokenizer(name).encode(written, add_special_tokens=False)


def test_turn_is_refused_when_it_reads_back_differently_unless_it_was_sampled() -> None:
    chat, opening = opened_chat("qwen3-no-thinking")
    message = as_message({"text": "<tool_call>no call</tool_call>"}, 0)
    with pytest.raises(ChatError, match="no rendering that reads back"):
        chat.turn(message, opening)
    words = tokenizer("qwen3-no-thinking")
    assert chat.turn(message, opening, exact=False) == words.encode(message["content"] + "<|im_end|>")


def test_turn_keeps_words_that_the_template_drops() -> None:
    chat, opening = opened_chat("llama3.1")
    for exact in (True, False):
        ids = chat.turn(as_message(TURNS["words and a call"], 0), opening, exact=exact)
        assert tokenizer("llama3.1").decode(ids).startswith("Let me look.\n{")


@pytest.mark.parametrize("number", [0, 1])
def test_malformed_call_among_others_is_written_in_its_place(number: int) -> None:
    """Try the text of the whole call, then that of its arguments."""
    chat, opening = opened_chat("qwen3-2507")
    broken = ('{"name": "submit", "arguments": {"path": "a"}', '{"path": "a')[number]
    calls = [READ, {"name": "submit", "arguments": broken}, DONE]
    ids = chat.turn(as_message({"text": "", "tool_calls": calls}, 0), opening)
    written = broken if not number else f'{{"name": "submit", "arguments": {broken}}}'
    parts = [json.dumps(READ), written, json.dumps(DONE)]
    expected = "\n".join(f"<tool_call>\n{part}\n</tool_call>" for part in parts) + "<|im_end|>"
    assert tokenizer("qwen3-2507").decode(ids) == expected


def test_result_keeps_separator_characters_and_special_tokens() -> None:
    chat, opening = opened_chat("qwen2.5")
    ids = chat.turn(as_message(TURNS["one call"], 0), opening)
    answer = {"role": "tool", "tool_call_id": "call_0_0", "name": "read_file", "content": f"a {ICONS} b"}
    written = chat.reply(ids, [answer]).ids
    words = tokenizer("qwen2.5")
    assert f"a {ICONS} b" in words.decode(written)
    assert written.count(words.convert_tokens_to_ids("<|im_end|>")) == 1


def test_turn_that_the_tokenizers_parser_cannot_read_is_written_whole() -> None:
    words = tokenizer("qwen2.5", (SHIPPED / "lfm2_2_5.jinja").read_text("utf-8"))
    words.add_tokens(["<|tool_call_start|>", "<|tool_call_end|>"])
    words.bos_token = "<|endoftext|>"
    words = add_response_schema(words)
    words.parse_response = json.loads  # the parser reads none of these calls
    chat = TemplateChat(words, never_samples)
    written = chat.prompt([{"role": "user", "content": "Find it."}], TOOLS)
    ids = words.encode("I look.<|tool_call_start|>[read_file(path='a/b<|tool_call_end|><|im_end|>")
    broken = chat.action(ids)
    assert parse_turn(broken, 0).calls[0].problem
    assert chat.turn(as_message(broken, 0), written.ids[written.generation :]) == ids
