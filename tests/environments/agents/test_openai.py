"""The agent that asks a model, on drills, against a scripted endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from etude.environments.agents.openai import ModelAgent, ModelOptions
from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.play import play
from etude.errors import EndpointFailed, LLMError
from etude.llm import LLM
from etude.models import AnswerVerifier, Episode, Task

TASKS = DrillTasks(["choose"])
TASK = TASKS.by_id("drill-choose-4")


def steps(task: Task) -> list[tuple[str, dict[str, Any]]]:
    assert isinstance(task.verifier, AnswerVerifier)
    return [*TASKS.drill(task.task_id).solution(), ("submit", {"answer": task.verifier.answer})]


def turns(body: Mapping[str, Any]) -> int:
    """Return how many turns the model has made."""
    return sum(message["role"] == "assistant" for message in body["messages"])


def played(
    endpoints: Any, script: Callable[[int, dict[str, Any]], Any], **options: Any
) -> tuple[Episode, Any, ModelAgent]:
    """Play one episode; return it, the endpoint and the agent."""
    tool_format = options.pop("tool_format", "native")

    async def run(url: str) -> tuple[Episode, ModelAgent]:
        session = DrillSession(TASKS)
        async with LLM("m", url, attempts=1, **options) as llm:
            agent = ModelAgent(llm, tool_format)
            await play(TASK, agent, session)
        return session.episode(), agent

    with endpoints.serving(script) as endpoint:
        episode, agent = asyncio.run(run(endpoint.url))
    return episode, endpoint, agent


def native(endpoints: Any) -> Callable[[int, dict[str, Any]], Any]:
    """Return a model that solves TASK with native calls."""
    return lambda number, body: endpoints.say("next", endpoints.call(*steps(TASK)[turns(body)], f"c{turns(body)}"))


def in_tags(name: str, arguments: Mapping[str, Any]) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def test_native_calls_solve_a_task(endpoints: Any) -> None:
    episode, endpoint, agent = played(endpoints, native(endpoints))
    assert episode.reward is not None
    assert (episode.reward.value, episode.end, episode.error_turns) == (1.0, "submit", [])
    first, *_, last = endpoint.requests
    assert first["messages"] == [{"role": "user", "content": episode.prompt}]
    assert first["tools"] == last["tools"] == episode.tools
    calls = [call for message in last["messages"] for call in message.get("tool_calls", [])]
    answers = [message for message in last["messages"] if message["role"] == "tool"]
    assert [call["id"] for call in calls] == [answer["tool_call_id"] for answer in answers]
    assert answers[0]["content"] == episode.turns[0].messages[0].content
    count = len(steps(TASK))
    assert agent.usage["calls"] == len(endpoint.requests) == count
    assert (agent.usage["prompt_tokens"], agent.usage["completion_tokens"]) == (10 * count, 5 * count)


def test_calls_in_text_solve_a_task(endpoints: Any) -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        name, arguments = steps(TASK)[turns(body)]
        return endpoints.say(f"<think><tool_call>no</tool_call></think>I call {name}.\n{in_tags(name, arguments)}")

    episode, endpoint, _ = played(endpoints, script, tool_format="text")
    assert episode.reward is not None
    assert (episode.reward.value, episode.end, episode.error_turns) == (1.0, "submit", [])
    assert all("tools" not in body for body in endpoint.requests)
    system, prompt, turn_message, answer = endpoint.requests[1]["messages"]
    assert all(json.dumps(tool, ensure_ascii=False) in system["content"] for tool in episode.tools)
    assert prompt == {"role": "user", "content": episode.prompt}
    assert turn_message["content"] == episode.turns[0].action["raw"]
    assert answer == {
        "role": "user",
        "content": f"<tool_response>\n{episode.turns[0].messages[0].content}\n</tool_response>",
    }
    assert episode.turns[0].action["text"] == f"I call {steps(TASK)[0][0]}."


def test_a_server_that_reads_the_tags_itself_changes_nothing(endpoints: Any) -> None:
    episode, endpoint, _ = played(endpoints, native(endpoints), tool_format="text")
    assert episode.reward is not None
    assert episode.reward.value == 1.0
    assert "<tool_call>" in endpoint.requests[1]["messages"][2]["content"]


CALL = {"id": "c", "type": "function", "function": {"name": "submit", "arguments": "{}"}}
ODD: list[tuple[dict[str, Any], str]] = [
    ({"tool_calls": [{"id": "c", "function": {"name": "submit", "arguments": '{"answer": "x'}}]}, "malformed_call"),
    ({"tool_calls": [{"id": "c", "function": {"name": "submit", "arguments": "[1]"}}]}, "malformed_call"),
    ({"tool_calls": [{"function": {"arguments": "{}"}}]}, "malformed_call"),
    ({"tool_calls": ["submit()"]}, "malformed_call"),
    ({"tool_calls": {"name": "submit"}}, "malformed_call"),
    ({"tool_calls": [{**CALL, "function": {"name": "no such\ntool", "arguments": "{}"}}]}, "tool_not_found"),
    ({"tool_calls": [{**CALL, "function": {"name": "a", "arguments": "{}"}}] * 2}, "malformed_call"),
    ({"content": None}, ""),
    ({"content": [{"type": "text", "text": "parts"}], "tool_calls": None}, ""),
    ({"content": {"odd": 1}, "tool_calls": []}, ""),
]


@pytest.mark.parametrize(("message", "code"), ODD)
def test_whatever_the_model_says_is_a_turn_and_can_be_sent_back(
    message: dict[str, Any], code: str, endpoints: Any
) -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        if number:
            return native(endpoints)(number, {"messages": body["messages"][2:]})
        return endpoints.Answer(body=json.dumps({"choices": [{"message": message}]}).encode())

    episode, endpoint, _ = played(endpoints, script)
    assert episode.reward is not None
    assert episode.reward.value == 1.0
    first = episode.turns[0]
    assert first.action["tool_calls"] == message.get("tool_calls")
    assert any(answer.content.startswith(f"error {code}: " if code else "No tool call") for answer in first.messages)
    back = endpoint.requests[1]["messages"][1:]
    ids = [call["id"] for call in back[0].get("tool_calls", [])]
    assert len(ids) == len(set(ids))
    assert ids == [answer["tool_call_id"] for answer in back if answer["role"] == "tool"]
    assert isinstance(back[0]["content"], str)
    for call in back[0].get("tool_calls", []):
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert call["function"]["name"].replace("_", "").isalnum()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('<tool_call>\n{"name": "submit", "arguments": {"answer": "x"}\n</tool_call>', "malformed_call"),
        ("<tool_call>submit()</tool_call>", "malformed_call"),
        ("<tool_call>[]</tool_call>", "malformed_call"),
        ('<tool_call>{"arguments": {}}</tool_call>', "malformed_call"),
        ('<tool_call>{"name": "sumbit", "arguments": {}}', "tool_not_found"),
        ("I am done.", ""),
    ],
)
def test_broken_tags_are_a_turn_with_a_readable_result(text: str, code: str, endpoints: Any) -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        return endpoints.say(in_tags(*steps(TASK)[turns(body) - 1]) if number else text)

    episode, _, _ = played(endpoints, script, tool_format="text")
    assert episode.reward is not None
    assert episode.reward.value == 1.0
    assert episode.turns[0].action["raw"] == text
    assert episode.turns[0].messages[0].content.startswith(f"error {code}: " if code else "No tool call")


def test_what_is_wrong_with_a_call_in_tags_is_said_with_its_place(endpoints: Any) -> None:
    script = iter(['<tool_call>{"name": "submit", "arguments": {"answer": "x"}</tool_call>', "a", "b"])
    episode, _, _ = played(endpoints, lambda number, body: endpoints.say(next(script)), tool_format="text")
    assert "not valid JSON: Expecting ',' delimiter at line 1 column 48" in episode.turns[0].messages[0].content
    assert episode.end == "no_tool_call"


def test_thoughts_are_kept_and_not_sent_back(endpoints: Any) -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        call = endpoints.call(*steps(TASK)[turns(body)], f"c{number}")
        return endpoints.say("", call, reasoning_content="hm")

    episode, endpoint, _ = played(endpoints, script)
    assert episode.turns[0].action["reasoning_content"] == "hm"
    assert all("hm" not in json.dumps(message) for message in endpoint.requests[-1]["messages"])


def test_a_full_context_submits_the_work_as_it_is(endpoints: Any) -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        full = endpoints.fail(400, "This model's maximum context length is 8192 tokens.")
        return full if number else native(endpoints)(number, body)

    episode, _, agent = played(endpoints, script)
    assert episode.reward is not None
    assert (episode.end, episode.reward.valid, episode.reward.value) == ("submit", True, 0.0)
    assert agent.usage["context_full"] is True


@pytest.mark.parametrize("tool_format", ["native", "text"])
def test_a_model_in_a_fork_reads_the_past_and_the_hint(tool_format: str, endpoints: Any) -> None:
    first = {"text": "see", "tool_calls": [{"name": "no_such_tool", "arguments": {"x": 1}}]}

    def script(number: int, body: dict[str, Any]) -> Any:
        name, arguments = steps(TASK)[turns(body) - 1]
        return (
            endpoints.say(in_tags(name, arguments))
            if tool_format == "text"
            else endpoints.say("", endpoints.call(name, arguments))
        )

    async def run(url: str) -> Episode:
        session = DrillSession(TASKS)
        await session.reset(task_id=TASK.task_id)
        await session.step(first)
        past = session.episode()
        observation = await session.reset(fork_of=past.episode_id)
        async with LLM("m", url, attempts=1) as llm:
            agent = ModelAgent(llm, tool_format, past.turns, "Use the tools that there are.")
            while not observation.done:
                observation = await session.step(await agent.act(observation.model_dump()) or {})
        return session.episode()

    with endpoints.serving(script) as endpoint:
        episode = asyncio.run(run(endpoint.url))
    assert episode.reward is not None
    assert episode.reward.value == 1.0
    *_, prompt, turn_message, answer, hint = endpoint.requests[0]["messages"]
    assert prompt["content"] == episode.prompt
    assert "no_such_tool" in json.dumps(turn_message)
    assert "error tool_not_found" in answer["content"]
    assert hint == {"role": "user", "content": "Use the tools that there are."}


def test_a_failing_endpoint_does_not_make_a_turn(endpoints: Any) -> None:
    with pytest.raises(EndpointFailed, match="answered 500"):
        played(endpoints, lambda number, body: endpoints.fail(500) if number else native(endpoints)(number, body))


@pytest.mark.parametrize(
    ("options", "model", "words"),
    [
        ({}, "", "give --agent openai:MODEL"),
        ({"tool_format": "xml"}, "m", "--tool-format must be native or text, got 'xml'"),
        ({"base_url": "nowhere"}, "m", "not an endpoint's address: 'nowhere'"),
        ({"base_url": "https://h.example/v1", "api_key_env": "NO_SUCH_KEY"}, "m", "NO_SUCH_KEY is not set"),
    ],
)
def test_a_missing_setting_is_reported_in_one_line(options: dict[str, Any], model: str, words: str) -> None:
    with pytest.raises(LLMError, match=words):
        ModelOptions(**options).open(model, 1)
