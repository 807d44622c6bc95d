"""The scripted agent of known chances: it solves with one probability, and follows a hint with another.

What it is made for is knowing beforehand what a measurement of hints must find. An episode begins with a mistake that
changes nothing; then it is solved, or a wrong answer is submitted. With a hint the chance is follows + (1 - follows) *
solves, without one it is solves, wherever the turns before changed nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import UnknownName
from ...models import Task, Turn
from ..rng import stream
from .scripted import Script, call, solution, submission, submit, turn

SOLVES, FOLLOWS = 0.25, 0.6


def noisy(task: Task, variant: str = "", *, past: Sequence[Turn] = (), told: str = "", seed: int = 0) -> Script:
    """``variant`` is ``SOLVES,FOLLOWS``, two probabilities. The same arguments play the same actions.

    Raises UnknownName for a variant that is no two probabilities.
    """
    solves, follows = chances(variant)
    chance = stream(seed, task.task_id, variant)
    followed = chance.random() < follows and bool(told)
    solved = chance.random() < solves or followed
    steps = solution(task)
    actions = [] if past or followed else [mistake(steps, chance)]
    if solved:
        actions += [*steps, turn("done", submission(task))]
    else:
        actions.append(turn("done", call("submit", answer="I do not know")))
    return Script(actions)


def chances(variant: str) -> tuple[float, float]:
    """Raises UnknownName."""
    try:
        solves, follows = (float(part) for part in variant.split(",")) if variant else (SOLVES, FOLLOWS)
    except ValueError:
        solves = follows = -1.0
    if not (0 <= solves <= 1 and 0 <= follows <= 1):
        raise UnknownName(f"the agent noisy has no variant {variant!r}: give SOLVES,FOLLOWS, such as noisy:0.25,0.6")
    return solves, follows


def mistake(steps: Sequence[Mapping[str, Any]], chance: random.Random) -> dict[str, Any]:
    """A turn whose call fails and changes nothing: a misspelt tool, an unknown argument, or broken JSON."""
    first = next((each for step in steps for each in step["tool_calls"]), submit()["tool_calls"][0])
    wrong = [
        {**first, "name": first["name"][:-1] + "_x"},
        {**first, "arguments": {**first["arguments"], "no_such_argument": "x"}},
        {**first, "arguments": '{"broken": '},
    ]
    return turn("begin", chance.choice(wrong))
