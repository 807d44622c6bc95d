"""A turn that anybody made, as the ids that this policy would have sampled for it: the inverse of reading a turn.

Each turn is written as the last one of a dialogue made up for it, so that no template drops its thinking, and is read
again: what does not read back as the same turn is not written at all. A turn without a thought has the empty one that
the template writes for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..hints.parsing import parse_turn
from .templates import ANSWER, QUESTION, ChatError, Message, Template, short_id

Read = Callable[[Sequence[int]], Mapping[str, Any]]
OPEN, CLOSE = "<think>", "</think>"
_WORD = "yes"


class Turns:
    """``opening`` is the generation prompt after a question, as text; ``read`` makes an action of sampled ids, and only
    ``ids`` uses it."""

    def __init__(self, template: Template, opening: str, read: Read) -> None:
        self._template, self._read, self._opening = template, read, opening
        self._style = template.shape([ANSWER]).style
        asked = template.rendered([QUESTION], generation=True)
        self._before = asked[: len(asked) - len(opening)]
        lead = self._answered({"role": "assistant", "content": _WORD}).partition(_WORD)[0]
        # What is neither of the generation prompt nor of a thought, such as a space, belongs to the words.
        self._lead = lead if CLOSE in lead.removeprefix(opening) or not lead.startswith(opening) else opening

    def ids(self, message: Message, opening: Sequence[int], *, exact: bool = True) -> list[int]:
        """After the generation prompt ``opening``, to the end of the turn. ``message`` is an assistant's, with plain
        calls. Raises ChatError when no writing reads back as it; unless ``exact``, only when there is none at all.
        """
        for text in self._written(message, self._template.text(opening)):
            ids = self._ended(text, opening)
            if ids and (not exact or _same(self._read(ids), message)):
                return ids
        raise ChatError("the chat template writes no turn that reads back as this one: use another one")

    def lead(self, opening: Sequence[int]) -> list[int]:
        """What stands between the generation prompt ``opening`` and a turn that says and calls without a thought: the
        end of the thought that it opens, or the empty one that the template writes."""
        return self._template.encoded(self._thought("", self._template.text(opening)))

    def said(self, message: Message, before: Sequence[int]) -> list[int]:
        """The ids of a message's words and calls alone, to the end of the turn, as the template writes them after the
        ids ``before``. Raises ChatError."""
        _, said = parted(message["content"])
        calls = self._template.guarded(message.get("tool_calls") or [])
        ids = self._ended(self._whole(self._template.guarded(said), calls), before)
        if not ids:
            raise ChatError("the chat template does not end an assistant's turn: use another one")
        return ids

    def _written(self, message: Message, opening: str) -> Iterator[str]:
        """What may stand after the generation prompt: the template's own writing, then its writing of each part."""
        thought, said = parted(message["content"])
        said, calls = self._template.guarded(said), self._template.guarded(message.get("tool_calls") or [])
        for body in (self._whole, self._parts):
            try:
                yield self._thought(thought, opening) + body(said, calls)
            except ChatError:
                continue

    def _whole(self, said: str, calls: list[Message]) -> str:
        message: Message = {"role": "assistant", "content": said}
        text = self._answered({**message, "tool_calls": calls} if calls else message)
        same = next((n for n, (a, b) in enumerate(zip(self._lead, text, strict=False)) if a != b), len(self._lead))
        return text[same:]

    def _parts(self, said: str, calls: list[Message]) -> str:
        """For templates that write one call a turn, or no words beside it."""
        end = self._template.text([self._template.call_end if calls else self._template.end])
        return "\n".join(filter(None, [said, *(self._whole("", [call]).rpartition(end)[0] for call in calls)])) + end

    def _thought(self, thought: str, opening: str) -> str:
        """The thinking, less what the generation prompt has of it; a thought that it opens is closed."""
        opened = opening.rpartition(OPEN)[2] if opens_thought(opening) else None
        if not thought:
            if opened is None:
                return self._empty(opening)
            return self._lead.removeprefix(opening) if self._lead.startswith(opening) else f"\n{CLOSE}\n\n"
        inner, closed, _ = thought.removeprefix(OPEN).partition(CLOSE)
        text = self._template.guarded(inner) + (f"{CLOSE}\n\n" if closed else "")
        return OPEN + text if opened is None else text.removeprefix(opened)

    def _empty(self, opening: str) -> str:
        """The empty thought that the template writes behind a generation prompt that has none."""
        return self._lead.removeprefix(opening) if opening == self._opening and self._lead.startswith(opening) else ""

    def _answered(self, message: Message) -> str:
        """What the template writes for a turn that answers a question."""
        text = self._template.rendered([QUESTION, styled(message, self._style)])
        if not text.startswith(self._before):
            raise ChatError("the chat template writes a question anew when it is answered: use another one")
        return text[len(self._before) :]

    def _ended(self, text: str, opening: Sequence[int]) -> list[int]:
        """Ids up to the end of the turn, as they follow the generation prompt; none when it has no end."""
        template, size = self._template, len(opening)
        ids = template.encoded(template.text(opening) + text)
        ids = ids[size:] if ids[:size] == list(opening) else template.encoded(text)
        ends = [place for place, each in enumerate(ids) if each in (template.end, template.call_end)]
        return ids[: ends[-1] + 1] if ends else []


def styled(message: Message, style: int) -> Message:
    """A message as the template takes calls; see ``Template.shape`` for the bits. Raises ChatError."""
    calls = message.get("tool_calls") or []
    if style & 2 and len(calls) > 1:
        raise ChatError("the chat template writes one call a turn: use a template for several")
    message = dict(message)
    if style & 4 and message.get("tool_call_id"):
        message["tool_call_id"] = short_id(message["tool_call_id"])
    if calls:
        message["tool_calls"] = [_styled_call(call, style) for call in calls]
    return message


def _styled_call(call: Message, style: int) -> Message:
    body = dict(call["function"])
    if style & 1 and not isinstance(body["arguments"], str):
        body["arguments"] = json.dumps(body["arguments"], ensure_ascii=False)
    return {**call, "id": short_id(call["id"]) if style & 4 else call["id"], "function": body}


def parted(text: str) -> tuple[str, str]:
    """Thinking, tags and all, and words. A thought that is empty is none; one that never closes is all there is."""
    text = text.strip()
    if not text.startswith(OPEN):
        return "", text
    inner, closed, said = text.removeprefix(OPEN).partition(CLOSE)
    return (OPEN + inner + closed if inner.strip() else ""), said.strip()


def opens_thought(generation: str) -> bool:
    """Whether a generation prompt opens a thought and leaves it open."""
    return OPEN in generation.rpartition(CLOSE)[2]


def _same(action: Mapping[str, Any], message: Message) -> bool:
    """Whether they say and call the same, whatever spaces stand between."""
    read, made = parse_turn(action, 0), parse_turn({"text": message["content"], **message}, 0)
    words = [[part.replace(OPEN, "").replace(CLOSE, "").strip() for part in parted(t.text)] for t in (read, made)]
    calls = [[(call.name, call.arguments, bool(call.problem)) for call in turn.calls] for turn in (read, made)]
    return words[0] == words[1] and calls[0] == calls[1]
