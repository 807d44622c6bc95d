"""Conversations that the SDKs of OpenAI and Anthropic hold after a loop of tools, as JSON.

    uv venv TOOL && uv pip install --python TOOL/bin/python openai anthropic
    TOOL/bin/python benchmarks/logs/sdk_messages.py OUT

Writes ``chat.json`` (chat completions), ``responses.jsonl`` (Responses with its input) and ``anthropic.json``. The
answers come from the scripted endpoints of this folder; messages and items are what the SDKs parsed from them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import claude_code
from anthropic import Anthropic
from chat_endpoint import QUESTION, answers, serving
from note_tools import read_text, shell
from openai import OpenAI
from openai.types.responses import Response

TOOLS: dict[str, tuple[Callable[..., str], str]] = {"shell": (shell, "command"), "read_text": (read_text, "path")}


def schema(argument: str) -> dict[str, Any]:
    return {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}


def outcome(name: str, arguments: str | dict[str, Any]) -> tuple[str, bool]:
    """Return the result of a call as a usual loop makes it, and whether it failed."""
    try:
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
        return TOOLS[name][0](**values), False
    except KeyError:
        return f"Error: unknown tool {name!r}", True
    except Exception as error:  # noqa: BLE001  # a loop shows the model whatever went wrong
        return f"Error: {type(error).__name__}: {error}", True


def chat() -> dict[str, Any]:
    functions = [
        {"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": schema(argument)}}
        for name, (tool, argument) in TOOLS.items()
    ]
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Answer with the tools."}]
    messages.append({"role": "user", "content": QUESTION})
    with serving() as url:
        client = OpenAI(base_url=url, api_key="scripted")
        while True:
            reply = client.chat.completions.create(model="scripted", messages=messages, tools=functions)
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or []:
                content, _ = outcome(call.function.name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
            if not message.tool_calls:
                return {"model": reply.model, "messages": messages, "tools": functions}


def responses() -> dict[str, Any]:
    """Return a Responses object whose output holds the calls and their results, as an agent's loop keeps them."""
    output: list[dict[str, Any]] = []
    for number, message in enumerate(answers()):
        if message["content"]:
            part = {"type": "output_text", "text": message["content"], "annotations": []}
            output.append(
                {
                    "id": f"msg_{number}",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            )
        calls = message.get("tool_calls", [])
        output += [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in calls]
        for call in calls:
            content, _ = outcome(call["function"]["name"], call["function"]["arguments"])
            output.append(
                {
                    "type": "function_call_output",
                    "call_id": call["id"],
                    "output": content,
                    "id": f"fco_{call['id']}",
                    "status": "completed",
                }
            )
    tools = [
        {"type": "function", "name": name, "parameters": schema(argument), "strict": True}
        for name, (_, argument) in TOOLS.items()
    ]
    response = Response.model_validate(
        {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "scripted", "output": output}
        | {"parallel_tool_calls": True, "tool_choice": "auto", "tools": tools}
    )
    start = [{"role": "user", "content": QUESTION}]
    return {"input": start, **response.model_dump(mode="json", exclude_none=True)}


def anthropic() -> dict[str, Any]:
    tools = [
        {"name": name, "description": tool.__doc__, "input_schema": schema(argument)}
        for name, (tool, argument) in TOOLS.items()
    ]
    use, text = claude_code.use, claude_code.text
    turns = [
        [text("I look for the notes."), use(1, "search_web", query="notes")],
        [use(2, "shell", cmd="wc -l notes.txt")],
        [use(3, "read_text", path="missing.txt")],
        [use(4, "shell", command="grep -c two missing.txt")],
        [use(5, "shell", command="wc -l notes.txt"), use(6, "read_text", path="notes.txt")],
        [text("notes.txt has 2 lines.")],
    ]
    script = claude_code.Script("")
    script.answers["main"] = turns
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    with claude_code.server(script) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        client = Anthropic(base_url=f"http://127.0.0.1:{http.server_address[1]}", api_key="scripted")
        while True:
            reply = client.messages.create(model="claude-scripted-1", max_tokens=100, messages=messages, tools=tools)
            blocks = [block.to_dict() for block in reply.content]
            messages.append({"role": "assistant", "content": blocks})
            results = []
            for block in blocks:
                if block["type"] == "tool_use":
                    content, failed = outcome(block["name"], block["input"])
                    results.append({"type": "tool_result", "tool_use_id": block["id"], "content": content})
                    results[-1] |= {"is_error": True} if failed else {}
            if not results:
                http.shutdown()
                return {"model": reply.model, "system": "Answer with the tools.", "tools": tools, "messages": messages}
            messages.append({"role": "user", "content": results})


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("notes.txt").write_text("one\ntwo\n")
        (out / "chat.json").write_text(json.dumps(chat(), indent=1) + "\n")
        (out / "responses.jsonl").write_text(json.dumps(responses()) + "\n")
        (out / "anthropic.json").write_text(json.dumps(anthropic(), indent=1) + "\n")
        os.chdir(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
