"""A tokenizer's chat template, asked with short dialogues of our own: no real dialogue is ever rendered twice.

Templates render old turns anew (they drop thinking, trim, merge), so what follows a sampled turn is read off a dialogue
made up for it: a question, an assistant's turn with calls of the same names and ids, and the real results. Two such
renderings that differ in the assistant's words end in the same ids; those from its end-of-turn token on are the reply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ChatError
from .special_tokens import any_of, changed, kept_apart, pieces

Message = dict[str, Any]

TOOL = "look_up"
ARGUMENT = "query"
RESULT = "found 7361"
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": TOOL,
            "description": "Looks it up.",
            "parameters": {
                "type": "object",
                "properties": {ARGUMENT: {"type": "string", "description": "What to look up."}},
                "required": [ARGUMENT],
            },
        },
    }
]
QUESTION: Message = {"role": "user", "content": "Go on."}
ANSWER: Message = {"role": "tool", "tool_call_id": "call_0_0", "name": TOOL, "content": RESULT}
_WORDS = ("yes", "no")  # with different last letters, so that no token is common to their ends


@dataclass(frozen=True)
class Shape:
    """What dialogues of one order of roles have in common: ``ends`` end-of-turn ids ``end`` come before the last turn's
    own, ``generation`` is the generation prompt, ``style`` how the template takes the calls."""

    end: int
    ends: int
    generation: tuple[int, ...]
    style: int


class Template:
    """Ids of messages. ``arguments`` go to every rendering. Raises ChatError for a template that cannot do tools."""

    def __init__(self, tokenizer: Any, arguments: Mapping[str, Any]) -> None:
        _check(tokenizer)
        self.tokenizer = tokenizer
        self._arguments = dict(arguments)
        self._marks = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
        self._mark = any_of(map(tokenizer.convert_ids_to_tokens, self._marks))
        self._shapes: dict[tuple[str, ...], Shape] = {}
        self._check_tools()
        self.end, self.call_end = self._ends()
        self._stop = any_of([*map(self.text, ([self.end], [self.call_end])), tokenizer.eos_token])

    # --- rendering ----------------------------------------------------------------------------------------------

    def ids(self, messages: Sequence[Message], tools: Any = (), *, generation: bool = True) -> list[int]:
        """Raises ChatError with the template's own complaint. Our dialogues have no tools: some templates write them
        again in a later message."""
        guarded = [self._guarded(message, number) for number, message in enumerate(messages)]
        if guarded == list(messages):
            return list(self._render(messages, tools, generation, tokenize=True))
        return self.encoded(self._render(guarded, changed(tools, kept_apart), generation, tokenize=False))

    def encoded(self, text: str) -> list[int]:
        """The ids of what was rendered; what ``guarded`` has marked is no mark."""
        return [each for piece in pieces(text) for each in self.tokenizer.encode(piece, add_special_tokens=False)]

    def guarded(self, value: Any) -> Any:
        """A text, or any JSON, whose marks, such as an end of turn that a file holds, stay the text that they are."""
        return changed(value, lambda text: kept_apart(text, self._mark))

    def sampled(self, text: str) -> str:
        """What a policy sampled within a turn: its marks are marks, only none that would have ended the turn."""
        return kept_apart(text, self._stop)

    def rendered(self, messages: Sequence[Message], *, generation: bool = False) -> str:
        """As text; ``guarded`` or not, as they are given."""
        return str(self._render(messages, (), generation, tokenize=False))

    def text(self, ids: Sequence[int]) -> str:
        """With all markers."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def split(self, messages: Sequence[Message], tools: Any = ()) -> tuple[list[int], int]:
        """The messages' ids with a generation prompt, and where it begins: at the end for templates that have none."""
        asked, plain = self.ids(messages, tools), self.ids(messages, tools, generation=False)
        begin = common_prefix(asked, plain)
        if not self._marks.issuperset(plain[begin:]):  # Phi closes what is not to go on
            raise ChatError("the chat template writes messages differently before a generation prompt: use another one")
        return asked, begin

    def before(self, answers: Sequence[Message]) -> list[Message]:
        """A dialogue that ends in ``answers`` to an assistant's turn."""
        return self._dialogue(answers, _WORDS[0], self.shape(answers).style)

    def shape(self, answers: Sequence[Message]) -> Shape:
        """Found once for each order of roles. Raises ChatError when the template takes no such dialogue."""
        key = tuple(str(message["role"]) for message in answers)
        if key not in self._shapes:
            self._shapes[key] = self._found(answers)
        return self._shapes[key]

    def reply(self, answers: Sequence[Message]) -> tuple[list[int], Shape]:
        """The ids from the end of the turn that ``answers`` answer, to the end of the next generation prompt."""
        shape = self.shape(answers)
        ids = self.ids(self._dialogue(answers, _WORDS[0], shape.style))
        if tuple(ids[len(ids) - len(shape.generation) :]) != shape.generation:
            raise ChatError("the chat template asks for a turn in more than one way: use another template")
        return ids[self.after_turn(ids, answers) - 1 :], shape

    def after_turn(self, ids: Sequence[int], answers: Sequence[Message]) -> int:
        """Where the turn that ``answers`` answer is over, in the ids of ``before(answers)`` and what may follow."""
        shape = self.shape(answers)
        places = [place for place, each in enumerate(ids) if each == shape.end]
        if len(places) <= shape.ends:
            raise ChatError("the chat template does not close an assistant's turn before an answer: use another one")
        return places[shape.ends] + 1

    def written_call(self) -> str:
        """What an assistant's turn with one call of ``TOOL`` looks like."""
        dialogue = self.before([ANSWER])[:2]
        asked, begin = self.split(dialogue[:1])
        return self.text(self.ids(dialogue, generation=False)[begin:])

    def _guarded(self, message: Message, number: int) -> Message:
        """Content, names, ids and calls. The system's message is the trainer's own: it may mean its marks."""
        own = message["role"] == "system" and not number
        guarded: Message = changed(message, kept_apart) if own else self.guarded(message)
        return guarded

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
        except Exception as error:  # a template is anybody's code
            said = " ".join(str(error).split()) or type(error).__name__
            raise ChatError(f"the chat template refuses these messages: {said[:200]}") from error

    def _dialogue(self, answers: Sequence[Message], word: str, style: int) -> list[Message]:
        """``style``: bit 0, arguments as text; bit 1, one call only; bit 2, ids of nine letters and digits."""
        answers = [
            {**message, "tool_call_id": short_id(message.get("tool_call_id", ""))}
            if style & 4 and _is_tool(message)
            else message
            for message in answers
        ]
        given = f'{{"{ARGUMENT}": "{word}"}}' if style & 1 else {ARGUMENT: word}
        calls = [
            {
                "id": message.get("tool_call_id", ""),
                "type": "function",
                "function": {"name": message.get("name", "unknown"), "arguments": given},
            }
            for message in answers
            if _is_tool(message)
        ]
        if not calls:
            return [QUESTION, {"role": "assistant", "content": word}, *answers]
        return [
            QUESTION,
            {"role": "assistant", "content": "", "tool_calls": calls[-1:] if style & 2 else calls},
            *answers,
        ]

    def _styles(self, answers: Sequence[Message]) -> Iterator[int]:
        """The ways in which the template takes a dialogue; the others raise, or lose the call's words."""
        foreign = [{**message, "tool_call_id": "call_0_0"} if _is_tool(message) else message for message in answers]
        for style in range(8):
            try:
                said = self._render(self._dialogue(foreign, "omega", style), (), True, tokenize=False)
            except ChatError:
                if style == 7:
                    raise
                continue
            if "omega" in said:
                yield style

    def _found(self, answers: Sequence[Message]) -> Shape:
        style = next(self._styles(answers), None)
        if style is None:
            raise ChatError("the chat template leaves out an assistant's words or calls: use one that renders them")
        end = self.call_end if any(map(_is_tool, answers)) else self.end
        yes, no = (self._dialogue(answers, word, style) for word in _WORDS)
        ids, begin = self.split(yes)
        after = len(ids) - common_suffix(ids, self.ids(no))
        if end not in ids[after:]:
            raise ChatError("the chat template does not close an assistant's turn before an answer: use another one")
        return Shape(end, ids[:after].count(end), tuple(ids[begin:]), style)

    def _ends(self) -> tuple[int, int]:
        """The ids that end a turn of words and a turn of calls."""
        yes, no = (self.ids([QUESTION, {"role": "assistant", "content": w}], generation=False) for w in _WORDS)
        shared = common_suffix(yes, no)
        style = next(self._styles([ANSWER]))
        calls = self.ids(self._dialogue([ANSWER], _WORDS[0], style)[:2], generation=False)
        both = common_suffix(yes, calls)
        if not shared or yes[-shared] not in self._marks:
            raise ChatError("the chat template ends no turn with a token of its own: use one that does")
        if both:
            return yes[-shared], calls[-both]
        return yes[-shared], next(each for each in reversed(calls) if each in self._marks)

    def _check_tools(self) -> None:
        remedy = "use a template for tools (transformers and TRL ship some) or another model"
        if TOOL not in self._render([QUESTION], TOOLS, True, tokenize=False):
            raise ChatError(f"the chat template does not render tools: {remedy}")
        try:
            rendered = any(
                RESULT in self._render(self._dialogue([ANSWER], _WORDS[0], style), (), True, tokenize=False)
                for style in self._styles([ANSWER])
            )
        except ChatError:
            rendered = False
        if not rendered:
            raise ChatError(f"the chat template does not render tool calls and their results: {remedy}")


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many first ids are the same."""
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        same += 1
    return same


def common_suffix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many last ids are the same."""
    return common_prefix(one[::-1], other[::-1])


def _check(tokenizer: Any) -> None:
    if hasattr(tokenizer, "image_processor") or hasattr(tokenizer, "tokenizer"):
        raise ChatError("this is a processor of images or sound: give the tokenizer of a model that reads text alone")
    if not getattr(tokenizer, "chat_template", None):
        raise ChatError("this tokenizer has no chat template: use an instruct model, or set tokenizer.chat_template")


def _is_tool(message: Mapping[str, Any]) -> bool:
    return message["role"] == "tool"


def answers_of(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The environment's messages as templates take them: without empty names and ids."""
    return [{key: value for key, value in message.items() if value or key == "content"} for message in messages]


def short_id(call_id: str) -> str:
    """Nine letters and digits, which is what Mistral's templates ask of an id."""
    return "".join(filter(str.isalnum, call_id))[-9:].zfill(9)
