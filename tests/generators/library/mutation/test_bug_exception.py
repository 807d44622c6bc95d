"""The generator ``bug_exception``: errors that escape, are swallowed, or have a wrong type."""

from __future__ import annotations

import pytest

CASES = [
    (
        "unwrapped",
        "def f(a):\n    try:\n        a.go()\n    except KeyError:\n        pass\n    finally:\n        a.stop()\n",
        {"try: / a.go() / except KeyError: / pass / finally: / a.stop() -> a.go() / a.stop()"},
    ),
    (
        "narrowed",
        "def f(a):\n    try:\n        a.go()\n    except (KeyError, TypeError):\n        a.stop()\n",
        {"except (KeyError, TypeError): -> except TypeError:", "except (KeyError, TypeError): -> except KeyError:"},
    ),
    (
        "widened",
        "def f(a):\n    try:\n        raise a\n    except KeyError:\n        a.stop()\n",
        {"except KeyError: -> except Exception:"},
    ),
    (
        "swallowed",
        "def f(a):\n    try:\n        a.go()\n    except KeyError:\n        a.stop()\n        raise\n",
        {"raise ->"},
    ),
    (
        "type",
        "class Bad(Exception):\n    pass\n\ndef f(a):\n    if a:\n        raise Bad('no')\n    raise KeyError(a)\n",
        {"raise KeyError(a) -> raise IndexError(a)", "raise Bad('no') -> raise ValueError('no')"},
    ),
    (
        "dropped_clause",
        "def f(a):\n    try:\n        a.go()\n    except KeyError:\n        a.stop()\n    finally:\n        a.end()\n",
        {"finally: / a.end() ->"},
    ),
    (
        "dropped_clause",
        "def f(a):\n    try:\n        a.go()\n    except KeyError:\n        a.stop()\n"
        "    except TypeError:\n        a.end()\n",
        {"except KeyError: / a.stop() ->", "except TypeError: / a.end() ->"},
    ),
    (
        "dropped_with",
        "def f(a):\n    with suppress(KeyError):\n        a.go()\n"
        "    with open(a) as b:\n        b.go()\n    with a.lock:\n        a.go()\n",
        {"with suppress(KeyError): / a.go() -> a.go()"},
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_each_kind_of_mistake_is_made_where_it_fits(changes, kind, source, expected):
    assert changes("bug_exception", kind, source) == expected
