"""Logs of Inspect: ``.eval`` archives and JSON logs. Each sample is an episode, read without ``inspect_ai``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ....hints.transcript.parsing import read_arguments
from ..blocks import plain_text, thoughts
from ..log_file import LogFile
from ..record import LogEpisode, LogFormat, Message, mapping, number, objects, string, tool_schemas

_VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
"""Numbers of the scores that Inspect writes as words (its ``value_to_float``)."""
_LIMITS = frozenset(("message", "time", "working", "token", "cost", "turn"))
_ATTACHMENT = re.compile(r"attachment://(\w+)")


def matches(log: LogFile) -> bool:
    """Return whether the file is a log of Inspect."""
    values = [mapping(value) for value in log.sample()]
    if log.layout == "archive":
        return any(_is_header(value) or _is_sample(value) for value in values)
    return any(_is_header(value) and "samples" in value for value in values)


def episodes(log: LogFile) -> Iterator[LogEpisode]:
    """Yield the samples."""
    header: Mapping[str, Any] = {}
    for entry in log.entries():
        table = mapping(entry.value)
        if _is_header(table):
            header = mapping(table["eval"])
            for index, sample in enumerate(objects(table.get("samples"))):
                yield _sample(sample, header, f"sample {index}")
        elif _is_sample(table):
            yield _sample(table, header, entry.place)


def _is_header(table: Mapping[str, Any]) -> bool:
    about = mapping(table.get("eval"))
    return "task" in about and "model" in about and "version" in table


def _is_sample(table: Mapping[str, Any]) -> bool:
    return isinstance(table.get("messages"), list) and "epoch" in table and "id" in table


def _sample(sample: Mapping[str, Any], header: Mapping[str, Any], place: str) -> LogEpisode:
    attachments = mapping(sample.get("attachments"))
    limit, error = string(mapping(sample.get("limit")).get("type")), mapping(sample.get("error"))
    scores = _scores(sample)
    return LogEpisode(
        [_message(message, attachments) for message in objects(sample.get("messages"))],
        place,
        tools=_tools(sample),
        task_id=f"{string(header.get('task')) or 'task'}/{string(sample.get('id'))}",
        episode_id=string(sample.get("uuid")),
        agent=string(header.get("model")),
        reward=next(iter(scores.values())) if len(scores) == 1 else None,
        scores=scores,
        end=f"limit: {limit}" if limit else "error" if error else "",
        is_cut_by_limit=limit in _LIMITS,
        seconds=number(sample.get("total_time")) or 0.0,
    )


def _scores(sample: Mapping[str, Any]) -> dict[str, float]:
    scores = {}
    for name, score in mapping(sample.get("scores")).items():
        value = mapping(score).get("value")
        as_number = _VALUES.get(value) if isinstance(value, str) else number(value)
        if as_number is not None:
            scores[string(name)] = as_number
    return scores


def _tools(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tools that the sample's calls of the model offered."""
    tools: dict[str, dict[str, Any]] = {}
    for event in objects(sample.get("events")):
        if event.get("event") == "model":
            tools.update({string(tool.get("name")): tool for tool in tool_schemas(event.get("tools"))})
    return list(tools.values())


def _message(message: Mapping[str, Any], attachments: Mapping[str, Any]) -> Message:
    role, content = string(message.get("role")), message.get("content")
    text = _ATTACHMENT.sub(lambda match: string(attachments.get(match[1])) or match[0], plain_text(content))
    if role == "tool":
        error = mapping(message.get("error"))
        problem = string(error.get("message"))
        result: Message = {"role": "tool", "tool_call_id": string(message.get("tool_call_id")), "content": text}
        result["name"] = string(message.get("function"))
        if error:
            result |= {"content": f"{problem}\n{text}" if text and text != problem else problem, "is_error": True}
        return result
    if role != "assistant":
        return {"role": role or "user", "content": text}
    turn: Message = {"role": "assistant", "content": text}
    if thoughts(objects(content)):
        turn["reasoning_content"] = thoughts(objects(content))
    calls = [_call(call) for call in objects(message.get("tool_calls"))]
    return {**turn, "tool_calls": calls} if calls else turn


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call; arguments that Inspect could not read stay the text that the model wrote."""
    arguments: Any = mapping(call.get("arguments"))
    problem = string(call.get("parse_error"))
    if problem:  # Inspect then keeps that text under the name of the tool's first argument
        written = string(next(iter(arguments.values()), ""))
        arguments = written if read_arguments(written)[1] else problem
    return {"id": string(call.get("id")), "name": call.get("function"), "arguments": arguments}


FORMAT = LogFormat(matches, episodes)
