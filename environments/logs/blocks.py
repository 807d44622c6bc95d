"""Content blocks of Anthropic's Messages API as messages in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .record import Message, mapping, objects, string


def plain_text(content: Any) -> str:
    """Return a text, or the text blocks of a list, each on separate lines."""
    if isinstance(content, list):
        return "\n".join(string(block.get("text")) for block in objects(content) if "text" in block)
    return string(content)


def thoughts(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the blocks ``thinking`` (Anthropic) and ``reasoning`` (Inspect)."""
    texts = (string(block.get("thinking")) or string(block.get("reasoning")) for block in blocks)
    return "\n".join(text for text in texts if text)


def assistant_messages(content: Any) -> list[Message]:
    """Return an assistant's message, followed by the results of tools that the API's server ran within it."""
    blocks = objects(content)
    message: Message = {"role": "assistant", "content": plain_text(content)}
    if thoughts(blocks):
        message["reasoning_content"] = thoughts(blocks)
    calls = [
        {"id": string(block.get("id")), "name": block.get("name"), "arguments": block.get("input")}
        for block in blocks
        if string(block.get("type")).endswith("tool_use")
    ]
    if calls:
        message["tool_calls"] = calls
    return [message, *(result_message(block) for block in blocks if is_result(block))]


def user_messages(content: Any) -> list[Message]:
    """Return the tool results of a user's message, each as a message, then its text if it has one."""
    blocks = objects(content)
    messages = [result_message(block) for block in blocks if is_result(block)]
    text = plain_text([block for block in blocks if not is_result(block)]) if blocks else plain_text(content)
    return [*messages, {"role": "user", "content": text}] if text or not messages else messages


def is_result(block: Mapping[str, Any]) -> bool:
    """Return whether a block is the result of a tool."""
    return string(block.get("type")).endswith("tool_result")


def result_message(block: Mapping[str, Any]) -> Message:
    """Return a result block as a ``tool`` message with its ``is_error``."""
    content = block.get("content")
    call_id = string(block.get("tool_use_id"))
    message: Message = {"role": "tool", "tool_call_id": call_id, "content": plain_text(content)}
    if isinstance(block.get("is_error"), bool):
        message["is_error"] = block["is_error"]
    if isinstance(content, Mapping):  # the result of a tool of the API's server
        code = string(mapping(content).get("error_code"))
        message["content"] = code or "the result is not text"
        message["is_error"] = string(content.get("type")).endswith("error")
    return message


def has_blocks(message: Mapping[str, Any]) -> bool:
    """Return whether a message has calls or results as Anthropic's content blocks."""
    kinds = {string(block.get("type")) for block in objects(message.get("content"))}
    return any(kind.endswith(("tool_use", "tool_result")) or kind == "thinking" for kind in kinds)
