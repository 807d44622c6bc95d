"""Tell one episode in a dialect, with one way of reporting outcomes. The labels come along untouched."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Call:
    """A call and its result.

    ``status`` is the status line. ``kind`` is the label where the outcome is reported. ``plain`` is the result as a
    harness without exit codes shows it (default: the body), and ``plain_kind`` the label there.
    """

    name: str
    arguments: Any
    body: str = ""
    status: str = "ok"
    kind: str | None = None
    plain: str | None = None
    plain_kind: str | None = None


@dataclass
class Step:
    text: str
    calls: list[Call] = field(default_factory=list)


@dataclass
class Story:
    name: str
    prompt: str
    tools: list[dict[str, Any]]
    steps: list[Step]
    executors: tuple[str, ...] = ("bash", "run_tests")


def do(text: str, *calls: Call) -> Step:
    return Step(text, list(calls))


def tool(name: str, required: str = "", optional: str = "") -> dict[str, Any]:
    """A schema; ``path:string timeout:integer`` lists properties."""
    properties = dict(item.split(":") for item in f"{required} {optional}".split())
    parameters = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": [item.split(":")[0] for item in required.split()],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": f"{name}.", "parameters": parameters}}


def result(call: Call, results: str, executors: tuple[str, ...]) -> str:
    """The content of one result."""
    if results == "status":
        return f"{call.status}\n{call.body}" if call.body else call.status
    if results == "plain" or call.status.startswith("not run"):
        return call.body if call.plain is None else call.plain
    word, _, rest = call.status.partition(" ")
    code = {"ok": 0, "exit": int(rest) if rest.isdigit() else 1, "timeout": 124, "error": 1}[word]
    if results == "json":
        if word == "error":
            return json.dumps({"error": rest.partition(": ")[2], "type": rest.partition(": ")[0]})
        if word == "timeout":
            return json.dumps({"output": call.body, "exit_code": None, "timed_out": True})
        if call.name in executors:
            return json.dumps({"output": call.body, "exit_code": code})
        return json.dumps({"result": call.body})
    if call.name not in executors or word in ("error", "timeout"):
        return call.body if call.plain is None else call.plain
    if results == "returncode":
        return f"<returncode>{code}</returncode>\n<output>\n{call.body}</output>"
    return f"{call.body}\n[The command completed with exit code {code}.]"


def label(call: Call, results: str, executors: tuple[str, ...]) -> str | None:
    reported = call.name in executors and call.status.split()[0] in ("ok", "exit")
    return call.kind if results in ("status", "json") or reported and results != "plain" else call.plain_kind


def tell(story: Story, dialect: str, results: str) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": story.prompt}]
    labels = []
    for turn, step in enumerate(story.steps):
        answers = [result(call, results, story.executors) for call in step.calls]
        messages += {"etude": etude, "openai": openai, "hermes": hermes, "react": react}[dialect](turn, step, answers)
        for index, call in enumerate(step.calls):
            kind = label(call, results, story.executors)
            if kind is not None:
                labels.append([turn, index, kind])
    return {
        "name": f"{story.name}-{dialect}-{results}",
        "dialect": dialect,
        "results": results,
        "tools": story.tools,
        "messages": messages,
        "turns": len(story.steps),
        "labels": labels,
    }


def raw(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def etude(turn: int, step: Step, answers: list[str]) -> list[dict[str, Any]]:
    """Raw actions, in the shapes that the wire takes, and tool messages."""
    ids = [f"c{index}" for index in range(len(step.calls))]  # the same in every turn, as some models write them
    if len(step.calls) == 1 and turn % 3 == 2:
        call = step.calls[0]
        ids = [f"call_{turn}_0"]
        action: dict[str, Any] = {"text": step.text, "tool": call.name, "arguments": call.arguments}
    else:
        listed = [
            {"id": each, "name": call.name, "arguments": call.arguments}
            if turn % 2
            else {"id": each, "type": "function", "function": {"name": call.name, "arguments": raw(call.arguments)}}
            for each, call in zip(ids, step.calls, strict=True)
        ]
        action = {"text": step.text, "tool_calls": listed}
    replies = [
        {"role": "tool", "tool_call_id": each, "name": call.name, "content": answer}
        for each, call, answer in zip(ids, step.calls, answers, strict=True)
    ]
    if not step.calls:
        replies = [{"role": "user", "tool_call_id": "", "name": "", "content": "No tool call in this turn."}]
    return [{**action, "role": "assistant"}, *replies]


def openai(turn: int, step: Step, answers: list[str]) -> list[dict[str, Any]]:
    """Nested functions; results without a name, the last call answered first."""
    calls = [
        {"id": f"call_{turn}{index}x", "type": "function", "function": {"name": c.name, "arguments": raw(c.arguments)}}
        for index, c in enumerate(step.calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
    if calls:
        message["tool_calls"] = calls
    replies = [
        {"role": "tool", "tool_call_id": call["id"], "content": answer}
        for call, answer in zip(calls, answers, strict=True)
    ]
    return [message, *reversed(replies)]


def hermes(turn: int, step: Step, answers: list[str]) -> list[dict[str, Any]]:
    """Tags in the content; results in one user message, as Qwen's template puts them, or each in a tool message."""
    tags = []
    for call in step.calls:
        name = json.dumps(call.name)
        tags.append(f'<tool_call>\n{{"name": {name}, "arguments": {raw(call.arguments)}}}\n</tool_call>')
    message = {"role": "assistant", "content": "\n".join([step.text, *tags])}
    wrapped = [f"<tool_response>\n{answer}\n</tool_response>" for answer in answers]
    if turn % 2:
        return [message, *({"role": "tool", "content": each} for each in wrapped)]
    return [message, {"role": "user", "content": "\n".join(wrapped)}] if wrapped else [message]


def react(turn: int, step: Step, answers: list[str]) -> list[dict[str, Any]]:
    """One action a turn, or several one under the other; the observations follow in a user message each."""
    lines = [f"Thought: {step.text}"]
    for call in step.calls:
        lines.append(f"Action: {call.name}\nAction Input: {raw(call.arguments)}")
    message = {"role": "assistant", "content": "\n".join(lines)}
    return [message, *({"role": "user", "content": f"Observation: {answer}"} for answer in answers)]
