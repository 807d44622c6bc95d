"""Tool calls in text, for models without native ones: Hermes tags, as Qwen's chat template writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_MARK = re.compile(r"</think>|<tool_call>\s*")
_END = re.compile(r"\s*(?:</tool_call>|\Z)")
_BROKEN = re.compile(r".*?(?=\s*(?:</tool_call>|</think>|\Z))", re.DOTALL)
_JSON = json.JSONDecoder(strict=False)
_NAME = re.compile(r'"name"\s*:\s*"([^"\n]{1,100})"')
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
    """Return the system message that lists the tools, one schema a line."""
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return {"role": "system", "content": _SYSTEM.format(tools=lines)}


def read_calls(content: str) -> tuple[str, list[Any]]:
    """Return the text around the tags, and the calls in them as ``tool_calls`` of an action.

    A missing end tag is accepted. A call that is not JSON keeps its text as its arguments, so that its result says what
    is wrong with it and where. Reasoning (up to ``</think>``) calls nothing; a call's strings may hold the tags.
    """
    thinks = content.lstrip().startswith("<think>")
    calls: list[Any] = []
    words, position = "", max(content.find("</think>"), 0) if thinks else 0
    while mark := _MARK.search(content, position):
        words, position = words + content[position : mark.start()], mark.end()
        if mark[0] == "</think>":
            words, calls = "", []
            continue
        call, position = _call(content, position)
        calls.append(call)
    return (words + content[position:]).strip(), calls


def written(call: Mapping[str, Any]) -> str:
    """Return a native call in tags."""
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


def _call(text: str, start: int) -> tuple[Any, int]:
    """Return the call in the tag that ends at ``start``, and where the call itself ends."""
    try:
        call, end = _JSON.raw_decode(text, start)
        if closed := _END.match(text, end):
            return call, closed.end()
    except (ValueError, RecursionError):
        pass
    broken = _BROKEN.match(text, start)
    assert broken is not None, "it may be empty"
    name, closed = _NAME.search(broken[0]), _END.match(text, broken.end())
    return {"name": name[1] if name else "", "arguments": broken[0]}, closed.end() if closed else broken.end()
