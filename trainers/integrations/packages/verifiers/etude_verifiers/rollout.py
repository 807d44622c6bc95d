"""Between verifiers' message graph and the server: nodes to Responses items, error turns back to nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def responses_output(nodes: Sequence[Any]) -> list[dict[str, Any]]:
    """The rollout in OpenAI's Responses format. Each sampled message starts with a text, so that it is a turn."""
    output: list[dict[str, Any]] = []
    for node in nodes:
        message = node.message
        if message.role == "assistant" and node.sampled:
            text = [{"type": "output_text", "text": _text(message.content), "annotations": []}]
            output.append({"type": "message", "role": "assistant", "content": text})
            for call in message.tool_calls or []:
                about = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
                output.append({"type": "function_call", **about})
        elif message.role == "tool" and output:
            answer = {"call_id": message.tool_call_id, "output": _text(message.content)}
            output.append({"type": "function_call_output", **answer})
    return output


def placed(errors: Sequence[dict[str, Any]], nodes: Sequence[Any]) -> list[dict[str, Any]]:
    """Error turns with ``node``, the erring message's index, and ``result_node``, the index of the call's result.

    A trace may branch, so that turn numbers say little to its readers; node indices are its own. ``result_node`` is
    None for an error of a whole turn.
    """
    turns = [at for at, node in enumerate(nodes) if node.message.role == "assistant" and node.sampled]
    found = []
    for error in errors:
        node = turns[error["turn"]] if error["turn"] < len(turns) else None
        until = next((at for at in turns if node is not None and at > node), len(nodes))
        result = None
        for at in range(node + 1 if node is not None else until, until):
            message = nodes[at].message
            if message.role == "tool" and error["call_id"] and message.tool_call_id == error["call_id"]:
                result = at
        found.append({**error, "node": node, "result_node": result})
    return found


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = [getattr(part, "text", None) for part in content]
    return "".join(text for text in texts if text) or json.dumps([str(part) for part in content])
