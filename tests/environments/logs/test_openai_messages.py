"""Shapes of OpenAI's messages: lists, objects, lines, texts with calls; detection from the content alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHELL = {
    "type": "function",
    "function": {
        "name": "shell",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}
ASKED = {"role": "user", "content": "Count."}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "shell", "arguments": '{"command": "wc x"}'}}],
}
FAILED = {"role": "tool", "tool_call_id": "a", "content": "wc: x: No such file or directory\n\nexit code: 1"}
DONE = {"role": "assistant", "content": "It does not exist."}
CHAT = [ASKED, CALL, FAILED, DONE]
HERMES = [
    ASKED,
    {"role": "assistant", "content": '<tool_call>{"name": "shel", "arguments": {"command": "wc x"}}</tool_call>'},
    {"role": "tool", "content": "<tool_response>unknown tool shel</tool_response>"},
    DONE,
]
REACT = [
    ASKED,
    {"role": "assistant", "content": "Thought: count\nAction: shel\nAction Input: wc x"},
    {"role": "user", "content": "Observation: Error: unknown tool shel"},
    DONE,
]
Write = Callable[..., Path]


@pytest.mark.parametrize(
    "values",
    [
        [CHAT],
        [{"messages": CHAT}],
        [[{"messages": CHAT}]],
        [{"prompt": [ASKED], "completion": CHAT[1:]}],
        CHAT,
        [{"messages": CHAT[:3], "choices": [{"message": DONE}]}],
        [{"request": {"messages": CHAT[:3]}, "response": {"choices": [{"message": DONE}]}}],
        [{"custom_id": "1", "body": {"messages": CHAT[:3]}, "response": {"body": {"choices": [{"message": DONE}]}}}],
        [{"input": {"messages": CHAT[:3]}, "output": DONE}],
        [
            {"request": {"messages": CHAT[:1]}, "response": {"choices": [{"message": {**CALL, "refusal": None}}]}},
            {"request": {"messages": CHAT[:3]}, "response": {"choices": [{"message": DONE}]}},
        ],
    ],
    ids=[
        "list",
        "object",
        "list of objects",
        "prompt and completion",
        "lines of messages",
        "choices",
        "request",
        "batch",
        "input and output",
        "requests of a loop",
    ],
)
def test_each_shape_of_chat_messages_is_one_episode(values: list[Any], written: Write, annotate: Any) -> None:
    report, (stored,) = annotate(written("log.txt", *values))
    assert report.files[0].format == "openai"
    assert [(error.turn, error.kind) for error in stored.episode.error_turns] == [(0, "nonzero_exit")]
    assert (len(stored.episode.turns), stored.episode.prompt) == (2, "Count.")


def test_lines_of_conversations_are_episodes_with_samples(written: Write, annotate: Any) -> None:
    row = {"messages": CHAT, "task_id": "t", "model": "m", "reward": 0.5}
    _, episodes = annotate(written("log.jsonl", row, row, {**row, "reward": 3}))
    assert [(stored.episode.task_id, stored.agent, stored.sample) for stored in episodes] == [
        ("t", "m", 0),
        ("t", "m", 1),
        ("t", "m", 2),
    ]
    assert len({stored.episode.episode_id for stored in episodes}) == 3
    rewards = [stored.episode.reward.value if stored.episode.reward else None for stored in episodes]
    assert rewards == [0.5, 0.5, None]  # a reward outside 0 to 1 is recorded beside the episode
    assert episodes[2].log["reward"] == 3


def test_requests_that_another_answer_follows_are_episodes_of_their_own(written: Write, annotate: Any) -> None:
    def pair(messages: list[Any], answer: Any) -> dict[str, Any]:
        return {"request": {"messages": messages}, "response": {"choices": [{"message": answer}]}}

    other = {**CALL, "tool_calls": [{**CALL["tool_calls"][0], "id": "b"}]}
    _, episodes = annotate(written("log.jsonl", pair([ASKED], other), pair(CHAT[:3], DONE), pair([ASKED], DONE)))
    assert [len(stored.episode.turns) for stored in episodes] == [1, 2, 1]


def test_requests_of_the_responses_api_are_one_episode_with_their_loop(written: Write, annotate: Any) -> None:
    call = {"type": "function_call", "call_id": "a", "name": "shell", "arguments": '{"command": "wc x"}'}
    result = {"type": "function_call_output", "call_id": "a", "output": FAILED["content"]}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It does not exist."}]}
    about = {"object": "response", "instructions": None}
    first = {
        "request": {"input": [ASKED], "tools": [SHELL]},
        "response": {**about, "output": [{**call, "status": "done"}]},
    }
    second = {"request": {"input": [ASKED, call, result]}, "response": {**about, "output": [said]}}
    report, (stored,) = annotate(written("log.jsonl", first, second))
    assert (report.files[0].format, len(stored.episode.turns)) == ("openai", 2)
    assert [error.kind for error in stored.episode.error_turns] == ["nonzero_exit"]


def test_requests_of_anthropics_loop_are_one_episode(written: Write, annotate: Any) -> None:
    use = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "a", "name": "shell", "input": {"command": "x"}}],
    }
    failed = {"type": "tool_result", "tool_use_id": "a", "content": "exit code: 1", "is_error": True}
    asked = {"system": "Be brief.", "model": "m"}
    first = {"request": {**asked, "messages": [ASKED]}, "response": {"id": "msg_1", "type": "message", **use}}
    second = {"request": {**asked, "messages": [ASKED, use, {"role": "user", "content": [failed]}]}, "response": DONE}
    report, (stored,) = annotate(written("log.jsonl", first, second))
    assert (report.files[0].format, stored.agent, len(stored.episode.turns)) == ("anthropic", "m", 2)
    assert [error.kind for error in stored.episode.error_turns] == ["nonzero_exit"]


@pytest.mark.parametrize("messages", [HERMES, REACT], ids=["hermes", "react"])
def test_calls_in_text_become_calls_of_the_episode(messages: list[Any], written: Write, annotate: Any) -> None:
    _, (stored,) = annotate(written("log.json", {"messages": messages, "tools": [SHELL]}))
    assert [(error.kind, error.tool) for error in stored.episode.error_turns] == [("tool_not_found", "shel")]
    assert stored.episode.turns[0].action["tool_calls"][0]["name"] == "shel"
    assert [message.role for message in stored.episode.turns[0].messages] == ["tool"]


def test_tools_of_a_file_are_used_where_the_log_has_none(written: Write, annotate: Any) -> None:
    wrong = {**CALL, "tool_calls": [{"id": "a", "function": {"name": "shel", "arguments": "{}"}}]}
    log = written("log.json", [ASKED, wrong, {**FAILED, "content": "no"}, DONE])
    _, (without,) = annotate(log)
    _, (with_tools,) = annotate(log, tools=written("tools.json", [SHELL]))
    assert [error.kind for error in without.episode.error_turns] == []
    assert [error.kind for error in with_tools.episode.error_turns] == ["tool_not_found"]


def test_a_result_that_comes_a_turn_late_stands_with_its_call(written: Write, annotate: Any) -> None:
    _, (stored,) = annotate(written("log.json", [ASKED, CALL, {"role": "assistant", "content": "wait"}, FAILED, DONE]))
    assert [len(turn.messages) for turn in stored.episode.turns] == [1, 0, 0]
    assert [(error.turn, error.kind) for error in stored.episode.error_turns] == [(0, "nonzero_exit")]


def test_a_foreign_result_that_begins_like_a_status_line_is_kept(written: Write, annotate: Any) -> None:
    results = [{**FAILED, "content": "ok\nand more"}, {"role": "user", "content": "go on"}]
    _, (stored,) = annotate(written("log.json", [ASKED, CALL, *results, DONE]))
    assert [message.content for message in stored.episode.turns[0].messages] == ["ok\nand more", "go on"]
    assert stored.episode.error_turns == []
