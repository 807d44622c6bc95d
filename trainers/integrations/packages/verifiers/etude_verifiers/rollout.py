"""Conversions between verifiers' message graph and the server: nodes to Responses items, error turns to nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def responses_output(nodes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rollout in OpenAI's Responses format; a sampled message starts with a text, so that it is a turn."""
    output: list[dict[str, Any]] = []
    for node in nodes:
        message = node.message
        if message.role == "assistant" and node.sampled:
            text = [{"type": "output_text", "text": _text(message.content), "annotations": []}]
            output.append({"type": "message", "role": "assistant", "content": text})
            for call in message.tool_calls or []:
                fields = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
                output.append({"type": "function_call", **fields})
        elif message.role == "tool" and output:
            result = {"call_id": message.tool_call_id, "output": _text(message.content)}
            output.append({"type": "function_call_output", **result})
    return output


def place_errors(errors: Sequence[dict[str, Any]], nodes: Sequence[Any]) -> list[dict[str, Any]]:
    """Add ``node``, the erring message's index, and ``result_node``, that of the call's result, to error turns.

    A trace may branch, so that its readers need node indices instead of turn numbers. ``result_node`` is None for an
    error of a whole turn.
    """
    turns = [place for place, node in enumerate(nodes) if node.message.role == "assistant" and node.sampled]
    placed_errors = []
    for error in errors:
        node = turns[error["turn"]] if error["turn"] < len(turns) else None
        end = next((place for place in turns if node is not None and place > node), len(nodes))
        result = None
        for place in range(node + 1 if node is not None else end, end):
            message = nodes[place].message
            if message.role == "tool" and error["call_id"] and message.tool_call_id == error["call_id"]:
                result = place
        placed_errors.append({**error, "node": node, "result_node": result})
    return placed_errors


def turn_rewards(placed_errors: Sequence[dict[str, Any]], nodes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return ``{"turn", "node", "reward"}`` of each sampled turn, for credit by turns: -1.0 after an error, else 0.0.

    Errors that the agent could not foresee, which are injected or have the site ``recovery``, do not count. The grade
    of the whole rollout is not included.
    """
    erring = {error["node"] for error in placed_errors if not error["injected"] and error["site"] != "recovery"}
    turns = [place for place, node in enumerate(nodes) if node.message.role == "assistant" and node.sampled]
    return [{"turn": turn, "node": node, "reward": -1.0 if node in erring else 0.0} for turn, node in enumerate(turns)]


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = [getattr(part, "text", None) for part in content]
    return "".join(text for text in texts if text) or json.dumps([str(part) for part in content])
