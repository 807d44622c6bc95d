"""The generator ``bug_concurrency``: lost locks, awaits and joins."""

from __future__ import annotations

import pytest

CASES = [
    (
        "lock",
        "def f(a):\n    with a.lock:\n        a.go()\n    a.lock.acquire()\n",
        {"a.lock.acquire() ->", "with a.lock: / a.go() -> a.go()"},
    ),
    ("outside_lock", "def f(a):\n    with a.lock:\n        a.go()\n        a.stop()\n", {"a.stop() -> a.stop()"}),
    (
        "check_then_act",
        "def f(a):\n    with a.lock:\n        if not a.ready:\n            a.go()\n",
        {"with a.lock: / if not a.ready: -> if not a.ready: / with a.lock:"},
    ),
    ("await", "async def f(a):\n    return await a.go()\n", {"return await a.go() -> return a.go()"}),
    (
        "gather",
        "async def f(a, b):\n    return await gather(a(), b())\n",
        {"return await gather(a(), b()) -> return await gather(b(), a())"},
    ),
    ("join", "def f(thread, words):\n    thread.join()\n    words.join()\n", {"thread.join() ->"}),
    (
        "async_with",
        "async def f(a):\n    async with a.session:\n        a.go()\n",
        {"async with a.session: / a.go() -> a.go()"},
    ),
    (
        "limit",
        "async def f(a):\n    return await wait_for(a.go(), 3)\n",
        {"return await wait_for(a.go(), 3) -> return await a.go()"},
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_each_kind_of_mistake_is_made_where_it_fits(changes, kind, source, expected):
    assert changes("bug_concurrency", kind, source) == expected
