"""Reader of ReAct text: ``Thought:``, ``Action:``, ``Action Input:``, ``Observation:``, in messages or a scratchpad.

An action is a name with its input on the next line (JSON or plain text), ``name[input]``, or a JSON object with
``action`` and ``action_input``. A result in a scratchpad that itself holds a line ``Thought:`` or ``Action:`` is
ambiguous there; in messages it is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..transcript.parsing import read_arguments, text_of
from .drafts import DraftCall, DraftTurn, attach_result, failure_flag

_ACTION = re.compile(r"^[ \t]*\**Action(?: \d+)?:\**[ \t]*", re.MULTILINE)
_INPUT = re.compile(r"\s*^[ \t]*\**Action Input(?: \d+)?:\**[ \t]*", re.MULTILINE)
_SECTION = re.compile(r"^[ \t]*\**(?:Thought|Action|Action Input|Observation|Final Answer)(?: \d+)?:", re.MULTILINE)
_OBSERVATION = re.compile(r"^[ \t]*\**Observation(?: \d+)?:\**[ \t]?\n?", re.MULTILINE)
_NEXT = re.compile(r"^[ \t]*\**(?:Thought|Action|Final Answer)(?: \d+)?:", re.MULTILINE)
_BRACKETS = re.compile(r"([\w.-]+)\[(.*)\]", re.DOTALL)
_FENCE = re.compile(r"```\w*\n(.*)```", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)


def has_action(text: str) -> bool:
    """Return whether an assistant's text holds an action."""
    return next(_calls(text), None) is not None


def read_react(messages: Sequence[Mapping[str, Any]]) -> list[DraftTurn]:
    """Return turns with calls; each observation answers the next call. The model's own observations are dropped."""
    texts = [(message.get("role"), text_of(message.get("content")), message) for message in messages]
    has_observations = any(role == "user" and _OBSERVATION.match(text) for role, text, _ in texts)
    last = max((number for number, row in enumerate(texts) if row[0] in ("assistant", "tool", "user")), default=0)
    turns: list[DraftTurn] = []
    for number, (role, text, message) in enumerate(texts):
        if role == "assistant":
            text = text_of(message.get("text")) or text
            written = _OBSERVATION.search(text)
            if written and not turns and number == last:
                turns.append(_scratchpad(text))
            else:
                turns.append(DraftTurn(text, list(_calls(text[: written.start()] if written else text))))
        elif turns and role in ("tool", "user"):
            is_waiting = any(call.content is None for call in turns[-1].calls)
            observed = _OBSERVATION.match(text)
            if turns[-1].calls and (observed or role == "tool" or (is_waiting and not has_observations)):
                attach_result(turns, "", "", text[observed.end() :] if observed else text, failure_flag(message))
            else:
                turns[-1].notes.append(text)
    for number, turn in enumerate(turns):
        for index, call in enumerate(turn.calls):
            call.id = f"call_{number}_{index}"
    return turns


def _scratchpad(text: str) -> DraftTurn:
    """Return a trajectory in one text as one turn, whose calls are each followed by their observation."""
    turn = DraftTurn(text.strip("\n"))
    position = 0
    while observed := _OBSERVATION.search(text, position):
        after = _NEXT.search(text, observed.end())
        end = after.start() if after else len(text)
        new = list(_calls(text[position : observed.start()]))
        if new:
            new[-1].content = text[observed.end() : end].rstrip("\n")
        turn.calls += new
        position = end
    turn.calls += _calls(text[position:])
    return turn


def _calls(text: str) -> Iterator[DraftCall]:
    position = 0
    while opened := _ACTION.search(text, position):
        call, position = _action(text, opened.end())
        if call is not None:
            yield call


def _action(text: str, start: int) -> tuple[DraftCall | None, int]:
    """Return the action whose description begins at ``start``, and where it ends."""
    following = _SECTION.search(text, start)
    end = following.start() if following else len(text)
    description = _without_fence(text[start:end])
    if description.startswith("{"):
        return _call_from_object(description), end
    bracketed = _BRACKETS.fullmatch(description)
    if bracketed is not None:
        return _call_with_input(bracketed[1], bracketed[2]), end
    name = description.partition("\n")[0].strip("`* ")
    opened = _INPUT.match(text, end) or _INPUT.match(text, start + len(text[start:end].rstrip()))
    if not name or opened is None:
        return (DraftCall("", name) if name else None), end
    begin = opened.end()
    try:  # a string in the JSON may look like a section
        _, stop = _DECODER.raw_decode(text, begin) if text.startswith("{", begin) else (None, begin)
    except (ValueError, RecursionError):
        stop = begin
    section = _SECTION.search(text, stop)
    end = section.start() if section else len(text)
    return _call_with_input(name, _without_fence(text[begin:end])), end


def _call_with_input(name: str, text: str) -> DraftCall:
    """Return a call with arguments from JSON; anything else is one plain text, typed later by the tool's schema."""
    if text.startswith("{"):
        arguments, problem = read_arguments(text)
        return DraftCall("", name, arguments, problem)
    return DraftCall("", name, {"input": text} if text else {}, untyped="text" if text else "")


def _call_from_object(text: str) -> DraftCall:
    table, problem = read_arguments(text)
    name = table.get("action", table.get("tool", table.get("name")))
    if problem or not isinstance(name, str):
        return DraftCall("", "", problem=problem or "malformed_call: the action names no tool")
    arguments = table.get("action_input", table.get("tool_input", table.get("arguments")))
    if isinstance(arguments, Mapping):
        return DraftCall("", name, {str(key): value for key, value in arguments.items()})
    return _call_with_input(name, text_of(arguments))


def _without_fence(text: str) -> str:
    text = text.strip()
    fenced = _FENCE.fullmatch(text) if text.startswith("```") and text.endswith("```") else None
    return (fenced[1] if fenced else text).strip()
