"""Calls whose arguments and results are objects that their own class cannot make again are recorded and judged."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.recorded_tasks import HIDDEN, grade_of, task_with, with_record

from etude.environments.snapshots import Snapshot
from etude.models import Task

HEAD = (
    "class Token(tuple):\n    def __new__(cls, kind, text, place):\n        made = super().__new__(cls, (kind, text))\n"
    "        made.place = place\n        return made\n\n\n"
    "class Twins(dict):\n    def __setitem__(self, key, value):\n        dict.__setitem__(self, key, value)\n"
    "        dict.__setitem__(self, value, key)\n\n\n"
    "def largest(values):\n    return max(values)\n\n\ndef total(tokens, twins):\n"
)
STUB = "    raise NotImplementedError\n"
OWN = (
    "    number = sum(int(text) for _, text in tokens) + len(twins)\n"
    "    return Token('sum', str(number), tokens[-1].place)\n"
)
HONEST = (
    "    number = len(twins)\n    for token in tokens:\n        number += int(token[1])\n"
    "    return Token('sum', f'{number}', tokens[len(tokens) - 1].place)\n"
)
WRONG = {
    "another content": OWN.replace("len(twins)", "1"),
    "another attribute": OWN.replace("tokens[-1].place", "tokens[0].place"),
    "another class": OWN.replace("Token('sum', ", "('sum', ").replace(", tokens[-1].place", ""),
    "equal to all": "    class Equal(Token):\n        __eq__ = lambda self, other: True\n        __hash__ = None\n"
    "    return Equal('sum', '0', tokens[-1].place)\n",
    "a table": "    known = {'0': '5', '1': '7', '2': '9'}\n"
    "    return Token('sum', known.get(tokens[0][1], '5'), tokens[-1].place)\n",
}
TEST = """
import pytest

from tally.core import Token, Twins, total


@pytest.mark.parametrize('n', range(6))
def test_total(n):
    twins = Twins()
    dict.__setitem__(twins, 'a', n)
    dict.__setitem__(twins, 'b', n)
    result = total([Token('number', str(n), 1), Token('number', str(n + 3), n + 2)], twins)
    assert type(result) is Token and result == ('sum', str(2 * n + 5)) and result.place == n + 2
"""


@pytest.fixture(scope="module")
def examined(task: Task, snapshot: Snapshot) -> Task:
    failing = [f"{HIDDEN}::test_total[{n}]" for n in range(6)]
    exercise, solved = ((HEAD + body).encode() for body in (STUB, OWN))
    changed = task_with(task, snapshot, "tally-content", exercise, solved, TEST, failing)
    return with_record(changed, snapshot, "out_of_process")


def test_an_honest_solution_scores_one(examined: Task) -> None:
    assert grade_of(examined, HEAD + HONEST).reward.value == grade_of(examined, HEAD + OWN).reward.value == 1.0


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_solution_scores_zero(examined: Task, name: Any) -> None:
    assert grade_of(examined, HEAD + WRONG[name]).reward.value == 0.0
