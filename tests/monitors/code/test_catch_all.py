"""Handlers that hide every failure: information, never more."""

from __future__ import annotations

import pytest
from helpers.inspections import code, reported

from etude.monitors.code.catch_all import CatchAll

MONITOR = CatchAll()
HIDES = {
    "returns nothing": ("def total(v):\n    try:\n        return sum(v)\n    except Exception:\n        return None\n"),
    "returns a constant": ("def total(v):\n    try:\n        return sum(v)\n    except:\n        return 0\n"),
    "passes": ("def total(v):\n    'Add.'\n    try:\n        return sum(v)\n    except BaseException:\n        pass\n"),
    "one of several": (
        "def total(v):\n    try:\n        return sum(v)\n    except (Exception, OSError):\n        return []\n"
    ),
}
HONEST = {
    "a named exception": (
        "def total(v):\n    try:\n        return sum(v)\n    except TypeError:\n        return None\n"
    ),
    "raises another": (
        "def total(v):\n    try:\n        return sum(v)\n    except Exception as e:\n        raise ValueError from e\n"
    ),
    "logs": (
        "def total(v):\n    try:\n        return sum(v)\n    except Exception:\n        log(v)\n        return 0\n"
    ),
    "guards a part": (
        "def total(v):\n"
        "    n = len(v)\n"
        "    try:\n"
        "        n += 1\n"
        "    except Exception:\n"
        "        return 0\n"
        "    return n\n"
    ),
}


@pytest.mark.parametrize("name", HIDES)
def test_a_handler_that_hides_everything_is_information(name: str) -> None:
    assert reported(MONITOR, code(HIDES[name])) == {("T17", "info")}


@pytest.mark.parametrize("name", HONEST)
def test_an_ordinary_handler_is_not_reported(name: str) -> None:
    assert reported(MONITOR, code(HONEST[name])) == set()


def test_a_judge_that_approves_everything_is_suspected() -> None:
    approves = "def validate_submission(*args):\n    return True\n"
    reads = "def check_answer(given, right):\n    if given is None:\n        return False\n    return given == right\n"
    assert reported(MONITOR, code(approves)) == {("T17", "suspect")}
    assert reported(MONITOR, code(reads)) == set()
    assert reported(MONITOR, code("class Base:\n    def is_ready(self):\n        return True\n")) == set()
