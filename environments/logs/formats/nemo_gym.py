"""Rollouts of NeMo Gym: lines with ``responses_create_params``, the ``response`` and its reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..log_file import LogFile
from ..record import LogEpisode, LogFormat, mapping, number, objects, rows, string, tool_schemas
from ..response_items import messages_of


def matches(log: LogFile) -> bool:
    """Return whether lines are rollouts."""
    return any(_is_rollout(mapping(value)) for value in log.sample())


def episodes(log: LogFile) -> Iterator[LogEpisode]:
    """Yield the rollouts."""
    for place, row in rows(log):
        if _is_rollout(row):
            yield _rollout(row, place)


def _is_rollout(row: Mapping[str, Any]) -> bool:
    return "responses_create_params" in row and isinstance(mapping(row.get("response")).get("output"), list)


def _rollout(row: Mapping[str, Any], place: str) -> LogEpisode:
    params, response = mapping(row["responses_create_params"]), mapping(row["response"])
    task = string(row.get("task_id")) or string(row.get("_ng_task_index"))
    incomplete = string(mapping(response.get("incomplete_details")).get("reason"))
    attempt = string(row.get("_ng_rollout_index"))
    return LogEpisode(
        messages_of([*request_items(params), *objects(response["output"])]),
        place,
        tools=tool_schemas(params.get("tools")),
        task_id=task,
        episode_id=f"{task}-{attempt}" if task and attempt else "",
        agent=string(response.get("model")) or string(mapping(row.get("agent_ref")).get("name")),
        reward=number(row.get("reward")),
        end=incomplete,
        is_cut_by_limit=incomplete == "max_output_tokens",
    )


def request_items(params: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the items of a request of the Responses API: its instructions, then its input."""
    instructions, content = string(params.get("instructions")), params.get("input")
    start = [{"type": "message", "role": "system", "content": instructions}] if instructions else []
    if isinstance(content, str):
        return [*start, {"type": "message", "role": "user", "content": string(content)}]
    return [*start, *objects(content)]


FORMAT = LogFormat(matches, episodes)
