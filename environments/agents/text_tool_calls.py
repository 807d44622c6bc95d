"""Tool calls in text, for models without native ones: Hermes tags, as Qwen's chat template writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...hints.transcript import hermes

_MARK = re.compile(rf"</think>|{hermes.OPENING.pattern}")
_ENDS = ("</tool_call>", "</think>")
_SYSTEM = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


def system_message(tools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the system message with the tools, one schema a line."""
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return {"role": "system", "content": _SYSTEM.format(tools=lines)}


def read_calls(content: str) -> tuple[str, list[Any]]:
    """Return the text around the tags, and the calls in them as ``tool_calls`` of an action.

    A call that is not a JSON value keeps its text as its arguments, so that its result says what is wrong with it and
    where. Thoughts (up to ``</think>``) make no calls.
    """
    thinks = content.lstrip().startswith("<think>")
    calls: list[Any] = []
    text, position = "", max(content.find("</think>"), 0) if thinks else 0
    while mark := _MARK.search(content, position):
        text, position = text + content[position : mark.start()], mark.end()
        if mark[0] == "</think>":
            text, calls = "", []
            continue
        call = hermes.call_at(content, position, _ENDS)
        position = call.end
        if call.broken or call.is_function:
            calls.append({"name": hermes.name_in(call.text), "arguments": call.text})
        else:
            calls.append(call.value)
    return (text + content[position:]).strip(), calls


def written(call: Mapping[str, Any]) -> str:
    """Return a native call as text with tags."""
    function = call.get("function")
    body = function if isinstance(function, Mapping) else call
    arguments = body.get("arguments")
    shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {json.dumps(body.get("name"))}, "arguments": {shown}}}\n</tool_call>'


def answer(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the messages that answer a turn as one user message."""
    parts = [
        f"<tool_response>\n{message['content']}\n</tool_response>" if message["role"] == "tool" else message["content"]
        for message in messages
    ]
    return {"role": "user", "content": "\n".join(parts)}
