"""The agent ``noisy``: it solves tasks and follows hints with known probabilities.

So it is known in advance what a measurement of hints must find. An episode begins with a mistake that changes nothing;
then the agent solves the task or submits a wrong answer. The probability of solving is ``solves`` without a hint and
``follows + (1 - follows) * solves`` with one, as long as the turns before have changed nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ...errors import UnknownName
from ...models import Task, Turn
from ..actions import Action, call, turn
from ..rng import stream
from .scripted import SUBMIT, Script, solution

SOLVES, FOLLOWS = 0.25, 0.6


def noisy(task: Task, variant: str = "", *, past: Sequence[Turn] = (), hint: str = "", seed: int = 0) -> Script:
    """Err once, then solve with a known probability; ``noisy:SOLVES,FOLLOWS`` sets it with and without a hint.

    ``past`` are the turns before the first observation. The same arguments play the same actions. Raises UnknownName
    for a variant that is not two probabilities.
    """
    solves, follows = chances(variant)
    chance = stream(seed, task.task_id, variant)
    followed = chance.random() < follows and bool(hint)
    solved = chance.random() < solves or followed
    right = solution(task)
    actions = [] if past or followed else [mistake(right.actions, chance)]
    if solved:
        actions += [*right.actions, turn("done", right.submission)]
    else:
        actions.append(turn("done", call("submit", answer="I do not know")))
    return Script(actions)


def chances(variant: str) -> tuple[float, float]:
    """Return the two probabilities of a variant. Raises UnknownName."""
    try:
        solves, follows = (float(part) for part in variant.split(",")) if variant else (SOLVES, FOLLOWS)
    except ValueError:
        solves = follows = -1.0
    if not (0 <= solves <= 1 and 0 <= follows <= 1):
        raise UnknownName(f"the agent noisy has no variant {variant!r}: give SOLVES,FOLLOWS, such as noisy:0.25,0.6")
    return solves, follows


def mistake(steps: Sequence[Action], chance: random.Random) -> Action:
    """Return a turn whose call fails and changes nothing: a misspelt tool, an unknown argument, or broken JSON."""
    first = next((item for step in steps for item in step["tool_calls"]), SUBMIT["tool_calls"][0])
    wrong = [
        {**first, "name": first["name"][:-1] + "_x"},
        {**first, "arguments": {**first["arguments"], "no_such_argument": "x"}},
        {**first, "arguments": '{"broken": '},
    ]
    return turn("begin", chance.choice(wrong))
