"""ErrorTurns of a transcript: which turns failed and how, whether the agent recovered, and what would have helped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...models import Episode, ErrorKind, ErrorTurn
from ..foreign import read
from ..transcript.past_turns import PastTurn, Place
from ..transcript.status_line import BUDGET_ENDED
from ..write.templates import hints_for
from .behaviour import behaviours
from .error_kinds import error_kind
from .recovery import WorkedCalls

_UNFORESEEN: frozenset[ErrorKind] = frozenset(("transport_error", "injected_fault"))
_PLACE = re.compile(r"\d+:\d+")


def annotate(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    files: Sequence[str] = (),
    injected: Mapping[str, str] | None = None,
    *,
    dialect: str = "auto",
    changed: Sequence[str] | None = None,
) -> list[ErrorTurn]:
    """Return the ErrorTurns of a chat transcript with their hints, in the order of turns and calls.

    Each assistant message is a turn, counted from 0. ``dialect`` is ``etude``, ``openai``, ``hermes``, ``react`` or
    ``auto``. ``tools`` are the schemas that the agent had; ``files`` are paths that it could have meant. ``injected``
    says what a fault injector did: call id, or ``TURN:INDEX`` where ids repeat, to a text. ``changed`` are the paths of
    the frozen diff, if there is one already.

    In a log with status lines only these are read; other logs are judged as ``foreign.outcomes`` describes. An
    injected fault that no status shows is an ``injected_fault``. Nothing in a message raises; an unknown dialect raises
    UnknownName.
    """
    turns = read(messages, tools, dialect)
    struck = _struck(turns, injected or {})
    errors = [*_call_errors(turns, struck), *_budget_error(turns), *behaviours(turns, changed, struck)]
    errors.sort(key=lambda error: (error.turn, -1 if error.call_index is None else error.call_index))
    for error in errors:
        error.hints = hints_for(error, turns, tools, files)
    return errors


def transcript(episode: Episode) -> list[dict[str, Any]]:
    """Return an Episode as an OpenAI-style message list: the prompt, then each turn and the messages that answered it.

    The first message names the dialect, so that no text of an agent is taken for another dialect.
    """
    messages: list[dict[str, Any]] = [{"role": "user", "content": episode.prompt, "dialect": "etude"}]
    for turn in episode.turns:
        messages.append({**turn.action, "role": "assistant"})
        messages.extend(message.model_dump() for message in turn.messages)
    return messages


def _struck(turns: Sequence[PastTurn], injected: Mapping[str, str]) -> dict[Place, str]:
    """Return the injected faults by place. Agents choose the ids, so an id that looks like a place is ignored."""
    struck = {}
    for turn, past in enumerate(turns):
        for index, call in enumerate(past.calls):
            text = injected.get(f"{turn}:{index}")
            if text is None and not _PLACE.fullmatch(call.id):
                text = injected.get(call.id)
            if text is not None:
                struck[turn, index] = text
    return struck


def _call_errors(turns: Sequence[PastTurn], struck: Mapping[Place, str]) -> list[ErrorTurn]:
    """Return the errors of single calls."""
    errors, worked_calls = [], WorkedCalls(turns, struck)
    for turn, past in enumerate(turns):
        for index, call in enumerate(past.calls):
            fault = struck.get((turn, index))
            kind = error_kind(call) or ("injected_fault" if fault is not None else None)
            if kind is None:
                continue
            recovery = worked_calls.turns_to_recovery((turn, index), call, kind)
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
                    recovered=None if recovery is None and turn == len(turns) - 1 else recovery is not None,
                    turns_to_recover=recovery,
                )
            )
    return errors


def _budget_error(turns: Sequence[PastTurn]) -> list[ErrorTurn]:
    """Return the error of a budget that ran out, in the turn that it ended."""
    if not turns or BUDGET_ENDED not in turns[-1].notes:
        return []
    return [ErrorTurn(turn=len(turns) - 1, kind="budget", message=BUDGET_ENDED, evidence=BUDGET_ENDED, recovered=False)]
