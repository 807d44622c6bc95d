"""The ids of a hint, and where in a dialogue's ids they go: a pure insertion, so that nothing around them changes.

A hint is a message of its own in a role that is legal there, just before the generation prompt. Where the template
allows none (roles must alternate, systems come first, the prompt is written differently), it goes into the last
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
_ENDINGS = ("ok", "exit 1", "done.", '{"a": [1]}', "'x'", "said:\n", "two  ", "<a>", "ok\n\n")
"""Contents that end in as many ways as tokenizers may join with what follows."""


class Insertions:
    """``template`` says how; the role is found once for each kind of message that a hint may follow."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._roles: dict[str, str] = {}

    def anywhere(self, text: str, first: bool) -> Insertion:
        """After a prompt or a result of any content. Raises ChatError."""
        last = [QUESTION] if first else [ANSWER]
        return self._insertion(last, text, first, limit=len(self.tail(first)))

    def tail(self, first: bool) -> list[int]:
        """The shortest end that messages of different content (and results of different calls) have in common."""
        last = QUESTION if first else ANSWER
        ids = [self._place([{**last, "content": content}], first)[0] for content in _ENDINGS]
        if not first:
            ids.append(self._place([{**last, "tool_call_id": "a1b2c3d4e", "name": "other"}], first)[0])
        shortest = min(common_suffix(ids[0], other) for other in ids[1:])
        return ids[0][len(ids[0]) - shortest :]

    def before(self, rollout: Rollout, turn: int, text: str) -> Insertion | None:
        """Before a turn of a rollout, whose messages are known; None when the template writes them with other ids."""
        last, first, span = _last(rollout.messages, turn), turn == 0, rollout.turns[turn]
        if not last:
            return None
        try:
            inserted = self._insertion(last, text, first)
            ids, generation = self._place(last, first)
        except ChatError:
            return None
        known = max(inserted.back, 1) if first else len(ids)
        there = rollout.ids[max(span.begin - known, 0) : span.begin]
        as_written = there == ids[len(ids) - known :] and rollout.ids[span.begin : span.start] == generation
        return inserted if as_written and inserted.back <= known else None

    def _insertion(self, last: Sequence[Message], text: str, first: bool, limit: int = 1 << 30) -> Insertion:
        kind = "prompt" if first else str(last[-1]["role"])
        if kind not in self._roles:
            self._roles[kind] = next((role for role in ROLES if self._takes(last, first, role)), "")
        role = self._roles[kind]
        ids = self._place(last, first)[0]
        found = Insertion(self._own(last, first, role, text)) if role else self._appended(last, first, text, limit)
        place = len(ids) - found.back
        if not self._added(ids, [*ids[:place], *found.ids, *ids[place:]], text):
            raise ChatError("the chat template leaves out or changes a hint: use another one")
        return found

    def _takes(self, last: Sequence[Message], first: bool, role: str) -> bool:
        try:
            return self._added([], self._own(last, first, role, _PROBE), _PROBE)
        except ChatError:
            return False

    def _added(self, ids: Sequence[int], longer: Sequence[int], text: str) -> bool:
        """Whether a text is there once more; some templates trim it, some write it as JSON."""
        before, after = self._template.text(ids), self._template.text(longer)
        text = text.strip()
        forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
        return any(after.count(form) == before.count(form) + 1 for form in forms)

    def _own(self, last: Sequence[Message], first: bool, role: str, text: str) -> list[int]:
        """The ids of a message of its own. Raises ChatError when it changes what is around it."""
        ids, generation = self._place(last, first)
        longer, after = self._place(last, first, {"role": role, "content": text})
        longer += after
        end = len(longer) - len(generation)
        if end < len(ids) or longer[: len(ids)] != ids or longer[end:] != generation:
            raise ChatError("the chat template writes a dialogue differently when a hint follows: no place for it")
        return longer[len(ids) : end]

    def _appended(self, last: Sequence[Message], first: bool, text: str, limit: int) -> Insertion:
        """At the end of the last message's body, before at most ``limit`` ids that close it."""
        ids, _ = self._place(last, first)
        longer, _ = self._place([*last[:-1], {**last[-1], "content": f"{last[-1]['content']}\n\n{text}"}], first)
        same = common_prefix(ids, longer)
        back = min(common_suffix(ids, longer), limit)
        if same + back > len(ids):  # the end of the body and the beginning of what was added look alike
            back = len(ids) - same
        return Insertion(longer[same : len(longer) - back], back)

    def _place(self, last: Sequence[Message], first: bool, *more: Message) -> tuple[list[int], list[int]]:
        """What stands between the end of the turn before ``last`` (a prompt has none) and the generation prompt, and
        that prompt. ``more`` messages may follow: a template that then writes the turn itself anew changes nothing."""
        before = list(last) if first else self._template.before(last)
        ids, begin = self._template.split([*before, *more])
        start = 0 if first else self._template.after_turn(ids, last)
        return ids[start:begin], ids[begin:]


def _last(messages: Sequence[Mapping[str, Any]], turn: int) -> list[Message]:
    """The messages between a turn and the one before it; of a prompt the last one."""
    spoken = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    if turn >= len(spoken):
        return []
    begin = spoken[turn - 1] + 1 if turn else max(spoken[0] - 1, 0)
    return answers_of(messages[begin : spoken[turn]])
