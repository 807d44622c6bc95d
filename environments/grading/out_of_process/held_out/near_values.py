"""Values near the constants of a solution, and near what tests show: one place differs, or a length is next to a limit.

They are forms (see ``values/encoding.py``). The caller numbers their containers again and keeps them in the domain.
"""

from __future__ import annotations

import random
import re
from typing import Any

from .constants import Constants
from .variation import nearly

MOST_ITEMS = 40
"""Most items or characters of a value that is made longer."""


def near(form: Any, constants: Constants, choice: random.Random) -> Any:
    """Return a form of the same type: near a constant, or near ``form``. A bool becomes the other one."""
    if isinstance(form, bool):
        return not form
    if isinstance(form, int):
        return choice.choice([form, *constants.numbers]) + choice.choice([-1, 0, 1])
    if isinstance(form, str):
        return _near_text(form, constants, choice)
    if not isinstance(form, list):
        return form
    if form[0] == "f":
        number = choice.choice([float(form[1]), *map(float, constants.numbers)])
        return ["f", repr(number + choice.choice([-1.0, -0.5, 0.0, 0.5, 1.0]))]
    if form[0] in ("l", "t") and form[-1]:
        return [*form[:-1], _near_items(form[-1], constants, choice)]
    if form[0] == "d" and form[-1]:
        pairs = list(form[-1])
        place = choice.randrange(len(pairs))
        changed = [pairs[place][0], near(pairs[place][1], constants, choice)]
        others = [*pairs[:place], *pairs[place + 1 :]]
        return [*form[:-1], choice.choice([[*pairs[:place], changed, *pairs[place + 1 :]], others, pairs[::-1]])]
    return form


def _near_items(items: list[Any], constants: Constants, choice: random.Random) -> list[Any]:
    place = choice.randrange(len(items))
    length = choice.choice([len(items), *constants.numbers]) + choice.choice([-1, 0, 1])
    changed = [*items[:place], near(items[place], constants, choice), *items[place + 1 :]]
    repeated = [*items[:place], items[place], *items[place:]]
    return choice.choice([changed, changed, repeated, items[::-1], _of_length(items, length)])


def _near_text(text: str, constants: Constants, choice: random.Random) -> str:
    number = choice.choice([0, *constants.numbers]) + choice.choice([0, 1, 1, 2]) - 1
    length = choice.choice([len(text), *constants.numbers]) + choice.choice([-1, 0, 1])
    place = choice.choice([0, len(text), choice.randint(0, len(text))])
    constant = choice.choice(constants.texts) if constants.texts else text[place : place + 1]
    other = choice.choice([constant, constant, constant.swapcase(), constant * 2])
    inserted = text[:place] + other + text[place:]
    replaced = text[:place] + other + text[place + len(other) :]
    with_number = re.sub(r"\d+", str(max(number, 0)), text, count=choice.choice([0, 1]))
    without = text.replace(constant, "", 1) if constant else text
    choices = [inserted, replaced, with_number, nearly(text, choice), without, other]
    return choice.choice([*choices, "".join(_of_length(list(text), length))])


def _of_length(items: list[Any], length: int) -> list[Any]:
    """Return items cut or repeated to a length."""
    length = max(0, min(length, MOST_ITEMS))
    return (items * (length // len(items) + 1))[:length] if items else items
