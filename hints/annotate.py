"""Which turns failed, how, whether the agent recovered, what would have helped: a function of the transcript alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..models import Episode, ErrorKind, ErrorTurn
from .behaviour import behaviours
from .decide import error_kind, worked
from .dialects import read
from .status import BUDGET_ENDED
from .templates import hints_for
from .turns import PastTurn

_UNFORESEEN: frozenset[ErrorKind] = frozenset(("transport_error", "injected_fault"))
_ANY_TOOL: frozenset[ErrorKind] = frozenset(("tool_not_found", "malformed_call"))


def annotate(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    files: Sequence[str] = (),
    injected: Mapping[str, str] | None = None,
    *,
    dialect: str = "auto",
    changed: Sequence[str] | None = None,
) -> list[ErrorTurn]:
    """ErrorTurns of a chat transcript with their hints, in the order of turns and calls.

    Each assistant message is a turn, counted from 0. ``dialect`` is ``etude``, ``openai``, ``hermes``, ``react`` or
    ``auto``. ``tools`` are the schemas that the agent had; ``files`` are paths that it could have meant. ``injected``
    tells what a fault injector did: call id, or ``TURN:INDEX`` where ids repeat, to a text. ``changed`` are the paths
    of the frozen diff, once there is one.

    In a log with status lines only those are read; what other logs are judged by is in ``dialects.outcomes``. An
    injected fault that shows in no status is an ``injected_fault``. Nothing in a message raises; a dialect that there
    is not raises UnknownName.
    """
    known = [tool for tool in tools if _is_schema(tool)] if isinstance(tools, Sequence) else []
    turns = read(messages, known, dialect)
    errors = [*_calls(turns, injected or {}), *_ends(turns), *behaviours(turns, known, changed)]
    errors.sort(key=lambda error: (error.turn, -1 if error.call_index is None else error.call_index))
    for error in errors:
        error.hints = hints_for(error, turns, known, files)
    return errors


def transcript(episode: Episode) -> list[dict[str, Any]]:
    """An Episode as an OpenAI-style message list: the prompt, then each turn and the messages that answered it.

    The first message names the dialect, so that nothing an agent writes is taken for another one.
    """
    messages: list[dict[str, Any]] = [{"role": "user", "content": episode.prompt, "dialect": "etude"}]
    for turn in episode.turns:
        messages.append({**turn.action, "role": "assistant"})
        messages.extend(message.model_dump() for message in turn.messages)
    return messages


def _is_schema(tool: Any) -> bool:
    body = tool.get("function", tool) if isinstance(tool, Mapping) else None
    return isinstance(body, Mapping) and isinstance(body.get("name"), str)


def _calls(turns: Sequence[PastTurn], injected: Mapping[str, str]) -> list[ErrorTurn]:
    """Errors of single calls."""
    errors = []
    for turn, past in enumerate(turns):
        for index, call in enumerate(past.calls):
            fault = injected.get(f"{turn}:{index}", injected.get(call.id))
            kind = error_kind(call) or ("injected_fault" if fault is not None else None)
            if kind is None:
                continue
            after = _turns_to_recover(turns, turn, index, kind, injected)
            status = call.status
            errors.append(
                ErrorTurn(
                    turn=turn,
                    call_index=index,
                    call_id=call.id,
                    kind=kind,
                    site="recovery" if fault is not None or kind in _UNFORESEEN else "erring",
                    tool=call.name,
                    message=fault or status.message or status.line or call.problem,
                    evidence=status.line or call.problem,
                    injected=fault is not None,
                    recovered=None if after is None and turn == len(turns) - 1 else after is not None,
                    turns_to_recover=after,
                )
            )
    return errors


def _turns_to_recover(
    turns: Sequence[PastTurn], turn: int, index: int, kind: ErrorKind, injected: Mapping[str, str]
) -> int | None:
    """Turns until the failed tool (any tool, when that one did not exist) worked again; ``None``: it never did."""
    name = turns[turn].calls[index].name
    for later in range(turn, len(turns)):
        for number, call in enumerate(turns[later].calls):
            if (later, number) <= (turn, index) or (call.name != name and kind not in _ANY_TOOL):
                continue
            if f"{later}:{number}" in injected or call.id in injected:
                continue
            if worked(call) and (kind != "output_limit" or error_kind(call) is None):
                return later - turn
    return None


def _ends(turns: Sequence[PastTurn]) -> list[ErrorTurn]:
    """The budget that ran out, in the turn that it ended."""
    if not turns or BUDGET_ENDED not in turns[-1].notes:
        return []
    return [ErrorTurn(turn=len(turns) - 1, kind="budget", message=BUDGET_ENDED, evidence=BUDGET_ENDED, recovered=False)]
