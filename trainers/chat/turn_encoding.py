"""A given turn as the ids that this policy would have sampled for it: the inverse of reading a sampled turn.

Each turn is rendered as the last one of an artificial dialogue, so that no template drops its thinking, and is read
again: a turn that does not read back as itself is refused. A turn without a thought gets the empty thought that the
template writes. A malformed call is written exactly as malformed as it was: the template renders another call in its
place, and the text of that call is then replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import ChatError, UnwritableTurn
from ...hints.transcript.parsing import Call, parse_turn, read_arguments
from .templates import ANSWER, ARGUMENT, QUESTION, TOOL, Message, Template, common_prefix, styled
from .tool_call_formats import Form, as_text, call_spans, written_calls

ReadTurn = Callable[[Sequence[int]], Mapping[str, Any]]
OPEN, CLOSE = "<think>", "</think>"
_WORD = "yes"


class TurnEncoder:
    """Encoder of turns under one template.

    ``opening`` is the generation prompt after a question, as text. ``read`` turns sampled ids into an action; ``form``
    is how it finds calls, None where the tokenizer's own parser does.
    """

    def __init__(self, template: Template, opening: str, read: ReadTurn, form: Form | None) -> None:
        self._template, self._read, self._form, self._opening = template, read, form, opening
        self._style = template.shape([ANSWER]).style
        question = template.rendered([QUESTION], generation=True)
        self._question = question[: len(question) - len(opening)]
        lead = self._answer_text({"role": "assistant", "content": _WORD}).partition(_WORD)[0]
        # Text that is neither generation prompt nor thought, such as a space, belongs to the words.
        self._lead = lead if CLOSE in lead.removeprefix(opening) or not lead.startswith(opening) else opening

    def ids(self, message: Message, opening: Sequence[int], *, exact: bool = True) -> list[int]:
        """Return the ids of an assistant's message (``as_message``), from the generation prompt to the end of turn.

        Unless ``exact``, the message was sampled: special tokens in its words are special tokens, even those of a call
        that was not read as one. Raises UnwritableTurn when no rendering reads back as the message.
        """
        for text in self._renderings(message, self._template.decode(opening), exact):
            ids = self._ids_to_end(text, opening)
            if ids and (_is_same(self._read(ids), message) or (not exact and self._holds_words(ids, message))):
                return ids
        raise UnwritableTurn("the chat template has no rendering that reads back as this turn; use another template")

    def empty_thought(self, opening: Sequence[int]) -> list[int]:
        """Return the ids between the generation prompt ``opening`` and a turn without a thought.

        They are the end of the thought that the prompt opens, or the empty thought that the template writes.
        """
        return self._template.encode(self._thought_text("", self._template.decode(opening), str))

    def _renderings(self, message: Message, opening: str, exact: bool) -> Iterator[str]:
        """Yield possible texts after the generation prompt: as sampled, as the template renders it, part by part.

        An exact turn, which is learned, is written as the template does, even where ``raw`` has another valid form.
        """
        write = self._template.protected if exact else self._template.protected_turn
        thought, words = split_thought(message["content"])
        before, end = self._thought_text(thought, opening, write), self._end(bool(message.get("tool_calls")))
        if not exact and (sampled := self._sampled_text(message, words)):
            yield before + write(sampled) + end
        calls, broken = self._calls(message)
        if broken and "raw" in message:
            return  # the sampled text is known, and no other text stands for it
        if self._form is None and broken:  # the tokenizer's parser takes the whole turn for the malformed call
            yield before + "".join(broken.values()) + end
        for render in (self._render_whole, self._render_parts):
            try:
                text = render(write(words), calls)
            except ChatError:
                continue
            yield from (before + rendering for rendering in self._with_broken(broken, text))

    def _sampled_text(self, message: Message, words: str) -> str:
        """Return the text sampled after the thought if it is known: ``raw``, or a call that is still in the words."""
        if "raw" in message:
            words = message["raw"].rpartition(CLOSE)[2].strip()
            return "" if OPEN in words else words
        is_call = self._form is not None and not message.get("tool_calls") and self._form.opening.match(words)
        return words if is_call else ""

    def _calls(self, message: Message) -> tuple[list[Message], dict[str, str]]:
        """Return calls that can be rendered, and the text of each malformed one by the argument of its stand-in."""
        calls, broken = [], {}
        for number, call in enumerate(message.get("tool_calls") or []):
            body = call["function"]
            if not isinstance(body["name"], str):
                raise UnwritableTurn("cannot encode a tool call without a name; leave the turn out")
            if read_arguments(body["arguments"])[1]:
                word = f"{_WORD}-7361-{number}"
                broken[word] = self._template.protected_turn(body["arguments"])
                body = {"name": body["name"] or TOOL, "arguments": {ARGUMENT: word}}
            calls.append(self._template.protected({**call, "function": body}))
        return calls, broken

    def _with_broken(self, broken: dict[str, str], text: str) -> Iterator[str]:
        """Yield a rendering with the malformed texts in place of the stand-ins: of whole calls, then of arguments."""
        if not broken:
            yield text
            return
        for find in (self._call_span, _arguments_span):
            written, all_found = text, True
            for word, malformed in reversed(broken.items()):
                start, end = find(written, word)
                written, all_found = written[:start] + malformed + written[end:], all_found and end > 0
            if all_found:
                yield written

    def _call_span(self, text: str, word: str) -> tuple[int, int]:
        """Return start and end of the call with this argument; (0, 0) when there is none."""
        spans = call_spans(text, self._form) if self._form else []
        return next(((start, end) for start, end in spans if word in text[start:end]), (0, 0))

    def _render_whole(self, words: str, calls: list[Message]) -> str:
        message: Message = {"role": "assistant", "content": words}
        text = self._answer_text({**message, "tool_calls": calls} if calls else message)
        return text[common_prefix(self._lead, text) :]

    def _render_parts(self, words: str, calls: list[Message]) -> str:
        """Render words and calls one by one, for templates that write one call per turn, or no words beside it."""
        end = self._end(bool(calls))
        parts = [words, *(self._render_whole("", [call]).rpartition(end)[0] for call in calls)]
        return "\n".join(filter(None, parts)) + end

    def _end(self, calls: bool) -> str:
        return self._template.decode([self._template.call_end if calls else self._template.end])

    def _thought_text(self, thought: str, opening: str, write: Callable[[str], str]) -> str:
        """Return the thinking without the part in the generation prompt; a thought that the prompt opens is closed."""
        opened = opening.rpartition(OPEN)[2] if opens_thought(opening) else None
        if not thought:
            if opened is None:
                return self._empty_thought_text(opening)
            return self._lead.removeprefix(opening) if self._lead.startswith(opening) else f"\n{CLOSE}\n\n"
        inner, closed, _ = thought.removeprefix(OPEN).partition(CLOSE)
        text = write(inner) + (f"{CLOSE}\n\n" if closed else "")
        return OPEN + text if opened is None else text.removeprefix(opened)

    def _empty_thought_text(self, opening: str) -> str:
        """Return the empty thought that the template writes after a generation prompt without one."""
        return self._lead.removeprefix(opening) if opening == self._opening and self._lead.startswith(opening) else ""

    def _answer_text(self, message: Message) -> str:
        """Return what the template writes for a turn that answers a question."""
        text = self._template.rendered([QUESTION, styled(message, self._style)])
        if not text.startswith(self._question):
            raise ChatError("the chat template renders a question differently once it is answered; use another one")
        return text[len(self._question) :]

    def _holds_words(self, ids: Sequence[int], message: Message) -> bool:
        """Return whether ids contain, character by character, a message that has words alone."""
        _, words = split_thought(message["content"])
        return bool(words) and not message.get("tool_calls") and words in self._template.decode(ids)

    def _ids_to_end(self, text: str, opening: Sequence[int]) -> list[int]:
        """Return the ids after the generation prompt up to the end of the turn; empty when the turn has no end."""
        template, size = self._template, len(opening)
        ids = template.encode(template.decode(opening) + text)
        ids = ids[size:] if ids[:size] == list(opening) else template.encode(text)
        ends = [place for place, token in enumerate(ids) if token in (template.end, template.call_end)]
        return ids[: ends[-1] + 1] if ends else []


def split_thought(text: str) -> tuple[str, str]:
    """Return thinking, tags included, and words.

    An empty thought is returned as ''; a thought that never closes is the whole text.
    """
    text = text.strip()
    if not text.startswith(OPEN):
        return "", text
    inner, closed, words = text.removeprefix(OPEN).partition(CLOSE)
    return (OPEN + inner + closed if inner.strip() else ""), words.strip()


def opens_thought(generation: str) -> bool:
    """Return whether a generation prompt opens a thought and leaves it open."""
    return OPEN in generation.rpartition(CLOSE)[2]


def _arguments_span(text: str, word: str) -> tuple[int, int]:
    """Return start and end of the object that holds this argument; (0, 0) when there is none."""
    place = text.find(word)
    start, end = text.rfind("{", 0, max(place, 0)), text.find("}", place) + 1
    return (start, end) if min(place, start) >= 0 else (0, 0)


def _is_same(action: Mapping[str, Any], message: Message) -> bool:
    """Return whether an action says and calls the same as a message, apart from white space."""
    both = (action, {"text": message["content"], "tool_calls": message.get("tool_calls")})
    read, expected = (parse_turn(action, 0) for action in both)
    parts = [
        [part.replace(OPEN, "").replace(CLOSE, "").strip() for part in split_thought(turn.text)]
        for turn in (read, expected)
    ]
    if parts[0] != parts[1] or len(read.calls) != len(expected.calls):
        return False
    arguments, expected_arguments = ([arguments for _, arguments in written_calls(action)] for action in both)
    return all(map(_is_same_call, read.calls, expected.calls, arguments, expected_arguments))


def _is_same_call(read: Call, expected: Call, arguments: Any, expected_arguments: Any) -> bool:
    """Compare what two calls do; of two malformed ones, whether the first contains the text of the second."""
    if not (read.problem and expected.problem):
        return (read.name, read.arguments, read.problem) == (expected.name, expected.arguments, expected.problem)
    return read.name == expected.name and as_text(expected_arguments).strip() in as_text(arguments)
