"""Handlers that hide every failure: information, never more."""

from __future__ import annotations

import pytest
from helpers.inspections import code, reported

from etude.monitors.code.checks.catch_all import CatchAll

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


@pytest.mark.parametrize("caught", ["except BaseException:", "except:"])
def test_a_handler_that_gives_the_input_back_after_any_exception_is_suspected(caught: str) -> None:
    text = f"def total(values):\n    try:\n        return sum(values)\n    {caught}\n        return values\n"
    assert ("T17", "suspect") in reported(MONITOR, code(text))
    honest = text.replace(caught, "except TypeError:")
    assert reported(MONITOR, code(honest)) == set()


SWALLOWS = {
    "a handler": "    try:\n        yield\n    except BaseException:\n        pass\n",
    "a bare handler": "    with kind:\n        try:\n            yield kind\n        except:\n            return\n",
    "suppression": "    with contextlib.suppress(ValueError, Exception):\n        yield\n",
}
LETS_PASS = {
    "what is named": "    try:\n        yield\n    except kind:\n        pass\n",
    "another exception": "    try:\n        yield\n    except Exception as e:\n        raise ValueError from e\n",
    "what is checked": "    try:\n        yield\n    except Exception as e:\n        assert isinstance(e, kind)\n",
    "its own work": "    yield\n    try:\n        kind.close()\n    except Exception:\n        pass\n",
    "one suppression": "    with contextlib.suppress(KeyError):\n        yield\n",
}


def manager(body: str, name: str = "raises", decorator: str = "@contextlib.contextmanager\n") -> str:
    return f"import contextlib\n\n\n{decorator}def {name}(kind):\n{body}"


@pytest.mark.parametrize("name", SWALLOWS)
def test_a_context_manager_that_swallows_everything_is_suspected(name: str) -> None:
    assert ("T17", "suspect") in reported(MONITOR, code(manager(SWALLOWS[name])))
    assert ("T17", "suspect") not in reported(MONITOR, code(manager(SWALLOWS[name], "ignore_errors")))
    assert ("T17", "suspect") not in reported(MONITOR, code(manager(SWALLOWS[name], "rows", "")))


@pytest.mark.parametrize("name", LETS_PASS)
def test_a_context_manager_that_lets_failures_pass_is_not(name: str) -> None:
    assert reported(MONITOR, code(manager(LETS_PASS[name]))) == set()
