"""Pairs as token ids, through the student's own chat template. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ..templates import QUESTION, ChatError, Template, answers_of
from ..writing import CLOSE, Turns, parted
from .pairs import Pair
from .states import as_message


@dataclass(frozen=True)
class Encoded:
    """A pair: ``prompt + chosen`` and ``prompt + rejected`` are ids that the student may sample. A loss counts only the
    actions' ids, their words, calls and end of the turn. ``prompt`` ends with the student's own generation prompt, and
    where the student thinks, with a thought without a word: neither action is told apart by what was thought."""

    prompt: list[int]
    chosen: list[int]
    rejected: list[int]
    key: str = ""


def encode(
    pairs: Sequence[Pair], tokenizer: Any, *, max_ids: int, **arguments: Any
) -> tuple[list[Encoded], Counter[str]]:
    """The pairs that fit into ``max_ids``, and how many were left out, by reason. Never cut: a cut turn is another one.

    ``arguments`` go to the template. Raises ChatError for a tokenizer without a template for tools.
    """
    template = Template(tokenizer, arguments)
    asked, begin = template.split([QUESTION])
    turns = Turns(template, template.text(asked[begin:]), lambda ids: {})
    found, left = [], Counter[str]()
    for pair in pairs:
        try:
            one = _encode(pair, template, turns)
        except ChatError:
            left["the template refuses it"] += 1
            continue
        if _unsaid(pair.chosen) or _unsaid(pair.rejected):
            left["a turn is all thought"] += 1
        elif one.chosen == one.rejected:
            left["both read the same"] += 1
        elif len(one.prompt) + max(len(one.chosen), len(one.rejected)) > max_ids:
            left["too long"] += 1
        else:
            found.append(one)
    return found, left


def _encode(pair: Pair, template: Template, turns: Turns) -> Encoded:
    asked, opening = _asked(pair, template, turns)
    lead = turns.lead(opening)
    both = (as_message(action, 0, decoded=True) for action in (pair.chosen, pair.rejected))
    chosen, rejected = (turns.said(message, [*opening, *lead]) for message in both)
    return Encoded([*asked, *lead], chosen, rejected, f"{pair.episode_id}:{pair.turn}")


def _asked(pair: Pair, template: Template, turns: Turns) -> tuple[list[int], list[int]]:
    """The ids of the student's rollout before the turn, and the generation prompt that they end with. Each old turn is
    as it was sampled: a template that writes it again may drop its thought, and the student never reads such ids."""
    first = [*takewhile(_not_said, pair.messages)]
    ids, begin = template.split(first, pair.tools)
    opening, left = ids[begin:], pair.messages[len(first) :]
    while left:
        answers = [*takewhile(_not_said, left[1:])]
        sampled = turns.ids(left[0], opening, exact=False)
        written, shape = template.reply(answers_of(answers))
        ids += [*sampled, *written[sampled[-1] == shape.end :]]
        opening, left = list(shape.generation), left[1 + len(answers) :]
    return ids, opening


def _not_said(message: Mapping[str, Any]) -> bool:
    return message["role"] != "assistant"


def _unsaid(action: Mapping[str, Any]) -> bool:
    """A turn that was cut before its thought was over has no action."""
    message = as_message(action, 0)
    thought, said = parted(message["content"])
    return bool(thought) and not thought.endswith(CLOSE) and not said and "tool_calls" not in message
