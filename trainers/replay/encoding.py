"""Pairs as token ids, through the student's own chat template. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ...errors import ChatError, UnwritableTurn
from ..chat.chat_policy import TemplateChat
from ..chat.turn_encoding import CLOSE, parted
from ..rollouts.rollout import Sample
from .pairs import Pair
from .prefixes import as_message


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
    chat = TemplateChat(tokenizer, _nobody, arguments=arguments)
    found, left = [], Counter[str]()
    for pair in pairs:
        try:
            one = _encode(pair, chat)
        except UnwritableTurn:
            left["the template cannot write a turn as it was"] += 1
            continue
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


def _encode(pair: Pair, chat: TemplateChat) -> Encoded:
    asked, opening = _asked(pair, chat)
    corrected = pair.kind == "correct"  # then the rejected action is the student's, else the chosen one is
    chosen = _said(pair.chosen, chat, opening, exact=corrected)
    rejected = _said(pair.rejected, chat, opening, exact=not corrected)
    return Encoded([*asked, *chat.turns.lead(opening)], chosen, rejected, f"{pair.episode_id}:{pair.turn}")


def _said(action: Mapping[str, Any], chat: TemplateChat, opening: Sequence[int], *, exact: bool) -> list[int]:
    """The ids of an action's words and calls, after those of ``Turns.lead``."""
    message, lead = as_message(action, 0), chat.turns.lead(opening)
    ids = chat.turn({**message, "content": parted(message["content"])[1]}, opening, exact=exact)
    if ids[: len(lead)] != lead:
        raise UnwritableTurn("the chat template writes a turn without a thought in more than one way: use another one")
    return ids[len(lead) :]


def _asked(pair: Pair, chat: TemplateChat) -> tuple[list[int], list[int]]:
    """The ids of the student's rollout before the turn, and the generation prompt that they end with. Each old turn is
    as it was sampled: a template that writes it again may drop its thought, and the student never reads such ids."""
    first = [*takewhile(_not_said, pair.messages)]
    written, left = chat.prompt(first, pair.tools), pair.messages[len(first) :]
    ids = list(written.ids)
    while left:
        answers = [*takewhile(_not_said, left[1:])]
        sampled = chat.turn(left[0], written.ids[written.generation :], exact=False)
        written, left = chat.reply(sampled, answers), left[1 + len(answers) :]
        ids += [*sampled, *written.ids]
    return ids, written.ids[written.generation :]


async def _nobody(ids: Sequence[int], room: int) -> Sample:
    raise NotImplementedError


def _not_said(message: Mapping[str, Any]) -> bool:
    return message["role"] != "assistant"


def _unsaid(action: Mapping[str, Any]) -> bool:
    """A turn that was cut before its thought was over has no action."""
    message = as_message(action, 0)
    thought, said = parted(message["content"])
    return bool(thought) and not thought.endswith(CLOSE) and not said and "tool_calls" not in message
