"""Harbor's Agent Trajectory Interchange Format (ATIF 1.0 to 1.8), with the reward of the trial that it lies in.

Embedded sub-agents are separate episodes, and so are the side chains in what Harbor makes of a Claude Code session.
Steps that were copied from an earlier trajectory, and steps that no model wrote, are not turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ....errors import LogError
from ..blocks import plain_text
from ..log_file import LogFile
from ..record import LogEpisode, LogFormat, Message, mapping, numbers, objects, string, tool_schemas

DEPTH = 8
"""Levels of embedded sub-agents that are read."""
_NO_TRIAL: Mapping[str, Any] = {}


def matches(log: LogFile) -> bool:
    """Return whether the file is a trajectory."""
    return any(_is_trajectory(value) for value in log.sample())


def episodes(log: LogFile) -> Iterator[LogEpisode]:
    """Yield the trajectory and its sub-agents."""
    trial = trial_result(log.path)
    for entry in log.entries():
        if _is_trajectory(entry.value):
            yield from _trajectory(entry.value, entry.place, trial, log.path.stem)


def trial_result(trajectory: Path) -> Mapping[str, Any]:
    """Return the ``result.json`` of the trial that a trajectory lies in; an empty object when there is none."""
    for folder in list(trajectory.parents)[:4]:
        file = folder / "result.json"
        if file.is_file():
            with suppress(LogError):
                result = mapping(next(iter(LogFile.open(file).sample()), None))
                if {"task_name", "trial_name"} <= set(result):  # a job has such a file too
                    return result
    return _NO_TRIAL


def _is_trajectory(value: Any) -> bool:
    table = mapping(value)
    return string(table.get("schema_version")).startswith("ATIF") and isinstance(table.get("steps"), list)


def _trajectory(
    table: Mapping[str, Any], place: str, trial: Mapping[str, Any], name: str, depth: int = 0
) -> Iterator[LogEpisode]:
    about = mapping(table.get("agent"))
    task_id = string(trial.get("task_name")) or string(table.get("session_id")) or name
    episode_id = string(table.get("trajectory_id")) or string(table.get("session_id"))
    agent = " ".join(filter(None, (string(about.get("name")), string(about.get("model_name")))))
    steps = [step for step in objects(table.get("steps")) if step.get("is_copied_context") is not True]
    main = [step for step in steps if not _side_chain(step)]
    reward, scores, end = (None, {}, "") if depth else _outcome(trial)
    tools = tool_schemas(about.get("tool_definitions"))
    yield LogEpisode(
        [message for step in main for message in _messages(step)],
        place,
        tools=tools,
        task_id=task_id,
        episode_id=episode_id,
        agent=agent,
        reward=reward,
        scores=scores,
        end=end,
        is_cut_by_limit="Timeout" in end,
    )
    for chain in dict.fromkeys(_side_chain(step) for step in steps if _side_chain(step)):
        messages = [message for step in steps if _side_chain(step) == chain for message in _messages(step)]
        name = f"{agent} (sub-agent)"
        yield LogEpisode(messages, place, tools=tools, task_id=f"{task_id}/{chain}", episode_id=chain, agent=name)
    if depth < DEPTH:
        for index, sub in enumerate(objects(table.get("subagent_trajectories"))):
            yield from _trajectory(
                {**sub, "session_id": sub.get("session_id") or task_id},
                f"{place}, sub-agent {index}",
                {"task_name": f"{task_id}/{string(sub.get('trajectory_id')) or index}"},
                name,
                depth + 1,
            )


def _side_chain(step: Mapping[str, Any]) -> str:
    """Return the id of the sub-agent that a step belongs to; empty for the agent itself."""
    extra = mapping(step.get("extra"))
    return string(extra.get("agent_id")) or "side chain" if extra.get("is_sidechain") is True else ""


def _messages(step: Mapping[str, Any]) -> list[Message]:
    text, source = plain_text(step.get("message")), step.get("source")
    results = objects(mapping(step.get("observation")).get("results"))
    if source != "agent" or step.get("llm_call_count") == 0:
        role = "system" if source == "system" else "user"
        texts = [text, *(_content(result) for result in results)]
        return [{"role": role, "content": text} for text in texts if text]
    message: Message = {"role": "assistant", "content": text}
    if thought := string(step.get("reasoning_content")):
        message["reasoning_content"] = thought
    calls = objects(step.get("tool_calls"))
    if calls:
        message["tool_calls"] = [
            {
                "id": string(call.get("tool_call_id")),
                "name": call.get("function_name"),
                "arguments": call.get("arguments"),
            }
            for call in calls
        ]
    return [message, *_results(results, calls)]


def _results(results: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return results as tool messages; those of a step without calls are what the agent is shown next."""
    if not calls:
        return [{"role": "user", "content": _content(result)} for result in results]
    messages = []
    for result in results:
        message: Message = {"role": "tool", "tool_call_id": string(result.get("source_call_id"))}
        message["content"] = _content(result)
        flag = _failure(result)
        messages.append(message if flag is None else {**message, "is_error": flag})
    return messages


def _raw(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result as the agent's own log has it, which Harbor keeps beside its text of it."""
    return mapping(mapping(mapping(result.get("extra")).get("tool_result_metadata")).get("raw_tool_result"))


def _content(result: Mapping[str, Any]) -> str:
    raw = _raw(result)
    return plain_text(raw["content"] if "content" in raw else result.get("content"))


def _failure(result: Mapping[str, Any]) -> bool | None:
    """Return what the result says beside its text about its failure."""
    extra = mapping(result.get("extra"))
    flags = [extra.get("tool_result_is_error"), extra.get("is_error"), _raw(result).get("is_error")]
    return next((flag for flag in flags if isinstance(flag, bool)), None)


def _outcome(trial: Mapping[str, Any]) -> tuple[float | None, dict[str, float], str]:
    """Return the reward of a trial, its parts, and how it ended."""
    rewards = numbers(mapping(trial.get("verifier_result")).get("rewards"))
    value = next(iter(rewards.values())) if len(rewards) == 1 else rewards.get("reward")
    return value, rewards, string(mapping(trial.get("exception_info")).get("exception_type"))


FORMAT = LogFormat(matches, episodes)
