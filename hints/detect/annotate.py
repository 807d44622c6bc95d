"""Which turns failed, how, whether the agent recovered, what would have helped: a function of the transcript alone."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from typing import Any

from ...models import Episode, ErrorKind, ErrorTurn
from ..foreign import read
from ..transcript.past_turns import PastCall, PastTurn, Place
from ..transcript.status_line import BUDGET_ENDED
from ..write.templates import hints_for
from ..write.templates.kit import nearest_name
from .behaviour import behaviours, log
from .error_kinds import error_kind, worked

_UNFORESEEN: frozenset[ErrorKind] = frozenset(("transport_error", "injected_fault"))
_PLACE = re.compile(r"\d+:\d+")
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
    struck = _struck(turns, injected or {})
    errors = [*_calls(turns, struck), *_ends(turns), *behaviours(turns, known, changed, struck)]
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


def _struck(turns: Sequence[PastTurn], injected: Mapping[str, str]) -> dict[Place, str]:
    """The injected faults by their places. Ids are the agent's choice: one that looks like a place names none."""
    found = {}
    for turn, past in enumerate(turns):
        for index, call in enumerate(past.calls):
            text = injected.get(f"{turn}:{index}")
            if text is None and not _PLACE.fullmatch(call.id):
                text = injected.get(call.id)
            if text is not None:
                found[turn, index] = text
    return found


def _is_schema(tool: Any) -> bool:
    body = tool.get("function", tool) if isinstance(tool, Mapping) else None
    return isinstance(body, Mapping) and isinstance(body.get("name"), str)


def _calls(turns: Sequence[PastTurn], struck: Mapping[Place, str]) -> list[ErrorTurn]:
    """Errors of single calls."""
    errors, later = [], _Worked(turns, struck)
    for turn, past in enumerate(turns):
        for index, call in enumerate(past.calls):
            fault = struck.get((turn, index))
            kind = error_kind(call) or ("injected_fault" if fault is not None else None)
            if kind is None:
                continue
            after = later.turns_after(turn, index, call.name, kind)
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


class _Worked:
    """Where calls worked, by tool: what an error's recovery is looked up in. A call that a fault struck is left out."""

    def __init__(self, turns: Sequence[PastTurn], struck: Container[Place]) -> None:
        self._whole: dict[str, list[Place]] = {}
        self._cut: dict[str, list[Place]] = {}
        self._ends: set[str] = set()
        for turn, past in enumerate(turns):
            for index, call in enumerate(past.calls):
                if worked(call) and (turn, index) not in struck:
                    places = self._whole if error_kind(call) is None else self._cut
                    places.setdefault(call.name, []).append((turn, index))
                    if log.ends(call):
                        self._ends.add(call.name)

    def turns_after(self, turn: int, index: int, name: str, kind: ErrorKind) -> int | None:
        """Turns until another attempt (see ``tries_again``) worked; ``None``: none did."""
        tables = [self._whole] if kind == "output_limit" else [self._whole, self._cut]
        found = []
        for table in tables:
            for other in table if kind in _ANY_TOOL else (name,):
                if other in table and _again(other, name, kind, ends=other in self._ends):
                    next_one = bisect_right(table[other], (turn, index))
                    found += table[other][next_one : next_one + 1]
        return min(found)[0] - turn if found else None


def tries_again(call: PastCall, name: str, kind: ErrorKind) -> bool:
    """Whether a later call is another attempt at what ``name`` failed at: a call of that tool, or, where there was no
    such tool or no readable call, of any. Handing in the work is none, unless that was what failed.
    """
    return _again(call.name, name, kind, ends=log.ends(call))


def _again(other: str, name: str, kind: ErrorKind, *, ends: bool) -> bool:
    return other == name or (kind in _ANY_TOOL and (not ends or bool(nearest_name(name, [other]))))


def _ends(turns: Sequence[PastTurn]) -> list[ErrorTurn]:
    """The budget that ran out, in the turn that it ended."""
    if not turns or BUDGET_ENDED not in turns[-1].notes:
        return []
    return [ErrorTurn(turn=len(turns) - 1, kind="budget", message=BUDGET_ENDED, evidence=BUDGET_ENDED, recovered=False)]
