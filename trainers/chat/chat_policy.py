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
from .hint_insertion import HintInserter
from .templates import ANSWER, ARGUMENT, QUESTION, TOOL, Template, answers_of
from .tool_call_formats import FUNCTION, Call, extract_calls, recognise_form, text_arguments, with_typed_arguments
from .turn_encoding import TurnEncoder, opens_thought

Sampler = Callable[[Sequence[int], int], Awaitable[Sample]]
"""``sampler(ids, room)`` samples a turn of at most ``room`` ids after ``ids``, up to one of ``TemplateChat.stops``."""


async def never_samples(ids: Sequence[int], room: int) -> Sample:
    """Refuse to sample: the sampler of a chat that only reads and writes ids."""
    raise AssertionError("this chat only reads and writes ids")


class TemplateChat:
    """Chat of one tokenizer; ``arguments`` go to its template, for example ``{"enable_thinking": False}``.

    Raises ChatError for a tokenizer without a template, a template without tools, or an image processor.
    """

    def __init__(self, tokenizer: Any, sampler: Sampler, *, arguments: Mapping[str, Any] | None = None) -> None:
        self._template = Template(tokenizer, arguments or {})
        self._sampler = sampler
        self._tokenizer = tokenizer
        eos = tokenizer.eos_token_id
        self.stops = frozenset({self._template.end, self._template.call_end, *([] if eos is None else [eos])})
        self._form = recognise_form(self._before_stop(self._template.example_call()), TOOL, {ARGUMENT: "yes"})
        self._parser = getattr(tokenizer, "response_template", None)
        if self._form is None and self._parser is None:
            raise ChatError("the template writes tool calls in an unknown format; set tokenizer.response_template")
        ids, begin = self._template.prompt([QUESTION])
        self._opening = self._template.decode(ids[begin:])
        later = self._template.decode(self._template.shape([ANSWER]).generation)
        self._opens_thought = [opens_thought(text) for text in (self._opening, later)]
        self._texts: set[tuple[str, str]] = set()
        self._hints = HintInserter(self._template)

    # --- rollouts.Chat ------------------------------------------------------------------------------------------

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written:
        """Return the first ids of an episode. Raises ChatError when the template refuses the messages."""
        self._texts |= text_arguments(tools)
        return Written(*self._template.prompt([dict(message) for message in messages], tools))

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        """Sample a turn of at most ``room`` ids; ``cut`` says that it was cut at that limit."""
        sample = await self._sampler(ids, room)
        ended = bool(sample.ids) and sample.ids[-1] in self.stops
        return replace(sample, cut=not ended and len(sample.ids) >= room)

    def reply(self, ids: Sequence[int], messages: Sequence[Mapping[str, Any]]) -> Written:
        """Return what the template writes after the sampled ``ids``; their end-of-turn id only when they lack it."""
        written, shape = self._template.reply(answers_of(messages))
        last = ids[-1] if ids else None
        ended = last == shape.end or (shape.end == self._template.end and last == self._tokenizer.eos_token_id)
        written = written[1:] if ended else written
        return Written(written, len(written) - len(shape.generation))

    def action(self, ids: Sequence[int]) -> dict[str, Any]:
        """Return ``text``, thinking included, and ``tool_calls`` as the model wrote them, broken JSON unchanged."""
        turn = list(ids)
        while turn and turn[-1] in self.stops:
            turn.pop()
        thought, words = self._split_thought(self._template.decode(turn))
        text, calls = extract_calls(words, self._form) if self._form else self._parsed(words, ids)
        if FUNCTION in words:
            calls = [with_typed_arguments(call, self._texts) for call in calls]
        action: dict[str, Any] = {"text": (thought + text).strip()}
        return {**action, "tool_calls": calls} if calls else action

    def turn(self, message: Mapping[str, Any], opening: Sequence[int], *, exact: bool = True) -> list[int]:
        """Invert ``action``: return an assistant's message as ids that follow the generation prompt ``opening``.

        Raises ChatError when no ids read back as the message. Unless ``exact``, the ids stand for a sampled turn.
        """
        return self.turn_encoder.ids(dict(message), opening, exact=exact)

    # --- hints --------------------------------------------------------------------------------------------------

    def hint(self, text: str, first: bool) -> Insertion:
        """Insert a hint before the first turn, or after a tool's result, whatever message it follows.

        The ids before the generation prompt must end with ``tail(first)``; ``insert_for`` knows the messages and checks
        this itself. Raises ChatError when the template has no place for the text.
        """
        return self._hints.anywhere(text, first)

    def tail(self, first: bool) -> list[int]:
        """Return the ids that end a prompt's last message, or a tool's result."""
        return self._hints.tail(first)

    def insert_for(self, rollout: Rollout, turn: int, text: str) -> Insertion | None:
        """Insert a hint before turn ``turn``; None when the ids there are not those that this template writes."""
        return self._hints.before(rollout, turn, text)

    # --- internals ----------------------------------------------------------------------------------------------

    @cached_property
    def turn_encoder(self) -> TurnEncoder:
        """Return the encoder of given turns, which checks each turn with ``action``."""
        return TurnEncoder(self._template, self._opening, self.action, self._form)

    def _before_stop(self, written: str) -> str:
        for stop in self.stops:
            written = written.partition(self._template.decode([stop]))[0]
        return written

    def _split_thought(self, text: str) -> tuple[str, str]:
        """Return the thinking with its tags, and the rest. A thought that never closes is the whole text."""
        opened = text.lstrip().startswith("<think>")
        if not text or (not opened and not any(self._opens_thought)):
            return "", text
        thought, closed, words = text.partition("</think>")
        if not closed and not opened and not all(self._opens_thought):
            return "", text
        return ("" if opened else "<think>\n") + thought + closed, words

    def _parsed(self, words: str, ids: Sequence[int]) -> tuple[str, list[Call]]:
        """Read calls with the tokenizer's own parser; what it cannot read becomes one malformed call."""
        try:
            response = self._tokenizer.parse_response(self._template.decode(ids), prefix=self._opening)
            calls = [call["function"] for call in response.get("tool_calls") or []]
        except Exception:  # noqa: BLE001 - the parser is code from any author, and reads what a model wrote
            return "", [{"name": "", "arguments": words}]
        return (str(response.get("content") or "") if calls else words), calls
