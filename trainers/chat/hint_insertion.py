"""The ids of a hint and their place in a dialogue's ids: a pure insertion, so that nothing around them changes.

A hint is a separate message, in a role that is legal there, just before the generation prompt. Where the template
accepts none (roles must alternate, systems come first, the prompt is written differently), the hint goes into the last
message, at the end of its body.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ChatError
from ..distillation.distill_sites import Insertion
from ..rollouts.rollout import Rollout
from .templates import ANSWER, QUESTION, Message, Template, answers_of, common_prefix, common_suffix

ROLES = ("system", "user")
_PROBE = "Say yes."
_CONTENTS = ("ok", "exit 1", "done.", '{"a": [1]}', "'x'", "said:\n", "two  ", "<a>", "ok\n\n")
"""Contents with different endings: a tokenizer may join an ending with what follows."""


class HintInserter:
    """Insertions of hints under one template; the role is chosen once for each kind of message before the hint."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._roles: dict[str, str] = {}

    def anywhere(self, text: str, first: bool) -> Insertion:
        """Insert after any prompt (``first``) or after any tool result. Raises ChatError."""
        last = [QUESTION] if first else [ANSWER]
        return self._insertion(last, text, first, limit=len(self.tail(first)))

    def tail(self, first: bool) -> list[int]:
        """Return the longest ending that messages of any content, and results of any call, have in common."""
        last = QUESTION if first else ANSWER
        ids = [self._last_ids([{**last, "content": content}], first)[0] for content in _CONTENTS]
        if not first:
            ids.append(self._last_ids([{**last, "tool_call_id": "a1b2c3d4e", "name": "other"}], first)[0])
        shortest = min(common_suffix(ids[0], other) for other in ids[1:])
        return ids[0][len(ids[0]) - shortest :]

    def before(self, rollout: Rollout, turn: int, text: str) -> Insertion | None:
        """Insert before a turn of a rollout; None when the ids there are not those that the template writes."""
        last, first, span = _messages_before(rollout.messages, turn), turn == 0, rollout.turns[turn]
        if not last:
            return None
        try:
            inserted = self._insertion(last, text, first)
            ids, generation = self._last_ids(last, first)
        except ChatError:
            return None
        compared = max(inserted.back, 1) if first else len(ids)
        actual = rollout.ids[max(span.begin - compared, 0) : span.begin]
        as_written = actual == ids[len(ids) - compared :] and rollout.ids[span.begin : span.start] == generation
        return inserted if as_written and inserted.back <= compared else None

    def _insertion(self, last: Sequence[Message], text: str, first: bool, limit: int = 1 << 30) -> Insertion:
        kind = "prompt" if first else str(last[-1]["role"])
        if kind not in self._roles:
            self._roles[kind] = next((role for role in ROLES if self._accepts(last, first, role)), "")
        role = self._roles[kind]
        ids = self._last_ids(last, first)[0]
        if role:
            insertion = Insertion(self._message_ids(last, first, role, text))
        else:
            insertion = self._appended(last, first, text, limit)
        place = len(ids) - insertion.back
        if not self._adds(ids, [*ids[:place], *insertion.ids, *ids[place:]], text):
            raise ChatError("the chat template leaves out or changes a hint; use another one")
        return insertion

    def _accepts(self, last: Sequence[Message], first: bool, role: str) -> bool:
        try:
            return self._adds([], self._message_ids(last, first, role, _PROBE), _PROBE)
        except ChatError:
            return False

    def _adds(self, ids: Sequence[int], longer: Sequence[int], text: str) -> bool:
        """Return whether ``longer`` holds the text once more than ``ids``, perhaps trimmed or written as JSON."""
        before, after = self._template.decode(ids), self._template.decode(longer)
        text = text.strip()
        forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
        return any(after.count(form) == before.count(form) + 1 for form in forms)

    def _message_ids(self, last: Sequence[Message], first: bool, role: str, text: str) -> list[int]:
        """Return the ids of a separate message. Raises ChatError when it changes the ids around it."""
        ids, generation = self._last_ids(last, first)
        longer, after = self._last_ids(last, first, {"role": role, "content": text})
        longer += after
        end = len(longer) - len(generation)
        if end < len(ids) or longer[: len(ids)] != ids or longer[end:] != generation:
            raise ChatError("the chat template writes a dialogue differently when a hint follows; use another one")
        return longer[len(ids) : end]

    def _appended(self, last: Sequence[Message], first: bool, text: str, limit: int) -> Insertion:
        """Insert at the end of the last message's body, before at most ``limit`` ids that close it."""
        ids, _ = self._last_ids(last, first)
        longer, _ = self._last_ids([*last[:-1], {**last[-1], "content": f"{last[-1]['content']}\n\n{text}"}], first)
        same = common_prefix(ids, longer)
        back = min(common_suffix(ids, longer), limit)
        if same + back > len(ids):  # the body ends as the added text begins
            back = len(ids) - same
        return Insertion(longer[same : len(longer) - back], back)

    def _last_ids(self, last: Sequence[Message], first: bool, *more: Message) -> tuple[list[int], list[int]]:
        """Return the ids from the turn before ``last`` (a prompt has none) to the generation prompt, and that prompt.

        ``more`` messages may follow ``last``. The template may then render the turn itself differently; that does not
        matter, because the turn's ids are not returned.
        """
        dialogue = list(last) if first else self._template.dialogue_with(last)
        ids, begin = self._template.prompt([*dialogue, *more])
        start = 0 if first else self._template.after_turn(ids, last)
        return ids[start:begin], ids[begin:]


def _messages_before(messages: Sequence[Mapping[str, Any]], turn: int) -> list[Message]:
    """Return the messages between a turn and the previous one; before the first turn, only the last message."""
    places = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    if turn >= len(places):
        return []
    begin = places[turn - 1] + 1 if turn else max(places[0] - 1, 0)
    return answers_of(messages[begin : places[turn]])
