"""Rollouts of verifiers: ``results.jsonl`` of its evaluation (to 0.3) and ``traces.jsonl`` of its traces (0.3 and 0.4).

A trace is a graph of messages. Each path from its root to a leaf is an episode; turns that an earlier path shares are
not repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....errors import LogError
from ..log_file import LogFile
from ..record import LogEpisode, LogFormat, Message, mapping, number, numbers, objects, rows, string, tool_schemas

MAX_BRANCHES = 1000
"""Paths of one trace that are read."""


def matches(log: LogFile) -> bool:
    """Return whether lines are results or traces."""
    return any(_is_result(mapping(value)) or _traces(mapping(value)) for value in log.sample())


def episodes(log: LogFile) -> Iterator[LogEpisode]:
    """Yield the rollouts."""
    about = _metadata(log.path)
    for place, row in rows(log):
        if _is_result(row):
            yield _result(row, place, about)
        for index, trace in enumerate(_traces(row)):
            yield from _trace(trace, place if index == 0 else f"{place}, trace {index}")


def _metadata(results: Path) -> Mapping[str, Any]:
    """Return the ``metadata.json`` beside results, which names the environment and the model; empty without one."""
    file = results.with_name("metadata.json")
    try:
        return mapping(next(iter(LogFile.open(file).sample()), None)) if file.is_file() else {}
    except LogError:
        return {}


def _is_result(row: Mapping[str, Any]) -> bool:
    return {"prompt", "completion", "reward"} <= set(row) and bool({"example_id", "metrics", "task"} & set(row))


def _traces(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    traces = objects(row.get("traces")) or ([row] if "nodes" in row else [])
    return [trace for trace in traces if isinstance(trace.get("nodes"), list) and "rewards" in trace]


def _result(row: Mapping[str, Any], place: str, about: Mapping[str, Any]) -> LogEpisode:
    info = mapping(_from_json(row.get("info")))
    tools = tool_schemas(_from_json(row.get("tool_defs"))) or tool_schemas(_from_json(info.get("oai_tools")))
    task = string(row.get("task")) or string(about.get("env_id"))
    error = row.get("error")
    return LogEpisode(
        [*_messages(row.get("prompt"), "user"), *_messages(row.get("completion"), "assistant")],
        place,
        tools=tools,
        task_id="/".join(filter(None, (task, string(row.get("example_id"))))),
        episode_id=string(row.get("trajectory_id")),
        agent=string(about.get("model")),
        reward=number(row.get("reward")),
        scores=numbers(row.get("metrics")),
        end="error" if error else string(row.get("stop_condition")),
        is_cut_by_limit=row.get("is_truncated") is True or row.get("stop_condition") == "max_turns_reached",
        seconds=number(mapping(row.get("timing")).get("total")) or 0.0,
    )


def _messages(value: Any, role: str) -> list[Message]:
    """Return messages; a text alone is one message. Calls are objects, or texts that hold one."""
    if isinstance(value, str):
        return [{"role": role, "content": string(value)}]
    messages = []
    for item in objects(value):
        message = dict(item)
        if isinstance(message.get("tool_calls"), list):
            message["tool_calls"] = [_from_json(call) for call in message["tool_calls"]]
        messages.append(message)
    return messages


def _from_json(value: Any) -> Any:
    """Return what a text that is JSON holds; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        return value


def _trace(trace: Mapping[str, Any], place: str) -> Iterator[LogEpisode]:
    task, agent = mapping(trace.get("task")), mapping(trace.get("agent"))
    data, rewards = mapping(task.get("data")), mapping(trace.get("rewards"))
    task_id = string(data.get("name")) or string(task.get("key")) or string(data.get("idx"))
    parts = {string(name): _weighted(reward) for name, reward in rewards.items()}
    scores = {name: value for name, value in parts.items() if value is not None}
    errors = objects(trace.get("errors"))
    end = string(errors[-1].get("type")) if errors else string(trace.get("stop_condition"))
    for index, messages in enumerate(_branches(objects(trace.get("nodes")))):
        suffix = f"/branch-{index}" if index else ""
        yield LogEpisode(
            messages,
            place + (f", branch {index}" if index else ""),
            tools=tool_schemas(trace.get("tools")),
            task_id=task_id + suffix,
            episode_id=string(trace.get("id")) + suffix,
            agent=string(mapping(agent.get("config")).get("model")) or string(agent.get("name")),
            reward=sum(scores.values()) if scores else None,
            scores=scores,
            end=end,
            is_cut_by_limit=trace.get("is_timeout") is True or "max_" in end,
            seconds=_duration(mapping(mapping(trace.get("timing")).get("agent"))),
        )


def _weighted(reward: Any) -> float | None:
    score, weight = number(mapping(reward).get("score")), number(mapping(reward).get("weight"))
    return None if score is None else score * (1.0 if weight is None else weight)


def _duration(span: Mapping[str, Any]) -> float:
    start, end = number(span.get("start")), number(span.get("end"))
    return max(0.0, end - start) if start and end else 0.0


def _branches(nodes: Sequence[Mapping[str, Any]]) -> Iterator[list[Message]]:
    """Yield the messages of each path to a leaf, without the turns of earlier paths and those that no model wrote."""
    parents = [
        parent if type(parent := node.get("parent")) is int and 0 <= parent < index else None
        for index, node in enumerate(nodes)
    ]
    inner = set(parents)
    leaves = [index for index in range(len(nodes)) if index not in inner]
    yielded: set[int] = set()
    for leaf in leaves[:MAX_BRANCHES]:
        path: list[int] = []
        at: int | None = leaf
        while at is not None:
            path.append(at)
            at = parents[at]
        messages = []
        is_skipped = False
        for index in reversed(path):
            message = mapping(nodes[index].get("message"))
            role = message.get("role")
            if role == "assistant":
                is_skipped = index in yielded or nodes[index].get("sampled") is False
            if role in ("system", "user") or not is_skipped:
                messages.append(dict(message))
        yielded.update(path)
        if any(message.get("role") == "assistant" for message in messages):
            yield messages


FORMAT = LogFormat(matches, episodes)
