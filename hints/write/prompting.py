"""Prompts that ask a model for a hint, and the reader of its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ...models import ErrorTurn
from ..transcript.parsing import clean, text_of
from ..transcript.past_turns import PastCall, PastTurn
from ..transcript.tool_schemas import parameters_of
from .hint_text import make_hint

Source = Literal["llm", "introspect"]
SHOWN_TURNS = 6
_FORM = (
    'Answer with one JSON object and nothing else: {"hint": "..."}. At most two sentences and 300 characters. '
    "Say what to do, concretely: the tool, the argument, the path. Use only what is shown here. Do not solve the task, "
    "and write no code of its solution."
)
_ROLES: dict[Source, str] = {
    "llm": "You help a coding agent to learn. One of its turns went wrong. Write the hint that would have led to a "
    "better turn, had the agent read it {place}.",
    "introspect": "You are a coding agent, and one of your turns went wrong. Write the hint that you would have needed "
    "{place} to do better.",
}
_PLACES = {
    "erring": "just before that turn, when none of it had happened yet",
    "recovery": "just after that turn, whose failure could not be foreseen",
}


def ask(
    source: Source, error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], statement: str
) -> list[dict[str, str]]:
    """Return the messages that ask for a hint for one ErrorTurn; they show nothing after its turn."""
    before = turns[max(0, error.turn - SHOWN_TURNS) : error.turn]
    erring = turns[error.turn] if 0 <= error.turn < len(turns) else PastTurn("")
    which = "" if error.call_index is None else f" in call {error.call_index + 1} ({error.tool})"
    parts = {
        "task": _cut(statement, 6000),
        "tools": "\n".join(f"{name} {_cut(json.dumps(schema), 400)}" for name, schema in parameters_of(tools).items()),
        "turns_before": "\n\n".join(_turn(turn, 400) for turn in before) or "(none: it is the first turn)",
        "turn_that_went_wrong": _turn(erring, 2000),
        "what_went_wrong": f"{error.kind}{which}: {_cut(error.message, 600)}",
    }
    role = _ROLES[source].format(place=_PLACES[error.site])
    transcript = "\n\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in parts.items())
    return [{"role": "system", "content": f"{role} {_FORM}"}, {"role": "user", "content": transcript}]


def read_hint(message: Mapping[str, Any]) -> str | None:
    """Return the hint in a model's answer, cut to whole sentences; ``None`` when the answer holds no such object.

    A code fence or words around the object are allowed, and so are thoughts before it (up to ``</think>``).
    """
    text = text_of(message.get("content")).rpartition("</think>")[2]
    start = text.find("{")
    if start < 0:
        return None
    try:
        answer, _ = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    hint = answer.get("hint")
    if not isinstance(hint, str) or not hint.strip():
        return None
    return make_hint("", *re.split(r"(?<=[.!?])\s+", clean(hint).strip())).text


def texts_before(error: ErrorTurn, turns: Sequence[PastTurn]) -> list[str]:
    """Return the turns that the agent has written and read up to its error, with the results of that turn."""
    return [_turn(turn, None) for turn in turns[: error.turn + 1]]


def _turn(turn: PastTurn, longest: int | None) -> str:
    """Return a turn as text, each part cut to ``longest`` characters."""
    shown = [_cut(turn.text, longest)] if turn.text.strip() else []
    for call in turn.calls:
        shown += [
            f"-> {call.name or '(no name)'} {_cut(_arguments(call), longest)}",
            f"<- {_cut(_result(call), longest)}",
        ]
    return "\n".join([*shown, *(_cut(note, longest) for note in turn.notes)]) or "(nothing)"


def _arguments(call: PastCall) -> str:
    return call.problem or json.dumps(dict(call.arguments), ensure_ascii=False, default=str)


def _result(call: PastCall) -> str:
    return f"{call.status.line}\n{call.body}".strip() or "(no result)"


def _cut(text: str, longest: int | None) -> str:
    """Return head and tail of a text, with the number of missing characters between them."""
    if longest is None or len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}[... {len(text) - 2 * half} characters ...]{text[-half:]}"
