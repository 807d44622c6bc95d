"""Conversations in OpenAI's formats: chat messages or Responses items, as JSON or as lines.

A file may be a list of messages, an object with ``messages`` (or ``input`` and ``output``) and ``tools``, lines of such
objects, a list of them, or lines of single messages. Calls in text (Hermes, ReAct) are found by ``hints``.

An object may also be a request with its response, as a proxy logs them. An agent repeats the whole conversation in each
request; lines that the next line continues are one episode with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..log_file import LogFile
from ..record import LogEpisode, LogFormat, Message, mapping, number, objects, string, tool_schemas
from ..response_items import is_items, messages_of
from .nemo_gym import request_items

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))
_SPEAKERS = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
"""Roles of the messages with ``from`` and ``value``."""


@dataclass(frozen=True)
class Conversation:
    """A list of messages or items, and the object that holds it."""

    place: str
    messages: Sequence[Mapping[str, Any]]
    about: Mapping[str, Any] = field(default_factory=dict)
    answers: int = 0
    """Messages at the end that a response holds; a later request repeats their text and calls, not each field."""

    @property
    def reward(self) -> float | None:
        """Return the reward or the score beside the messages."""
        values = (number(self.about.get(name)) for name in ("reward", "score"))
        return next((value for value in values if value is not None), None)

    def continues(self, other: Conversation) -> bool:
        """Return whether this conversation is the other one with more messages."""
        requested, size = len(other.messages) - other.answers, len(other.messages)
        if len(self.messages) <= size or list(self.messages[:requested]) != list(other.messages[:requested]):
            return False
        return [*map(_gist, self.messages[requested:size])] == [*map(_gist, other.messages[requested:])]


def _gist(message: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a request repeats of an answer."""
    fields = (message.get(name) for name in ("role", "content", "call_id", "name", "arguments"))
    return *fields, [call.get("id") for call in objects(message.get("tool_calls"))]


def matches(log: LogFile) -> bool:
    """Return whether the file holds conversations."""
    return next(conversations(log), None) is not None


def episodes(log: LogFile) -> Iterator[LogEpisode]:
    """Yield the conversations."""
    for conversation in conversations(log):
        about = conversation.about
        yield LogEpisode(
            _messages(conversation),
            conversation.place,
            tools=tool_schemas(about.get("tools")) or tool_schemas(about.get("functions")),
            task_id=string(about.get("task_id")) or string(about.get("instance_id")),
            episode_id=string(about.get("episode_id")) or string(about.get("id")),
            agent=string(about.get("model")),
            reward=conversation.reward,
        )


def conversations(log: LogFile) -> Iterator[Conversation]:
    """Yield the conversations of a file, also where their messages have Anthropic's content blocks."""
    before: Conversation | None = None
    for conversation in _each(log):
        if before is not None and not conversation.continues(before):
            yield before
        before = conversation
    if before is not None:
        yield before


def _each(log: LogFile) -> Iterator[Conversation]:
    lines: list[Mapping[str, Any]] = []
    for entry in log.entries():
        if isinstance(entry.value, list):
            if _is_conversation(entry.value):
                yield Conversation(entry.place, objects(entry.value))
            else:
                items = enumerate(objects(entry.value))
                yield from filter(None, (_conversation(item, f"item {index}") for index, item in items))
        elif isinstance(entry.value, Mapping):
            conversation = _conversation(entry.value, entry.place)
            if conversation is not None:
                yield conversation
            elif _is_message(entry.value):
                lines.append(entry.value)
    if any(message.get("role") == "assistant" for message in lines):
        yield Conversation("the file", lines)


def _conversation(row: Mapping[str, Any], place: str) -> Conversation | None:
    """Return the conversation that an object holds."""
    row = with_response(row)
    messages, answers = objects(row.get("messages")), _answers(row)
    if _is_conversation([*messages, *answers]) and messages:
        return Conversation(place, [*messages, *answers], row, len(answers))
    if _is_conversation(row.get("completion")):
        prompt = row.get("prompt")
        start = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else objects(prompt)
        return Conversation(place, [*start, *objects(row["completion"])], row)
    if isinstance(row.get("output"), list) and (row.get("object") == "response" or is_items(row["output"])):
        output = objects(row["output"])
        return Conversation(place, [*request_items(row), *output], row, len(output))
    spoken = objects(row.get("conversations"))
    if any(string(message.get("from")) in _SPEAKERS for message in spoken):
        return Conversation(place, [_spoken(message) for message in spoken], row)
    return None


def with_response(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request that an object holds, with the response beside it; any other object as it is."""
    for name in ("request", "body", "input"):
        request = mapping(row.get(name))
        if isinstance(request.get("messages"), list):
            return {**row, **request, "response": row.get("response") or row.get("output")}
        if "input" in request:
            return {**mapping(row.get("response")), **request}
    return row


def _answers(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the answer beside a request's messages: the first choice of a chat completion, or a message."""
    response = mapping(row.get("response")) or mapping(row.get("completion"))
    response = mapping(response.get("body")) or response
    choices = objects(response.get("choices")) or objects(row.get("choices"))
    answer = mapping(choices[0].get("message")) if choices else response
    return [answer] if answer.get("role") == "assistant" else []


def _is_message(value: Mapping[str, Any]) -> bool:
    return string(value.get("role")) in _ROLES and bool({"content", "tool_calls", "function_call"} & set(value))


def _is_conversation(value: Any) -> bool:
    """Return whether a value is a list of messages with an answer, or of Responses items."""
    if is_items(value):
        return True
    messages = objects(value)
    return any(map(_is_message, messages)) and any(message.get("role") == "assistant" for message in messages)


def _spoken(message: Mapping[str, Any]) -> Message:
    role = _SPEAKERS.get(string(message.get("from")), "tool")
    return {"role": role, "content": string(message.get("value"))}


def _messages(conversation: Conversation) -> list[Message]:
    if any(string(item.get("type")) not in ("", "message") for item in conversation.messages):
        return messages_of([_as_item(item) for item in conversation.messages])
    return [dict(message) for message in conversation.messages]


def _as_item(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return item if "type" in item else {**item, "type": "message"}


FORMAT = LogFormat(matches, episodes)
