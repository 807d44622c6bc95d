"""ReAct text: ``Thought:``, ``Action:``, ``Action Input:``, ``Observation:``, in messages or in one long scratchpad.

An action is a name with its input on the next line (JSON or plain text), ``name[input]``, or a JSON object with
``action`` and ``action_input``. In a scratchpad a result that itself holds a line ``Thought:`` or ``Action:`` cannot be
told from the agent's own; in messages it can.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..transcript.parsing import read_arguments, text_of
from .drafts import Draft, DraftTurn, answer, flagged

_ACTION = re.compile(r"^[ \t]*\**Action(?: \d+)?:\**[ \t]*", re.MULTILINE)
_INPUT = re.compile(r"\s*^[ \t]*\**Action Input(?: \d+)?:\**[ \t]*", re.MULTILINE)
_SECTION = re.compile(r"^[ \t]*\**(?:Thought|Action|Action Input|Observation|Final Answer)(?: \d+)?:", re.MULTILINE)
_OBSERVATION = re.compile(r"^[ \t]*\**Observation(?: \d+)?:\**[ \t]?\n?", re.MULTILINE)
_NEXT = re.compile(r"^[ \t]*\**(?:Thought|Action|Final Answer)(?: \d+)?:", re.MULTILINE)
_BRACKETS = re.compile(r"([\w.-]+)\[(.*)\]", re.DOTALL)
_FENCE = re.compile(r"```\w*\n(.*)```", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)


def looks_like(text: str) -> bool:
    """Whether an assistant's text holds an action."""
    return next(_calls(text, 0), None) is not None


def read(messages: Sequence[Mapping[str, Any]]) -> list[DraftTurn]:
    """Turns with calls; each observation answers the next call. An observation that the model made up is dropped."""
    texts = [(message.get("role"), text_of(message.get("content")), message) for message in messages]
    marked = any(role == "user" and _OBSERVATION.match(text) for role, text, _ in texts)
    turns: list[DraftTurn] = []
    for number, (role, text, message) in enumerate(texts):
        if role == "assistant":
            text = text_of(message.get("text")) or text
            last = all(later != "assistant" for later, _, _ in texts[number + 1 :])
            alone = not turns and last and not any(later in ("tool", "user") for later, _, _ in texts[number + 1 :])
            if alone and _OBSERVATION.search(text):
                return [_scratchpad(text)]
            seen = _OBSERVATION.search(text)
            turns.append(DraftTurn(text, list(_calls(text[: seen.start()] if seen else text, len(turns)))))
        elif turns and role in ("tool", "user"):
            waits = any(call.content is None for call in turns[-1].calls)
            observed = _OBSERVATION.match(text)
            if turns[-1].calls and (observed or role == "tool" or (waits and not marked)):
                answer(turns, "", "", text[observed.end() :] if observed else text, flagged(message))
            else:
                turns[-1].notes.append(text)
    return turns


def _scratchpad(text: str) -> DraftTurn:
    """A whole trajectory in one text: one turn, whose calls are each followed by their observation."""
    turn = DraftTurn(text.strip("\n"))
    position = 0
    while seen := _OBSERVATION.search(text, position):
        after = _NEXT.search(text, seen.end())
        end = after.start() if after else len(text)
        new = list(_calls(text[position : seen.start()], 0))
        for number, call in enumerate(new, len(turn.calls)):
            call.id = f"call_0_{number}"
        if new:
            new[-1].content = text[seen.end() : end].rstrip("\n")
        turn.calls += new
        position = end
    turn.calls += _calls(text[position:], 0)
    return turn


def _calls(text: str, turn: int) -> Iterator[Draft]:
    position, index = 0, 0
    while found := _ACTION.search(text, position):
        draft, position = _action(text, found.end())
        if draft is not None:
            draft.id = f"call_{turn}_{index}"
            index += 1
            yield draft


def _action(text: str, start: int) -> tuple[Draft | None, int]:
    """The action whose description begins at ``start``, and where it ends."""
    following = _SECTION.search(text, start)
    end = following.start() if following else len(text)
    said = _unfenced(text[start:end])
    if said.startswith("{"):
        return _blob(said), end
    bracketed = _BRACKETS.fullmatch(said)
    if bracketed is not None:
        return _with_input(bracketed[1], bracketed[2]), end
    name = said.partition("\n")[0].strip("`* ")
    given = _INPUT.match(text, end) or _INPUT.match(text, start + len(text[start:end].rstrip()))
    if not name or given is None:
        return (Draft("", name) if name else None), end
    begin = given.end()
    try:  # what JSON holds may look like a section
        _, stop = _DECODER.raw_decode(text, begin) if text.startswith("{", begin) else (None, begin)
    except (ValueError, RecursionError):
        stop = begin
    section = _SECTION.search(text, stop)
    end = section.start() if section else len(text)
    return _with_input(name, _unfenced(text[begin:end])), end


def _with_input(name: str, said: str) -> Draft:
    """Arguments from JSON; anything else is one plain text, and ``settle`` finds out what it means."""
    if said.startswith("{"):
        arguments, problem = read_arguments(said)
        return Draft("", name, arguments, problem)
    return Draft("", name, {"input": said} if said else {}, loose="text" if said else "")


def _blob(said: str) -> Draft:
    table, problem = read_arguments(said)
    name = table.get("action", table.get("tool", table.get("name")))
    if problem or not isinstance(name, str):
        return Draft("", "", problem=problem or "malformed_call: the action names no tool")
    given = table.get("action_input", table.get("tool_input", table.get("arguments")))
    if isinstance(given, Mapping):
        return Draft("", name, {str(key): value for key, value in given.items()})
    return _with_input(name, text_of(given))


def _unfenced(said: str) -> str:
    said = said.strip()
    fenced = _FENCE.fullmatch(said) if said.startswith("```") and said.endswith("```") else None
    return (fenced[1] if fenced else said).strip()
