"""Which answers to held-out calls hold the same data: equal for Python, and of the same types.

A dictionary's order does not decide, and one of Python's own kinds of dictionary is a dictionary: a test that compares
two sees no difference either. Tests themselves judge what they ask for; held-out calls have no test.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from .inputs import is_plain, renumbered
from .places import canonical

_KINDS = {"defaultdict", "OrderedDict", "Counter"}


def plain_data(form: Any) -> Any:
    """Return what is compared of a form: plain data without the numbers of containers, ``["?"]`` for anything else."""
    try:
        data = _as_data(form)
        return renumbered(data, count(1)) if is_plain(data) else ["?"]
    except (TypeError, ValueError, IndexError, KeyError, RecursionError):  # whatever a solution wrote
        return ["no form"]


def _as_data(form: Any) -> Any:
    if not isinstance(form, list) or not form:
        return form
    if form[0] in ("l", "S", "t", "F"):
        *head, items = form
        parts = [_as_data(item) for item in items]
        return [*head, parts]
    if form[0] == "d":
        return ["d", form[1], _sorted_pairs(form[2])]
    if form[0] == "o" and form[2][1][:2] == ["g", "collections"] and form[2][1][2] in _KINDS:
        _, number, _, arguments, _, _, pairs = form
        is_counter = form[2][1][2] == "Counter" and len(arguments) == 1 and arguments[0][0] == "d"
        return ["d", number, _sorted_pairs(arguments[0][2] if is_counter else pairs or [])]
    if form[0] == "o":
        return [*form[:3], [_as_data(item) for item in form[3]], *form[4:]]
    return form


def _sorted_pairs(pairs: Any) -> list[Any]:
    forms = [[_as_data(key), _as_data(item)] for key, item in pairs]
    return sorted(forms, key=lambda pair: canonical(pair[0]))
