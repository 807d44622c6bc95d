"""Tests of states for endpoints and templates: tool names, call ids, thoughts, malformed calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.replay_files import ask, settings

from etude.environments.agents.openai import native_action, text_action
from etude.models import Episode, ToolMessage, Turn
from etude.trainers.replay.external_models import open_teachers
from etude.trainers.replay.turns.action_equality import read_answer
from etude.trainers.replay.turns.prefixes import State, as_message, plain_names

CALL = {"id": "c1", "type": "function", "function": {"name": "files.read", "arguments": '{"path": "a"}'}}
TAGGED = '<tool_call>\n{"name": "files.read", "arguments": {"path": "a"}}\n</tool_call>'
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": {"properties": {"line": {"type": "integer"}}}}}
    for name in ("files.read", "files_read", "submit")
]


def state(*actions: dict[str, Any]) -> State:
    turns = [Turn(action=action, messages=[ToolMessage(tool_call_id="c1", content="ok")]) for action in actions]
    episode = Episode(episode_id="e", task_id="t", prompt="Go on.", tools=TOOLS, turns=[*turns, Turn(action={})])
    return State(episode, len(actions))


def endpoint_call(**function: Any) -> dict[str, Any]:
    """Return a call as an endpoint receives it."""
    (call,) = state({"tool_calls": [{"function": function}]}).messages()[1]["tool_calls"]
    return dict(call["function"])


THOUGHT = "<think>\nHm, look.\n</think>\n\n"


@pytest.mark.parametrize(
    "action",
    [
        native_action({"content": None, "reasoning_content": "Hm, look.", "tool_calls": [CALL]}),
        native_action({"content": "", "reasoning": "\nHm, look.\n", "tool_calls": [CALL]}),
        native_action({"content": THOUGHT, "tool_calls": [CALL]}),
        native_action({"content": "Hm, look.\n</think>\n\n", "tool_calls": [CALL]}),
        text_action({"content": THOUGHT + TAGGED}),
        text_action({"content": "Hm, look.\n</think>\n\n" + TAGGED}),
    ],
)
def test_as_message_restores_the_thought_wherever_it_was_stored(action: dict[str, Any]) -> None:
    message = as_message(action, 0)
    assert message["content"].strip() == THOUGHT.strip()
    assert message["tool_calls"][0]["function"] == {"name": "files.read", "arguments": {"path": "a"}}


def test_as_message_adds_no_thought_when_there_is_none() -> None:
    assert as_message(text_action({"content": f"So. {TAGGED}"}), 0)["content"] == "So."
    assert as_message({"text": "<think>\nHm, so"}, 0)["content"] == "<think>\nHm, so"


def test_tools_have_plain_names_at_endpoints_and_their_own_names_in_answers() -> None:
    names = plain_names(TOOLS)
    assert names == {"files.read": "files_read", "files_read": "files_read_2", "submit": "submit"}
    before = state({"tool_calls": [CALL]})
    assert [tool["function"]["name"] for tool in before.plain_tools()] == list(names.values())
    assert [tool["function"]["name"] for tool in before.episode.tools] == list(names)
    assert before.messages()[1]["tool_calls"][0]["function"]["name"] == "files_read"
    assert before.messages(decoded=True)[1]["tool_calls"][0]["function"]["name"] == "files.read"
    calls = [{"function": {"name": plain, "arguments": "{}"}} for plain in (*names.values(), "other")]
    answer = read_answer({"tool_calls": calls}, TOOLS)
    assert [call["function"]["name"] for call in answer["tool_calls"]] == [*names, "other"]
    assert read_answer({"tool_calls": "nonsense"}, TOOLS)["tool_calls"] == "nonsense"


def test_teacher_reads_plain_names_and_its_answer_has_the_tools_own(endpoints: Any) -> None:
    with endpoints.serving(lambda number, body: endpoints.say(None, endpoints.call("files_read", {}))) as endpoint:
        (answer,) = ask(open_teachers(settings(endpoint.url)), state({"tool_calls": [CALL]}))
        (body,) = endpoint.requests
    assert [tool["function"]["name"] for tool in body["tools"]] == ["files_read", "files_read_2", "submit"]
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == "files_read"
    assert answer.action["tool_calls"] == [endpoints.call("files.read", {})]


def test_teacher_answer_without_quotes_gets_the_types_of_the_tools_schema(endpoints: Any) -> None:
    text = "<tool_call>\n<function=submit>\n<parameter=line>\n3\n</parameter>\n</function>\n</tool_call>"
    with endpoints.serving(lambda number, body: endpoints.say(text)) as endpoint:
        (answer,) = ask(open_teachers(settings(endpoint.url, calls="text")), state({"text": "So."}))
    assert answer.action["tool_calls"] == [{"name": "submit", "arguments": {"line": 3}}]


def test_malformed_call_is_sent_as_text() -> None:
    assert endpoint_call(name="submit", arguments='{"a": ') == {
        "name": "submit",
        "arguments": '{"malformed": "{\\"a\\": "}',
    }
    assert endpoint_call(name="submit", arguments=[1]) == {"name": "submit", "arguments": '{"malformed": "[1]"}'}
    assert endpoint_call(name=None, arguments={}) == {"name": "unnamed", "arguments": '{"malformed": "{}"}'}
    assert endpoint_call(name="a b\n") == {"name": "a_b", "arguments": "{}"}
    text = state({"tool_calls": [{"name": "submit", "arguments": '{"a": '}]}).texts()[2]["content"]
    assert text == '<tool_call>\n{"name": "submit", "arguments": {"a": }\n</tool_call>'


def test_calls_with_one_id_keep_their_arguments_and_get_unique_ids_at_endpoints() -> None:
    twice = {"tool_calls": [{"id": "c1", "name": "submit", "arguments": {"n": n}} for n in (1, 2)]}
    calls = state(twice).messages()[1]["tool_calls"]
    assert [call["id"] for call in calls] == ["c1", "c1_0_1"]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"n": 1}, {"n": 2}]
    assert [call["id"] for call in as_message(twice, 0)["tool_calls"]] == ["c1", "c1"]
