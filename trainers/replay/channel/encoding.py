"""Pairs as token ids, through the student's own chat template. Imports no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ....errors import ChatError, UnwritableTurn
from ...chat.chat_policy import TemplateChat, never_samples
from ...chat.turn_encoding import CLOSE, split_thought
from ..pairs import Pair
from ..turns.prefixes import as_message


@dataclass(frozen=True)
class Encoded:
    """A pair as ids: ``prompt + chosen`` and ``prompt + rejected`` are dialogues that the student may sample.

    A loss counts only the actions' ids: words, calls and the end of the turn. ``prompt`` ends with the student's own
    generation prompt, followed by an empty thought if the student thinks, so that thoughts do not separate the actions.
    """

    prompt: list[int]
    chosen: list[int]
    rejected: list[int]
    key: str = ""


def encode(
    pairs: Sequence[Pair], tokenizer: Any, *, max_ids: int, **arguments: Any
) -> tuple[list[Encoded], Counter[str]]:
    """Return the pairs that fit into ``max_ids``, and how many were skipped, by reason.

    A pair is never cut: a cut turn is another turn. ``arguments`` go to the template. Raises ChatError for a tokenizer
    without a template for tools.
    """
    chat = TemplateChat(tokenizer, never_samples, arguments=arguments)
    encoded, skipped = [], Counter[str]()
    for pair in pairs:
        try:
            one = _encode(pair, chat)
        except UnwritableTurn:
            skipped["the template cannot write a turn as it was"] += 1
            continue
        except ChatError:
            skipped["the template refuses it"] += 1
            continue
        if _is_all_thought(pair.chosen) or _is_all_thought(pair.rejected):
            skipped["a turn is all thought"] += 1
        elif one.chosen == one.rejected:
            skipped["both read the same"] += 1
        elif len(one.prompt) + max(len(one.chosen), len(one.rejected)) > max_ids:
            skipped["too long"] += 1
        else:
            encoded.append(one)
    return encoded, skipped


def _encode(pair: Pair, chat: TemplateChat) -> Encoded:
    prompt, opening = _prompt(pair, chat)
    corrected = pair.kind == "correct"  # then the rejected action is the student's, else the chosen one is
    chosen = _action_ids(pair.chosen, chat, opening, exact=corrected)
    rejected = _action_ids(pair.rejected, chat, opening, exact=not corrected)
    return Encoded(
        [*prompt, *chat.turn_encoder.empty_thought(opening)], chosen, rejected, f"{pair.episode_id}:{pair.turn}"
    )


def _action_ids(action: Mapping[str, Any], chat: TemplateChat, opening: Sequence[int], *, exact: bool) -> list[int]:
    """Return the ids of an action's words and calls, which follow the empty thought."""
    message, lead = as_message(action, 0), chat.turn_encoder.empty_thought(opening)
    ids = chat.turn({**message, "content": split_thought(message["content"])[1]}, opening, exact=exact)
    if ids[: len(lead)] != lead:
        raise UnwritableTurn("the chat template writes a turn without a thought in more than one way; use another one")
    return ids[len(lead) :]


def _prompt(pair: Pair, chat: TemplateChat) -> tuple[list[int], list[int]]:
    """Return the ids of the student's rollout before the turn, and the generation prompt that ends them.

    Each earlier turn is written as it was sampled: a template that renders it again may drop its thought, and the
    student never reads such ids.
    """
    first = [*takewhile(_is_not_assistant, pair.messages)]
    written, remaining = chat.prompt(first, pair.tools), pair.messages[len(first) :]
    ids = list(written.ids)
    while remaining:
        answers = [*takewhile(_is_not_assistant, remaining[1:])]
        sampled = chat.turn(remaining[0], written.ids[written.generation :], exact=False)
        written, remaining = chat.reply(sampled, answers), remaining[1 + len(answers) :]
        ids += [*sampled, *written.ids]
    return ids, written.ids[written.generation :]


def _is_not_assistant(message: Mapping[str, Any]) -> bool:
    return message["role"] != "assistant"


def _is_all_thought(action: Mapping[str, Any]) -> bool:
    """Return whether a turn was cut before its thought ended, so that it has no action."""
    message = as_message(action, 0)
    thought, words = split_thought(message["content"])
    return bool(thought) and not thought.endswith(CLOSE) and not words and "tool_calls" not in message
