"""Session files of Claude Code: lines of JSON; each side chain of a sub-agent is a separate episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ..blocks import assistant_messages, user_messages
from ..log_file import LogFile
from ..record import LogEpisode, LogFormat, Message, mapping, string

MAIN = ""
"""Key of the agent itself among the chains of a session."""
_DECLINED = ("The user doesn't want to", "[Request interrupted", "The user rejected")
"""Beginnings of results of calls that the user did not allow."""
Line = Mapping[str, Any]


def matches(log: LogFile) -> bool:
    """Return whether lines are messages of a session."""
    return any(_is_message(mapping(value)) for value in log.sample())


def companions(path: Path) -> list[Path]:
    """Return the files of a session's sub-agents, which lie in a folder with its name."""
    return sorted((path.with_suffix("") / "subagents").glob("*.jsonl"))


def episodes(log: LogFile) -> Iterator[LogEpisode]:
    """Yield the agent's episode, then those of its sub-agents."""
    chains: dict[str, list[Line]] = {}
    places: dict[str, str] = {}
    chain_of: dict[str, str] = {}
    visited: set[str] = set()
    for entry in log.entries():
        line = mapping(entry.value)
        line_id = string(line.get("uuid"))
        chain = _chain(line, chain_of)
        if line_id:
            chain_of[line_id] = chain
        if not _is_message(line) or (line_id and line_id in visited):  # a resumed session repeats earlier lines
            continue
        visited.add(line_id)
        chains.setdefault(chain, []).append(line)
        places.setdefault(chain, entry.place)
    for chain in sorted(chains, key=lambda chain: chain != MAIN):
        yield _episode(chain, chains[chain], places[chain])


def _is_message(line: Line) -> bool:
    is_role = line.get("type") in ("user", "assistant")
    return is_role and isinstance(line.get("message"), Mapping) and "sessionId" in line


def _chain(line: Line, chain_of: Mapping[str, str]) -> str:
    """Return the chain of a line: its sub-agent's id, or that of the line before it, or its own id."""
    if line.get("isSidechain") is not True:
        return MAIN
    parent = chain_of.get(string(line.get("parentUuid")), MAIN)
    return string(line.get("agentId")) or parent or string(line.get("uuid"))


def _episode(chain: str, lines: Sequence[Line], place: str) -> LogEpisode:
    models = [string(mapping(line["message"]).get("model")) for line in lines if _is_turn(line)]
    kind = next((string(line["attributionAgent"]) for line in lines if line.get("attributionAgent")), "")
    agent = next((model for model in models if model), "claude-code")
    session = string(lines[0].get("sessionId"))
    return LogEpisode(
        _messages(lines),
        place,
        task_id=f"{session}/{chain}" if chain else session,
        episode_id=chain or session,
        agent=f"{agent} ({kind or 'sub-agent'})" if chain else agent,
        seconds=_seconds(lines),
    )


def _is_turn(line: Line) -> bool:
    """Return whether the model wrote the line; Claude Code itself writes the others, such as errors of the API."""
    message = mapping(line["message"])
    return line["type"] == "assistant" and message.get("model") != "<synthetic>" and not line.get("isApiErrorMessage")


def _messages(lines: Sequence[Line]) -> list[Message]:
    """Return the messages; the blocks of one answer of the model are several lines with one id."""
    messages: list[Message] = []
    last_id = ""
    for line in lines:
        message = mapping(line["message"])
        if _is_turn(line):
            message_id = string(message.get("id"))
            turn, *results = assistant_messages(message.get("content"))
            if message_id and message_id == last_id:
                _join(next(item for item in reversed(messages) if item["role"] == "assistant"), turn)
            else:
                messages.append(turn)
            messages += results
            last_id = message_id
        else:
            messages += [_declined(item) for item in user_messages(message.get("content"))]
    return messages


def _join(turn: Message, more: Message) -> None:
    """Add the blocks of a further line to the turn that they belong to."""
    for field in ("content", "reasoning_content"):
        if more.get(field):
            turn[field] = f"{turn[field]}\n{more[field]}" if turn.get(field) else more[field]
    if more.get("tool_calls"):
        turn["tool_calls"] = [*turn.get("tool_calls", []), *more["tool_calls"]]


def _declined(message: Message) -> Message:
    """Return the message; the result of a call that the user did not allow is marked as not run."""
    if message["role"] == "tool" and message["content"].startswith(_DECLINED):
        return {**message, "content": f"not run: {message['content']}"}
    return message


def _seconds(lines: Sequence[Line]) -> float:
    try:
        first, last = (datetime.fromisoformat(string(lines[index].get("timestamp"))) for index in (0, -1))
        return max(0.0, (last - first).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0


FORMAT = LogFormat(matches, episodes, companions)
