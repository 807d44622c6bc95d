"""Conversations of Anthropic's Messages API: messages whose content blocks hold calls and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..blocks import assistant_messages, has_blocks, plain_text, user_messages
from ..log_file import LogFile
from ..record import LogEpisode, LogFormat, Message, mapping, objects, string, tool_schemas
from .openai_messages import Conversation, conversations, with_response


def matches(log: LogFile) -> bool:
    """Return whether a conversation of the file has content blocks with calls, results or thoughts."""
    return any(any(map(has_blocks, messages)) for value in log.sample() for messages in _lists(value))


def episodes(log: LogFile) -> Iterator[LogEpisode]:
    """Yield the conversations."""
    for conversation in conversations(log):
        yield _episode(conversation)


def _lists(value: Any) -> Iterator[list[Mapping[str, Any]]]:
    """Yield what may be lists of messages in a value of the file."""
    if isinstance(value, Mapping):
        request = with_response(value)
        yield objects(request.get("messages"))
        yield [value, mapping(request.get("response"))]
    elif isinstance(value, list):
        yield objects(value)
        yield from (objects(item.get("messages")) for item in objects(value))


def _episode(conversation: Conversation) -> LogEpisode:
    about = conversation.about
    system = plain_text(about.get("system"))
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for message in conversation.messages:
        if message.get("role") == "assistant":
            messages += assistant_messages(message.get("content"))
        else:
            messages += user_messages(message.get("content"))
    return LogEpisode(
        messages,
        conversation.place,
        tools=tool_schemas(about.get("tools")),
        task_id=string(mapping(about.get("metadata")).get("task_id")) or string(about.get("task_id")),
        episode_id=string(about.get("id")),
        agent=string(about.get("model")),
        reward=conversation.reward,
    )


FORMAT = LogFormat(matches, episodes)
