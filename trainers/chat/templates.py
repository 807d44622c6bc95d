"""A tokenizer's chat template, probed with short artificial dialogues: no real dialogue is ever rendered twice.

Templates render old turns differently (they drop thinking, trim, merge). So what follows a sampled turn is read from
an artificial dialogue: a question, an assistant's turn with calls of the same names and ids, and the real results. Two
such renderings that differ in the assistant's words end in the same ids; those from the end-of-turn token on are the
reply.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

from ...errors import ChatError
from .special_tokens import map_texts, protect, split_protected, token_pattern

Message = dict[str, Any]

TOOL = "look_up"
ARGUMENT = "query"
RESULT = "found 7361"
_PROPERTIES = {ARGUMENT: {"type": "string", "description": "What to look up."}}
_PARAMETERS = {"type": "object", "properties": _PROPERTIES, "required": [ARGUMENT]}
_FUNCTION = {"name": TOOL, "description": "Looks it up.", "parameters": _PARAMETERS}
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": _FUNCTION}]
QUESTION: Message = {"role": "user", "content": "Go on."}
ANSWER: Message = {"role": "tool", "tool_call_id": "call_0_0", "name": TOOL, "content": RESULT}
_WORDS = ("yes", "no")  # with different last letters, so that they do not end in a common token


class CallStyle(IntFlag):
    """The shape in which a template accepts tool calls."""

    ARGUMENTS_AS_TEXT = 1
    ONE_CALL = 2
    SHORT_IDS = 4


@dataclass(frozen=True)
class Shape:
    """The common part of all dialogues with one order of roles."""

    end: int
    """Id that ends an assistant's turn before these roles."""
    ends: int
    """Number of such ids before the one of the last assistant's turn."""
    generation: tuple[int, ...]
    """Ids of the generation prompt."""
    style: CallStyle


class Template:
    """Ids of messages; ``arguments`` go to every rendering.

    Raises ChatError for a template that cannot render tools, calls and results.
    """

    def __init__(self, tokenizer: Any, arguments: Mapping[str, Any]) -> None:
        _check(tokenizer)
        self.tokenizer = tokenizer
        self._arguments = dict(arguments)
        self._special_ids = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
        self._special_tokens = token_pattern(map(tokenizer.convert_ids_to_tokens, self._special_ids))
        self._shapes: dict[tuple[str, ...], Shape] = {}
        self._check_tools()
        self.end, self.call_end = self._ends()
        self._stops = token_pattern([*map(self.decode, ([self.end], [self.call_end])), tokenizer.eos_token])

    # --- rendering ----------------------------------------------------------------------------------------------

    def ids(self, messages: Sequence[Message], tools: Any = (), *, generation: bool = True) -> list[int]:
        """Return the ids of messages, with a generation prompt by default.

        The artificial dialogues have no tools: some templates repeat them in a later message. Raises ChatError with
        the template's own complaint.
        """
        protected = [self._protected_message(message, number) for number, message in enumerate(messages)]
        if protected == list(messages):
            return list(self._render(messages, tools, generation, tokenize=True))
        return self.encode(self._render(protected, map_texts(tools, protect), generation, tokenize=False))

    def encode(self, text: str) -> list[int]:
        """Return the ids of a rendered text; protected special tokens stay text."""
        return [
            token for piece in split_protected(text) for token in self.tokenizer.encode(piece, add_special_tokens=False)
        ]

    def protected(self, value: Any) -> Any:
        """Protect the special tokens in a text or JSON value, such as the end of turn that a file contains."""
        return map_texts(value, lambda text: protect(text, self._special_tokens))

    def protected_turn(self, text: str) -> str:
        """Protect only the tokens that would have ended a sampled turn; its other special tokens were sampled."""
        return protect(text, self._stops)

    def rendered(self, messages: Sequence[Message], *, generation: bool = False) -> str:
        """Return messages as text; they are protected or not, as given."""
        return str(self._render(messages, (), generation, tokenize=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Return ids as text, special tokens included."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def prompt(self, messages: Sequence[Message], tools: Any = ()) -> tuple[list[int], int]:
        """Return the ids of messages and a generation prompt, and the index where that prompt begins.

        The index is the end for a template without generation prompts.
        """
        with_prompt, without = self.ids(messages, tools), self.ids(messages, tools, generation=False)
        begin = common_prefix(with_prompt, without)
        if not self._special_ids.issuperset(without[begin:]):  # Phi closes a dialogue that asks for no turn
            raise ChatError("the chat template writes messages differently before a generation prompt; use another one")
        return with_prompt, begin

    def dialogue_with(self, answers: Sequence[Message]) -> list[Message]:
        """Return an artificial dialogue that ends in ``answers`` to an assistant's turn."""
        return self._dialogue(answers, _WORDS[0], self.shape(answers).style)

    def shape(self, answers: Sequence[Message]) -> Shape:
        """Return the shape of dialogues that end in messages of these roles; each is probed once.

        Raises ChatError when the template accepts no such dialogue.
        """
        key = tuple(str(message["role"]) for message in answers)
        if key not in self._shapes:
            self._shapes[key] = self._probe(answers)
        return self._shapes[key]

    def reply(self, answers: Sequence[Message]) -> tuple[list[int], Shape]:
        """Return the ids from the end of the answered turn (included) to the end of the next generation prompt."""
        shape = self.shape(answers)
        ids = self.ids(self._dialogue(answers, _WORDS[0], shape.style))
        if tuple(ids[len(ids) - len(shape.generation) :]) != shape.generation:
            raise ChatError("the chat template has more than one generation prompt; use another template")
        return ids[self.after_turn(ids, answers) - 1 :], shape

    def after_turn(self, ids: Sequence[int], answers: Sequence[Message]) -> int:
        """Return where the answered turn is over, in ids that begin with those of ``dialogue_with(answers)``."""
        shape = self.shape(answers)
        positions = [position for position, token in enumerate(ids) if token == shape.end]
        if len(positions) <= shape.ends:
            raise ChatError("the chat template does not close an assistant's turn before an answer; use another one")
        return positions[shape.ends] + 1

    def example_call(self) -> str:
        """Return an assistant's turn with one call of ``TOOL``, as the template writes it."""
        dialogue = self.dialogue_with([ANSWER])[:2]
        _, begin = self.prompt(dialogue[:1])
        return self.decode(self.ids(dialogue, generation=False)[begin:])

    def _protected_message(self, message: Message, number: int) -> Message:
        """Protect content, names, ids and calls; the first system message may use special tokens."""
        is_trainers = message["role"] == "system" and not number
        protected: Message = map_texts(message, protect) if is_trainers else self.protected(message)
        return protected

    # --- probes -------------------------------------------------------------------------------------------------

    def _render(self, messages: Sequence[Message], tools: Any, generation: bool, *, tokenize: bool) -> Any:
        try:
            return self.tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tools=list(tools) or None,
                add_generation_prompt=generation,
                tokenize=tokenize,
                return_dict=False,
                **self._arguments,
            )
        except Exception as error:  # a template is code from any author
            complaint = " ".join(str(error).split()) or type(error).__name__
            raise ChatError(f"the chat template refuses these messages: {complaint[:200]}") from error

    def _dialogue(self, answers: Sequence[Message], word: str, style: CallStyle) -> list[Message]:
        """Return a question, an assistant's turn that says or calls with ``word``, and the answers."""
        calls = []
        for message in filter(_is_tool, answers):
            function = {"name": message.get("name", "unknown"), "arguments": {ARGUMENT: word}}
            calls.append({"id": message.get("tool_call_id", ""), "type": "function", "function": function})
        if not calls:
            return [QUESTION, {"role": "assistant", "content": word}, *answers]
        calls = calls[-1:] if CallStyle.ONE_CALL in style else calls
        turn: Message = {"role": "assistant", "content": "", "tool_calls": calls}
        return [QUESTION, *(styled(message, style) for message in (turn, *answers))]

    def _styles(self, answers: Sequence[Message]) -> Iterator[CallStyle]:
        """Yield the styles in which the template renders a dialogue; the others raise, or lose the call's words."""
        usual_ids = [{**message, "tool_call_id": "call_0_0"} if _is_tool(message) else message for message in answers]
        for number in range(8):
            try:
                text = self._render(self._dialogue(usual_ids, "omega", CallStyle(number)), (), True, tokenize=False)
            except ChatError:
                if number == 7:
                    raise
                continue
            if "omega" in text:
                yield CallStyle(number)

    def _probe(self, answers: Sequence[Message]) -> Shape:
        style = next(self._styles(answers), None)
        if style is None:
            raise ChatError("the chat template leaves out an assistant's words or calls; use one that renders them")
        end = self.call_end if any(map(_is_tool, answers)) else self.end
        yes, no = (self._dialogue(answers, word, style) for word in _WORDS)
        ids, begin = self.prompt(yes)
        after = len(ids) - common_suffix(ids, self.ids(no))
        if end not in ids[after:]:
            raise ChatError("the chat template does not close an assistant's turn before an answer; use another one")
        return Shape(end, ids[:after].count(end), tuple(ids[begin:]), style)

    def _ends(self) -> tuple[int, int]:
        """Return the ids that end a turn of words and a turn of calls."""
        yes, no = (self.ids([QUESTION, {"role": "assistant", "content": w}], generation=False) for w in _WORDS)
        shared = common_suffix(yes, no)
        style = next(self._styles([ANSWER]))
        calls = self.ids(self._dialogue([ANSWER], _WORDS[0], style)[:2], generation=False)
        both = common_suffix(yes, calls)
        if not shared or yes[-shared] not in self._special_ids:
            raise ChatError("the chat template does not end turns with a special token; use one that does")
        if both:
            return yes[-shared], calls[-both]
        return yes[-shared], next(token for token in reversed(calls) if token in self._special_ids)

    def _check_tools(self) -> None:
        remedy = "use a template for tools (transformers and TRL ship some) or another model"
        if TOOL not in self._render([QUESTION], TOOLS, True, tokenize=False):
            raise ChatError(f"the chat template does not render tools; {remedy}")
        try:
            rendered = any(
                RESULT in self._render(self._dialogue([ANSWER], _WORDS[0], style), (), True, tokenize=False)
                for style in self._styles([ANSWER])
            )
        except ChatError:
            rendered = False
        if not rendered:
            raise ChatError(f"the chat template does not render tool calls and their results; {remedy}")


def common_prefix(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many first items are equal."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def common_suffix(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many last items are equal."""
    return common_prefix(one[::-1], other[::-1])


def answers_of(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the environment's messages as templates take them: without empty names and ids."""
    return [{key: value for key, value in message.items() if value or key == "content"} for message in messages]


def styled(message: Message, style: CallStyle) -> Message:
    """Return a message with its calls and ids in a template's style. Raises ChatError for calls that it cannot have."""
    calls = message.get("tool_calls") or []
    if CallStyle.ONE_CALL in style and len(calls) > 1:
        raise ChatError("the chat template writes one call per turn; use a template for several")
    message = dict(message)
    if CallStyle.SHORT_IDS in style and _is_tool(message):
        message["tool_call_id"] = _short_id(message.get("tool_call_id", ""))
    if calls:
        message["tool_calls"] = [_styled_call(call, style) for call in calls]
    return message


def _styled_call(call: Message, style: CallStyle) -> Message:
    function = dict(call["function"])
    if CallStyle.ARGUMENTS_AS_TEXT in style and not isinstance(function["arguments"], str):
        function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "id": _short_id(call["id"]) if CallStyle.SHORT_IDS in style else call["id"], "function": function}


def _short_id(call_id: str) -> str:
    """Return nine letters and digits, the form of an id that Mistral's templates require."""
    return "".join(filter(str.isalnum, call_id))[-9:].zfill(9)


def _check(tokenizer: Any) -> None:
    if hasattr(tokenizer, "image_processor") or hasattr(tokenizer, "tokenizer"):
        raise ChatError("this is a processor of images or sound; give the tokenizer of a text-only model")
    if not getattr(tokenizer, "chat_template", None):
        raise ChatError("this tokenizer has no chat template; use an instruct model, or set tokenizer.chat_template")


def _is_tool(message: Mapping[str, Any]) -> bool:
    return message["role"] == "tool"
