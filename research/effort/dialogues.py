"""Dialogues that a base is pretrained on: its assistant wastes effort, errs without a hint, and follows a hint.

Families ``verbs`` (levels 1 to 3) and ``choose`` (level 1). Without a hint the assistant mostly guesses the verb in a
tool's name. It sometimes makes a call again that has worked already, which helps nothing.

A hint is a demonstration of one turn: the call that it names is made next. Half of the hints name another call than the
right one, so that a model learns to read the hint.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import Name, default_drills
from etude.environments.drill.words import READING

Row = dict[str, Any]
Call = tuple[str, dict[str, Any]]
Mix = Sequence[tuple[str, int, float]]
"""Family, level and share of dialogues."""
LEVELS: Mix = (("verbs", 1, 0.25), ("verbs", 2, 0.25), ("verbs", 3, 0.2), ("choose", 1, 0.3))
HINTED, CONFLICTING, FOLLOWED = 0.4, 0.5, 0.99
"""Share of calls with a hint, of hints that name another call than the right one, and of hints that are followed."""
KNOWN = 0.35
"""Share of right calls without a hint."""
SOLVING = 0.7
"""Share of wrong calls that are followed by the right one; after the others the assistant gives up."""
AGAIN = 0.35
"""Probability that a call that worked is made again, at most twice."""
FIRST_SEED = 10**9
"""Seeds from here on belong to no task that is learned from or evaluated."""


def hint_text(call: Call) -> str:
    """Return the demonstration of one call."""
    return f"Demonstration of this turn: {json.dumps({'name': call[0], 'arguments': call[1]})}"


def dialogues(count: int, seed: int = 0, mix: Mix = LEVELS) -> Iterator[Row]:
    """Yield ``count`` dialogues in the form of ``tiny_models.dialogues``; the same seed gives the same rows."""
    with asyncio.Runner() as runner:
        for number in range(count):
            rng = random.Random(f"effort dialogue {seed} {number}")
            (family, level, _), *_ = rng.choices(mix, [share for *_, share in mix])
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
        for right in self._drill.solution():
            if not await self._make(right):
                await self._call(("submit", {"answer": "unknown"}))
                break
        else:
            await self._submit()
        await self._session.close()
        return {"task_id": self._name.task_id, "messages": self._messages, "tools": list(first.tools or [])}

    async def _make(self, right: Call) -> bool:
        """Make the call ``right``, perhaps after a wrong one; return False when the assistant gives up."""
        call = right if self._rng.random() < KNOWN else self._other(right)
        if self._rng.random() < HINTED:
            hinted = self._other(right) if self._rng.random() < CONFLICTING else right
            self._messages.append({"role": "hint", "content": hint_text(hinted)})
            call = hinted if self._rng.random() < FOLLOWED else call
        await self._call(call)
        if call != right:
            if self._rng.random() >= SOLVING:
                return False
            await self._call(right)
        for _ in range(2):
            if self._rng.random() >= AGAIN:
                break
            await self._call(right)
        return True

    async def _submit(self) -> None:
        right: Call = ("submit", {"answer": self._drill.answer})
        if self._rng.random() < HINTED:
            self._messages.append({"role": "hint", "content": hint_text(right)})
        await self._call(right)

    def _other(self, right: Call) -> Call:
        """Return the call with a random verb in the tool's name."""
        return with_verb(right[0], self._rng.choice(READING)), right[1]

    async def _call(self, call: Call) -> None:
        function = {"name": call[0], "arguments": dict(call[1])}
        item = {"id": f"call_{len(self._messages)}", "type": "function", "function": function}
        observation = await self._session.step({"text": "", "tool_calls": [item]})
        self._messages.append({"role": "assistant", "content": "", "tool_calls": [item]})
        self._messages += [message.model_dump(exclude_none=True) for message in observation.messages]


def with_verb(name: str, verb: str) -> str:
    """Return the tool's name with another verb, at the end where it is in ``verbs``, else at the start."""
    for other in READING:
        if name.endswith(f"_{other}"):
            return name.removesuffix(other) + verb
        if name.startswith(f"{other}_"):
            return verb + name.removeprefix(other)
    raise ValueError(f"the tool name {name!r} has no reading verb; use a tool of verbs or choose")
