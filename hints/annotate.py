"""Which turns failed, how, and whether the agent recovered: a function of the transcript alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from ..models import Episode, ErrorKind, ErrorTurn
from .status import Status, read_status

_KINDS = frozenset(get_args(ErrorKind))


def annotate(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    files: Sequence[str] = (),
    injected: Mapping[str, str] | None = None,
) -> list[ErrorTurn]:
    """ErrorTurns of a chat transcript, in order.

    ``messages`` are OpenAI-style; each ``assistant`` message starts a turn, counted from 0, and the ``tool`` messages
    after it answer its calls in order. ``tools`` are the schemas that the agent had; ``files`` and the texts of
    ``injected`` (call id -> what the environment injected) are for hints. Only status lines are read.
    """
    injected = injected or {}
    turns = _turns(messages)
    errors = []
    for turn, results in enumerate(turns):
        for index, (call_id, tool, status) in enumerate(results):
            kind = error_kind(tool, status)
            if kind is None:
                continue
            fault = call_id in injected
            after = _turns_to_recover(turns, turn, index)
            errors.append(
                ErrorTurn(
                    turn=turn,
                    call_index=index,
                    call_id=call_id,
                    kind=kind,
                    site="recovery" if fault else "erring",
                    tool=tool,
                    message=status.message or status.line,
                    evidence=status.line,
                    injected=fault,
                    recovered=None if after is None and turn == len(turns) - 1 else after is not None,
                    turns_to_recover=after,
                )
            )
    return errors


def error_kind(tool: str, status: Status) -> ErrorKind | None:
    """The decision table from a status line to a kind; ``None`` when the call is no error.

    Failing tests (``run_tests`` with exit 1) are what the agent asked to see, not an error of its turn.
    """
    if status.word == "timeout":
        return "timeout"
    if status.word == "error":
        return status.code if status.code in _KINDS else "nonzero_exit"  # type: ignore[return-value]
    if status.word == "exit" and status.exit_code:
        if tool == "run_tests" and status.exit_code == 1:
            return None
        return "command_not_found" if tool == "bash" and status.exit_code == 127 else "nonzero_exit"
    return None


def transcript(episode: Episode) -> list[dict[str, Any]]:
    """An Episode as an OpenAI-style message list: the prompt, then each turn and the messages that answered it."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": episode.prompt}]
    for turn in episode.turns:
        messages.append({**turn.action, "role": "assistant"})
        messages.extend(message.model_dump() for message in turn.messages)
    return messages


Result = tuple[str, str, Status]


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[list[Result]]:
    """The tool results of each assistant message."""
    turns: list[list[Result]] = []
    for message in messages:
        if message.get("role") == "assistant":
            turns.append([])
        elif message.get("role") == "tool" and turns:
            call_id, tool = str(message.get("tool_call_id") or ""), str(message.get("name") or "")
            turns[-1].append((call_id, tool, read_status(str(message.get("content") or ""))))
    return turns


def _turns_to_recover(turns: Sequence[Sequence[Result]], turn: int, index: int) -> int | None:
    """Turns until the failed tool (any tool, when that one did not exist) worked again; ``None``: it never did."""
    tool, status = turns[turn][index][1:]
    anything = status.code in ("tool_not_found", "malformed_call")
    for later in range(turn, len(turns)):
        results = turns[later][index + 1 :] if later == turn else turns[later]
        if any(
            error_kind(name, state) is None and state.word != "other"
            for _, name, state in results
            if anything or name == tool
        ):
            return later - turn
    return None
