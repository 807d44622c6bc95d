"""Tool calls in text, for models without native ones: the Hermes tags that Qwen's chat template writes too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BLOCK = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
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
    """What tells the model its tools, one schema a line."""
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return {"role": "system", "content": _SYSTEM.format(tools=lines)}


def read_calls(content: str) -> tuple[str, list[Any]]:
    """The text around the tags, and the calls in them, as ``tool_calls`` of an action. A missing end tag is forgiven.

    A call that is no JSON keeps its text as its arguments, so that its result says what is wrong with it and where.
    What a model thinks (up to ``</think>``) calls nothing.
    """
    spoken = content.rpartition("</think>")[2]
    return _BLOCK.sub("", spoken).strip(), [_call(block) for block in _BLOCK.findall(spoken)]


def written(call: Mapping[str, Any]) -> str:
    """A native call in tags."""
    function = call.get("function")
    body = function if isinstance(function, Mapping) else call
    arguments = body.get("arguments")
    shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {json.dumps(body.get("name"))}, "arguments": {shown}}}\n</tool_call>'


def answer(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The messages that answer a turn, as one of the user's."""
    parts = [
        f"<tool_response>\n{message['content']}\n</tool_response>" if message["role"] == "tool" else message["content"]
        for message in messages
    ]
    return {"role": "user", "content": "\n".join(parts)}


def _call(block: str) -> Any:
    try:
        return json.loads(block, strict=False)
    except (ValueError, RecursionError):
        name = _NAME.search(block)
        return {"name": name[1] if name else "", "arguments": block}
