"""Tests of the scripted policy: the same turns in both of OpenAI's formats, and a log of the requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

TASK = {"problem_statement": "Write `f` again.\n", "patch": "diff"}
PROMPT = [{"role": "user", "content": "Write `f` again.\n\nRules."}]


def test_policy_errs_then_solves_a_known_task_and_stops(policy: Any) -> None:
    names, messages = [], list(PROMPT)
    while (call := policy.script(messages, ["bash", "read_file"], [TASK])) is not None:
        names.append(call[0])
        messages.append({"role": "assistant", "content": ""})
    assert names == ["grep_repo", "bash", "read_file", "write_file", "bash", "submit"]
    assert policy.script([*PROMPT, *[{"role": "assistant"}] * 3], ["bash"], []) == ("submit", "{}")


def test_policy_errs_with_the_offered_tools_when_there_are_no_files(policy: Any) -> None:
    task = {"problem_statement": "Write `f` again.", "calls": [["look", {"at": 1}], ["submit", {"answer": "7"}]]}
    dialogues = [[*PROMPT, *[{"role": "assistant"}] * turns] for turns in range(6)]
    calls = [policy.script(messages, ["look", "submit"], [task]) for messages in dialogues]
    assert [call[0] if call else None for call in calls] == ["grep_repo", "look", "look", "look", "submit", None]
    assert calls[2:5] == [("look", '{"no_such": 1}'), ("look", '{"at": 1}'), ("submit", '{"answer": "7"}')]


@pytest.mark.parametrize("stream", [False, True])
def test_policy_answers_whole_or_as_a_stream(policy: Any, tmp_path: Path, stream: bool) -> None:
    log = tmp_path / "requests.jsonl"
    with policy.Policy([TASK], log) as endpoint:
        body = {"model": "m", "messages": PROMPT, "stream": stream}
        answer = httpx.post(f"{endpoint.url}/chat/completions", json=body, trust_env=False)
    if stream:
        lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
        assert lines[-1] == "[DONE]" and json.loads(lines[-2])["usage"]["total_tokens"] == 15
        call = json.loads(lines[1])["choices"][0]["delta"]["tool_calls"][0]
    else:
        call = answer.json()["choices"][0]["message"]["tool_calls"][0]
    assert call["function"]["name"] == "grep_repo"
    assert json.loads(log.read_text())["messages"] == PROMPT
