"""A policy behind its tokenizer's chat template: messages as ids, sampled ids as actions, hints as ids to insert.

It implements ``rollouts.Chat``. The tokenizer is any that has ``apply_chat_template``; nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ...errors import ChatError
from ..distillation.distill_sites import Insertion
from ..rollouts.rollout import Rollout, Sample, Written
from .hint_insertion import Insertions
from .templates import ANSWER, ARGUMENT, QUESTION, TOOL, Template, answers_of
from .tool_call_formats import FUNCTION, Call, calls_in, form_of, texts_of, typed
from .turn_encoding import Turns, opens_thought

__all__ = ["ChatError", "Sampler", "TemplateChat"]


Sampler = Callable[[Sequence[int], int], Awaitable[Sample]]
"""A turn of at most so many ids after these; ``Batcher.sample`` is one. ``TemplateChat.stops`` are where it stops."""


class TemplateChat:
    """``arguments`` go to the template, for example ``{"enable_thinking": False}``.

    Raises ChatError, in one line, for a tokenizer without a template, a template without tools, a processor of images.
    """

    def __init__(self, tokenizer: Any, sampler: Sampler, *, arguments: Mapping[str, Any] | None = None) -> None:
        self._template = Template(tokenizer, arguments or {})
        self._sampler = sampler
        self._tokenizer = tokenizer
        eos = tokenizer.eos_token_id
        self.stops = frozenset({self._template.end, self._template.call_end, *([] if eos is None else [eos])})
        self._form = form_of(self._unended(self._template.written_call()), TOOL, {ARGUMENT: "yes"})
        self._parser = getattr(tokenizer, "response_template", None)
        if self._form is None and self._parser is None:
            raise ChatError("the template's tool calls are in a form not known here: set tokenizer.response_template")
        asked, begin = self._template.split([QUESTION])
        self._opening = self._template.text(asked[begin:])
        later = self._template.text(self._template.shape([ANSWER]).generation)
        self._opened = [opens_thought(text) for text in (self._opening, later)]
        self._texts: set[tuple[str, str]] = set()
        self._hints = Insertions(self._template)

    # --- rollouts.Chat ------------------------------------------------------------------------------------------

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written:
        """The first ids of an episode. Raises ChatError when the template refuses the messages."""
        self._texts |= texts_of(tools)
        return Written(*self._template.split([dict(message) for message in messages], tools))

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        sample = await self._sampler(ids, room)
        ended = bool(sample.ids) and sample.ids[-1] in self.stops
        return replace(sample, cut=not ended and len(sample.ids) >= room)

    def reply(self, ids: Sequence[int], messages: Sequence[Mapping[str, Any]]) -> Written:
        """What the template writes after the sampled ``ids``; their end-of-turn id only when they lack it."""
        written, shape = self._template.reply(answers_of(messages))
        last = ids[-1] if ids else None
        ended = last == shape.end or (shape.end == self._template.end and last == self._tokenizer.eos_token_id)
        written = written[1:] if ended else written
        return Written(written, len(written) - len(shape.generation))

    def action(self, ids: Sequence[int]) -> dict[str, Any]:
        """``text``, thinking included, and ``tool_calls`` as the model wrote them; broken JSON as it is."""
        kept = list(ids)
        while kept and kept[-1] in self.stops:
            kept.pop()
        thought, said = self._thought(self._template.text(kept))
        text, calls = calls_in(said, self._form) if self._form else self._parsed(said, ids)
        if FUNCTION in said:
            calls = [typed(call, self._texts) for call in calls]
        action: dict[str, Any] = {"text": (thought + text).strip()}
        return {**action, "tool_calls": calls} if calls else action

    def turn(self, message: Mapping[str, Any], opening: Sequence[int], *, exact: bool = True) -> list[int]:
        """``action`` the other way: an assistant's message as ids to follow the generation prompt ``opening``.

        Raises ChatError when no ids read back as the message. Unless ``exact``, they stand for what was sampled.
        """
        return self.turns.ids(dict(message), opening, exact=exact)

    # --- hints --------------------------------------------------------------------------------------------------

    def hint(self, text: str, first: bool) -> Insertion:
        """A hint before the first turn, or after a tool's result, whatever the message says that it follows.

        ``tail(first)`` are the ids that must stand before the generation prompt. Raises ChatError when the template
        has no place for the text. ``insert_for`` knows the messages and checks itself.
        """
        return self._hints.anywhere(text, first)

    def tail(self, first: bool) -> list[int]:
        """The ids that end a prompt's last message, or a tool's result."""
        return self._hints.tail(first)

    def insert_for(self, rollout: Rollout, turn: int, text: str) -> Insertion | None:
        """A hint before turn ``turn``; None when the ids there are not those that this template writes."""
        return self._hints.before(rollout, turn, text)

    # --- inside -------------------------------------------------------------------------------------------------

    @cached_property
    def turns(self) -> Turns:
        return Turns(self._template, self._opening, self.action, self._form)

    def _unended(self, written: str) -> str:
        for stop in self.stops:
            written = written.partition(self._template.text([stop]))[0]
        return written

    def _thought(self, text: str) -> tuple[str, str]:
        """The thinking between its tags, and the rest. A thought that never closes is all there is."""
        opened = text.lstrip().startswith("<think>")
        if not text or (not opened and not any(self._opened)):
            return "", text
        thought, closed, said = text.partition("</think>")
        if not closed and not opened and not all(self._opened):
            return "", text
        return ("" if opened else "<think>\n") + thought + closed, said

    def _parsed(self, said: str, ids: Sequence[int]) -> tuple[str, list[Call]]:
        """The tokenizer's own parser; what it cannot read is one malformed call."""
        try:
            found = self._tokenizer.parse_response(self._template.text(ids), prefix=self._opening)
            calls = [call["function"] for call in found.get("tool_calls") or []]
        except Exception:  # noqa: BLE001 - whatever it stumbles over, the model wrote it
            return "", [{"name": "", "arguments": said}]
        return (str(found.get("content") or "") if calls else said), calls
