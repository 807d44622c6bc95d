"""Solved episodes as chat messages with tool calls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jinja2
import pytest

from etude.environments.coding.tools import TOOLS, schemas
from etude.errors import ExportError
from etude.generators.export import export
from etude.generators.export.sft import read, row, solved
from etude.models import Episode, Finding, Grade, Reward, ToolMessage, Turn


def call(number: int, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": f"c{number}", "name": name, "arguments": arguments}


def tool(number: int, content: str = "ok\n") -> ToolMessage:
    return ToolMessage(tool_call_id=f"c{number}", name="bash", content=content)


def episode(*turns: Turn, reward: float = 1.0, valid: bool = True, **more: Any) -> Episode:
    result = Reward(value=reward, valid=valid)
    return Episode(episode_id="e", task_id="t", prompt="Do it.", turns=list(turns), reward=result, **more)


def test_a_solved_episode_is_exported_with_its_calls_and_results(folder: Path, played: Path, tmp_path: Path) -> None:
    assert len((played / "episodes.jsonl").read_text().rstrip("\n").split("\n")) == 2
    assert export(folder, "sft", tmp_path, episodes=played).rows == 1
    (line,) = (tmp_path / "sft.jsonl").read_text().splitlines()
    exported = json.loads(line)
    assert list(exported) == ["messages", "tools", "task_id"]
    assert json.loads(exported["tools"]) == schemas(list(TOOLS))
    messages = exported["messages"]
    assert messages[0]["role"] == "user" and "scales.notes.index" in messages[0]["content"]
    assert messages[-1]["tool_calls"][0]["function"]["name"] == "submit"
    assert all(isinstance(message["content"], str) for message in messages)
    requested = [part["id"] for message in messages for part in message.get("tool_calls", [])]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert answered == requested[:-1]


def test_arguments_are_objects_and_empty_keys_are_left_out() -> None:
    exported = row(
        episode(
            Turn(action={"text": "look", "tool_calls": [call(1, "bash", '{"command": "ls"}')]}, messages=[tool(1)]),
            Turn(action={"text": "hm"}, messages=[ToolMessage(role="user", content="No tool call in this turn.")]),
            Turn(action={"tool": "submit"}, messages=[ToolMessage(tool_call_id="call_2_0", content="ok")]),
        )
    )
    look = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}}
    submit = {"id": "call_2_0", "type": "function", "function": {"name": "submit", "arguments": {}}}
    assert exported["messages"] == [
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "content": "look", "tool_calls": [look]},
        {"role": "tool", "tool_call_id": "c1", "name": "bash", "content": "ok\n"},
        {"role": "assistant", "content": "hm"},
        {"role": "user", "content": "No tool call in this turn."},
        {"role": "assistant", "content": "", "tool_calls": [submit]},
    ]


QWEN_STYLE = """
{%- for tool in tools %}<tool>{{ tool | tojson }}</tool>{% endfor %}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}
{%- for item in message.tool_calls or [] %}<call>{"name": "{{ item.function.name }}", "arguments": \
{{ item.function.arguments | tojson }}}</call>{% endfor %}{% endfor %}"""


def test_a_chat_template_reproduces_the_calls_and_tools(folder: Path, played: Path, tmp_path: Path) -> None:
    export(folder, "sft", tmp_path, episodes=played)
    exported = json.loads((tmp_path / "sft.jsonl").read_text())
    tools = json.loads(exported["tools"])
    environment = jinja2.Environment()
    environment.filters["tojson"] = json.dumps  # as transformers does: no HTML escapes
    text = environment.from_string(QWEN_STYLE.replace("\\\n", "")).render(messages=exported["messages"], tools=tools)
    assert [json.loads(part) for part in re.findall("<tool>(.*?)</tool>", text)] == tools
    calls = [part["function"] for message in exported["messages"] for part in message.get("tool_calls", [])]
    assert [json.loads(part) for part in re.findall("<call>(.*?)</call>", text)] == calls


def test_malformed_calls_are_left_out_with_their_results() -> None:
    bad = call(1, "bash", '{"command": ')
    twice = [call(2, "bash", {"command": "a"}), call(2, "bash", {"command": "b"})]
    exported = row(
        episode(
            Turn(action={"text": "", "tool_calls": [bad]}, messages=[tool(1, "error malformed_call")]),
            Turn(action={"text": "", "tool_calls": twice}, messages=[tool(2), tool(2, "error malformed_call")]),
            Turn(action={"text": "done", "tool_calls": [bad]}, messages=[tool(1, "error malformed_call")]),
        )
    )
    assert [message["role"] for message in exported["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert exported["messages"][2]["content"] == "ok\n" and exported["messages"][3] == {
        "role": "assistant",
        "content": "done",
    }


def test_an_episode_is_solved_when_it_is_valid_and_has_no_confirmed_finding() -> None:
    finding = Finding(exploit_id="x", severity="confirmed")
    suspect = Finding(exploit_id="x", severity="suspect")
    assert solved(episode()) and solved(episode(findings=[suspect]))
    assert not solved(episode(reward=0.5)) and not solved(episode(valid=False))
    assert not solved(episode(findings=[finding]))
    assert not solved(episode(grade=Grade(reward=Reward(value=1.0), findings=[finding])))
    assert not solved(Episode(episode_id="e", task_id="t", prompt=""))


def test_export_raises_one_line_when_episodes_are_missing_or_foreign(
    folder: Path, played: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(ExportError, match="name a run with --episodes"):
        export(folder, "sft", out)
    with pytest.raises(ExportError, match="nowhere.*No such file.*etude run --out"):
        export(folder, "sft", out, episodes=tmp_path / "nowhere")
    (tmp_path / "episodes.jsonl").write_text("7\n")
    with pytest.raises(ExportError, match="episodes.jsonl:1 is not an episode"):
        export(folder, "sft", out, episodes=tmp_path)
    rows = [json.loads(line) for line in (played / "episodes.jsonl").read_text().rstrip("\n").split("\n")]
    (tmp_path / "episodes.jsonl").write_text("".join(json.dumps({**r, "task_id": "else"}) + "\n" for r in rows))
    assert [item.task_id for item in read(tmp_path)] == ["else", "else"]
    with pytest.raises(ExportError, match="has nothing to export as sft; name a run that solved tasks of this set"):
        export(folder, "sft", out, episodes=tmp_path)
    assert not out.exists()
