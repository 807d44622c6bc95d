"""A turn that anybody made, as the ids that this policy would have sampled for it: the inverse of reading a turn.

Each turn is written as the last one of a dialogue made up for it, so that no template drops its thinking, and is read
again: what does not read back as the same turn is not written at all. A turn without a thought has the empty one that
the template writes for it. A call that could not be read is written as it was broken: the template writes another call
in its place, whose text is then replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import ChatError, UnwritableTurn
from ...hints.transcript.parsing import Call, parse_turn, read_arguments
from .templates import ANSWER, ARGUMENT, QUESTION, TOOL, Message, Template, short_id
from .tool_call_formats import Form, as_text, bodies, given

Read = Callable[[Sequence[int]], Mapping[str, Any]]
OPEN, CLOSE = "<think>", "</think>"
_WORD = "yes"


class Turns:
    """``opening`` is the generation prompt after a question, as text; ``read`` makes an action of sampled ids, ``form``
    is how it finds calls, None where the tokenizer's own parser does."""

    def __init__(self, template: Template, opening: str, read: Read, form: Form | None) -> None:
        self._template, self._read, self._form, self._opening = template, read, form, opening
        self._style = template.shape([ANSWER]).style
        asked = template.rendered([QUESTION], generation=True)
        self._before = asked[: len(asked) - len(opening)]
        lead = self._answered({"role": "assistant", "content": _WORD}).partition(_WORD)[0]
        # What is neither of the generation prompt nor of a thought, such as a space, belongs to the words.
        self._lead = lead if CLOSE in lead.removeprefix(opening) or not lead.startswith(opening) else opening

    def ids(self, message: Message, opening: Sequence[int], *, exact: bool = True) -> list[int]:
        """After the generation prompt ``opening``, to the end of the turn. ``message`` is an assistant's, see
        ``as_message``. Unless ``exact``, it was sampled: what its words hold are marks, be it a call that nobody read.
        Raises UnwritableTurn when no writing reads back as it.
        """
        for text in self._written(message, self._template.text(opening), exact):
            ids = self._ended(text, opening)
            if ids and (_same(self._read(ids), message) or (not exact and self._is_said(ids, message))):
                return ids
        raise UnwritableTurn("the chat template writes no turn that reads back as this one: use another one")

    def lead(self, opening: Sequence[int]) -> list[int]:
        """What stands between the generation prompt ``opening`` and a turn that says and calls without a thought: the
        end of the thought that it opens, or the empty one that the template writes."""
        return self._template.encoded(self._thought("", self._template.text(opening), str))

    def _written(self, message: Message, opening: str, exact: bool) -> Iterator[str]:
        """What may stand after the generation prompt: what was sampled, the template's writing, that of each part. What
        is learned is written as the template does, even where ``raw`` has another form that would be read."""
        write = self._template.guarded if exact else self._template.sampled
        thought, said = parted(message["content"])
        before, end = self._thought(thought, opening, write), self._end(bool(message.get("tool_calls")))
        if not exact and (spoken := self._spoken(message, said)):
            yield before + write(spoken) + end
        calls, broken = self._calls(message)
        if broken and "raw" in message:
            return  # what was written is known: that or nothing
        if self._form is None and broken:  # the tokenizer's parser takes the whole turn for the broken call
            yield before + "".join(broken.values()) + end
        for body in (self._whole, self._parts):
            try:
                text = body(write(said), calls)
            except ChatError:
                continue
            yield from (before + each for each in self._with(broken, text))

    def _spoken(self, message: Message, said: str) -> str:
        """What was sampled after the thought, where that is known: ``raw``, or a call left in the words."""
        if "raw" in message:
            said = message["raw"].rpartition(CLOSE)[2].strip()
            return "" if OPEN in said else said
        is_call = self._form is not None and not message.get("tool_calls") and self._form.opening.match(said)
        return said if is_call else ""

    def _calls(self, message: Message) -> tuple[list[Message], dict[str, str]]:
        """The calls as they can be read, and the text of each that cannot, by the argument of the one in its place."""
        calls, broken = [], {}
        for number, call in enumerate(message.get("tool_calls") or []):
            body = call["function"]
            if not isinstance(body["name"], str):
                raise UnwritableTurn("nobody knows how a call without a name was written")
            if read_arguments(body["arguments"])[1]:
                word = f"{_WORD}-7361-{number}"
                broken[word] = self._template.sampled(body["arguments"])
                body = {"name": body["name"] or TOOL, "arguments": {ARGUMENT: word}}
            calls.append(self._template.guarded({**call, "function": body}))
        return calls, broken

    def _with(self, broken: dict[str, str], text: str) -> Iterator[str]:
        """What a template wrote, with each broken call's text in its place: that of all of a call, or its arguments."""
        if not broken:
            yield text
            return
        for place in (self._call, _arguments):
            written, found = text, True
            for word, said in reversed(broken.items()):
                start, end = place(written, word)
                written, found = written[:start] + said + written[end:], found and end > 0
            if found:
                yield written

    def _call(self, text: str, word: str) -> tuple[int, int]:
        """Where the call with this argument stands, without its marks; (0, 0) where it is not found."""
        found = bodies(text, self._form) if self._form else []
        return next(((start, end) for start, end in found if word in text[start:end]), (0, 0))

    def _whole(self, said: str, calls: list[Message]) -> str:
        message: Message = {"role": "assistant", "content": said}
        text = self._answered({**message, "tool_calls": calls} if calls else message)
        same = next((n for n, (a, b) in enumerate(zip(self._lead, text, strict=False)) if a != b), len(self._lead))
        return text[same:]

    def _parts(self, said: str, calls: list[Message]) -> str:
        """For templates that write one call a turn, or no words beside it."""
        end = self._end(bool(calls))
        return "\n".join(filter(None, [said, *(self._whole("", [call]).rpartition(end)[0] for call in calls)])) + end

    def _end(self, calls: bool) -> str:
        return self._template.text([self._template.call_end if calls else self._template.end])

    def _thought(self, thought: str, opening: str, write: Callable[[str], str]) -> str:
        """The thinking, less what the generation prompt has of it; a thought that it opens is closed."""
        opened = opening.rpartition(OPEN)[2] if opens_thought(opening) else None
        if not thought:
            if opened is None:
                return self._empty(opening)
            return self._lead.removeprefix(opening) if self._lead.startswith(opening) else f"\n{CLOSE}\n\n"
        inner, closed, _ = thought.removeprefix(OPEN).partition(CLOSE)
        text = write(inner) + (f"{CLOSE}\n\n" if closed else "")
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

    def _is_said(self, ids: Sequence[int], message: Message) -> bool:
        """Whether ids hold a message of words alone, letter by letter."""
        _, said = parted(message["content"])
        return bool(said) and not message.get("tool_calls") and said in self._template.text(ids)

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


def _arguments(text: str, word: str) -> tuple[int, int]:
    """Where the object that holds this argument stands; (0, 0) where it is not found."""
    place = text.find(word)
    start, end = text.rfind("{", 0, max(place, 0)), text.find("}", place) + 1
    return (start, end) if min(place, start) >= 0 else (0, 0)


def _same(action: Mapping[str, Any], message: Message) -> bool:
    """Whether they say and call the same, whatever spaces stand between."""
    both = (action, {"text": message["content"], "tool_calls": message.get("tool_calls")})
    read, made = (parse_turn(each, 0) for each in both)
    words = [[part.replace(OPEN, "").replace(CLOSE, "").strip() for part in parted(t.text)] for t in (read, made)]
    if words[0] != words[1] or len(read.calls) != len(made.calls):
        return False
    wrote, meant = ([arguments for _, arguments in given(each)] for each in both)
    return all(map(_same_call, read.calls, made.calls, wrote, meant))


def _same_call(read: Call, made: Call, wrote: Any, meant: Any) -> bool:
    """Of two broken calls, whether the one holds what the other is; else what they do."""
    if not (read.problem and made.problem):
        return (read.name, read.arguments, read.problem) == (made.name, made.arguments, made.problem)
    return read.name == made.name and as_text(meant).strip() in as_text(wrote)
