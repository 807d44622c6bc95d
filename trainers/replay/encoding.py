"""Pairs as token ids, through the student's own chat template. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..templates import ANSWER, QUESTION, ChatError, Template, common_prefix
from ..writing import styled
from .pairs import Pair
from .states import as_message


@dataclass(frozen=True)
class Encoded:
    """A pair: ``prompt + chosen`` and ``prompt + rejected`` are what the template writes; a loss counts only the turns'
    ids, the end of the turn included and its header not."""

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
    found, left = [], Counter[str]()
    for pair in pairs:
        try:
            one = _encode(pair, template)
        except ChatError:
            left["the template refuses it"] += 1
            continue
        if one.chosen == one.rejected:
            left["both read the same"] += 1
        elif len(one.prompt) + max(len(one.chosen), len(one.rejected)) > max_ids:
            left["too long"] += 1
        else:
            found.append(one)
    return found, left


def _encode(pair: Pair, template: Template) -> Encoded:
    style = template.shape([ANSWER]).style
    prompt, begin = template.split([styled(message, style) for message in pair.messages], pair.tools)
    chosen, kept = _turn(pair.chosen, template, style)
    rejected, _ = _turn(pair.rejected, template, style)
    generation = len(prompt) - begin
    return Encoded(prompt[: len(prompt) - (generation - kept)], chosen, rejected, f"{pair.episode_id}:{pair.turn}")


def _turn(action: dict[str, Any], template: Template, style: int) -> tuple[list[int], int]:
    """A turn's ids behind its header, and how much of the generation prompt is that header: a prompt that goes on to
    open a thought is cut before it, unless the template closes that thought at once in both turns."""
    asked, begin = template.split([QUESTION])
    message = styled(as_message(action, 0, decoded=True), style)
    written = template.ids([QUESTION, message], generation=False)[begin:]
    kept = common_prefix(written, asked[begin:])
    ends = [place for place, each in enumerate(written) if each in (template.end, template.call_end)]
    if not ends or (not kept and begin < len(asked)):
        raise ChatError("the chat template does not end an assistant's turn: use another one")
    return written[kept : ends[-1] + 1], kept
