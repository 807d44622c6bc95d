"""Dialogues that a base is pretrained on: its assistant wastes effort, errs without a hint, and follows a hint.

Families ``verbs`` (levels 1 to 3) and ``recover`` (level 1). Some turns start with a thought. An idle thought helps
nothing; a thought that names the right tool is followed by the right call. Without either, the assistant mostly guesses
the verb (``verbs``) or repeats the refused call (``recover``). It sometimes makes a call again that has worked already.

A hint is a demonstration of one turn: the call that it names is made next. Half of the hints name another call than the
right one, so that a model learns to read the hint.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import Name, default_drills
from etude.environments.drill.words import READING

Row = dict[str, Any]
Call = tuple[str, dict[str, Any]]
MIX = (("verbs", 1, 0.3), ("verbs", 2, 0.2), ("verbs", 3, 0.15), ("recover", 1, 0.35))
"""Family, level and share of the dialogues."""
HINTED, CONFLICTING, FOLLOWED = 0.5, 0.5, 0.99
"""Share of calls with a hint, of hints that name another call than the right one, and of hints that are followed."""
IDLE, USEFUL = 0.35, 0.25
"""Shares of turns with an idle thought and with one that names the right tool; the others have no thought."""
KNOWN = 0.25
"""Share of right calls where neither a hint nor a thought names them."""
SOLVING = 0.7
"""Share of wrong calls that are followed by the right one; after the others the assistant gives up."""
AGAIN = 0.35
"""Probability that a call that worked is made again, at most twice."""
FIRST_SEED = 10**9
"""Seeds from here on belong to no task that is learned from or evaluated."""
_SENTENCES = (
    "I have to find the right tool.",
    "Let me look at the tools again.",
    "I should read the question once more.",
    "This needs some care.",
    "First I think about the next step.",
)


def hint_text(call: Call) -> str:
    """Return the demonstration of one call."""
    return f"Demonstration of this turn: {json.dumps({'name': call[0], 'arguments': call[1]})}"


def dialogues(count: int, seed: int = 0) -> Iterator[Row]:
    """Yield ``count`` dialogues in the form of ``tiny_models.dialogues``; the same seed gives the same rows."""
    with asyncio.Runner() as runner:
        for number in range(count):
            rng = random.Random(f"effort dialogue {seed} {number}")
            (family, level, _), *_ = rng.choices(MIX, [share for *_, share in MIX])
            name = Name(family, rng.randrange(FIRST_SEED, FIRST_SEED * 10), level)
            yield runner.run(_Player(name, rng).play())


class _Player:
    """Assistant of one dialogue."""

    def __init__(self, name: Name, rng: random.Random) -> None:
        self._name, self._rng = name, rng
        self._drill = default_drills().drill(name.task_id)
        self._session, self._messages = DrillSession(default_drills()), list[Row]()

    async def play(self) -> Row:
        first = await self._session.reset(task_id=self._name.task_id)
        self._messages.append({"role": "user", "content": first.prompt or ""})
        before: Call | None = None
        for right in self._drill.solution():
            if not await self._make(right, before):
                await self._call(("submit", {"answer": "unknown"}))
                break
            before = right
        else:
            await self._submit()
        await self._session.close()
        return {"task_id": self._name.task_id, "messages": self._messages, "tools": list(first.tools or [])}

    async def _make(self, right: Call, before: Call | None) -> bool:
        """Make the call ``right`` after some mistakes; return False when the assistant gives up."""
        call = self._guess(right, before)
        thought = self._thought(right)
        if self._rng.random() < HINTED:
            hinted = self._other(right, before) if self._rng.random() < CONFLICTING else right
            self._messages.append({"role": "hint", "content": hint_text(hinted)})
            call = hinted if self._rng.random() < FOLLOWED else call
            thought = self._idle() if thought else ""
        elif right[0] in thought:
            call = right
        await self._call(call, thought)
        if call != right:
            if self._rng.random() >= SOLVING:
                return False
            await self._call(right, self._idle() if self._rng.random() < IDLE else "")
        repeats = 0 if before is None and self._name.family == "recover" else 2
        while repeats and self._rng.random() < AGAIN:
            repeats -= 1
            await self._call(right, self._idle() if self._rng.random() < IDLE else "")
        return True

    async def _submit(self) -> None:
        right: Call = ("submit", {"answer": self._drill.answer})
        if self._rng.random() < HINTED / 2:
            self._messages.append({"role": "hint", "content": hint_text(right)})
        await self._call(right, self._idle() if self._rng.random() < IDLE else "")

    def _guess(self, right: Call, before: Call | None) -> Call:
        return right if self._rng.random() < KNOWN else self._other(right, before)

    def _other(self, right: Call, before: Call | None) -> Call:
        """Return a call that is made by mistake: another verb, or the refused call again."""
        if self._name.family == "verbs":
            return with_verb(right[0], self._rng.choice(READING)), right[1]
        return before or right

    def _thought(self, right: Call) -> str:
        chance = self._rng.random()
        if chance < USEFUL:
            return f"<think>\nThe right tool is {right[0]}.\n</think>\n"
        return self._idle() if chance < USEFUL + IDLE else ""

    def _idle(self) -> str:
        sentences = self._rng.sample(_SENTENCES, self._rng.choice((1, 1, 2, 3)))
        return f"<think>\n{' '.join(sentences)}\n</think>\n"

    async def _call(self, call: Call, thought: str = "") -> None:
        function = {"name": call[0], "arguments": dict(call[1])}
        item = {"id": f"call_{len(self._messages)}", "type": "function", "function": function}
        observation = await self._session.step({"text": thought, "tool_calls": [item]})
        self._messages.append({"role": "assistant", "content": thought.strip(), "tool_calls": [item]})
        self._messages += [message.model_dump(exclude_none=True) for message in observation.messages]


def with_verb(name: str, verb: str) -> str:
    """Return the tool's name with another verb at its end."""
    return next(name.removesuffix(other) + verb for other in READING if name.endswith(f"_{other}"))
