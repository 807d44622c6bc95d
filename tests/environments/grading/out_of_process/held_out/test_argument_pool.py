"""Arguments by place: each is looked at once, however often a proposal asks."""

from __future__ import annotations

from typing import Any

import pytest

from etude.environments.grading.out_of_process.held_out import argument_pool
from etude.environments.grading.out_of_process.held_out.argument_pool import ArgumentPool
from etude.environments.grading.out_of_process.held_out.sequences import repeats_test


def call(*arguments: Any, **keywords: Any) -> dict[str, Any]:
    return {"target": "m:f", "arguments": list(arguments), "keywords": keywords}


def test_a_pool_gives_the_arguments_of_a_place_and_the_plain_ones() -> None:
    function = ["L", "0.1", []]
    pool = ArgumentPool([call(1, key=["l", 1, [2]]), call(function), call()])
    assert (pool.everything(0), pool.plain(0)) == ([1, function], [1])
    assert pool.is_plain(0, pool.everything(0)[0]) and not pool.is_plain(0, function)
    assert pool.plain("key") == [["l", 1, [2]]] and pool.everything("other") == []


def test_a_pool_searches_an_argument_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Any] = []
    original = argument_pool.is_plain
    monkeypatch.setattr(argument_pool, "is_plain", lambda form: searched.append(form) or original(form))
    tree = ["l", 1, [["l", 2, [3]]]]
    pool = ArgumentPool([call(tree)])
    assert all(pool.is_plain(0, tree) and pool.plain(0) == [tree] for _ in range(5))
    assert searched == [tree]


def test_a_test_of_other_calls_is_not_repeated_and_not_searched() -> None:
    """The keys of such a test are never made: its arguments may even have no key."""
    no_key = {**call(object()), "target": "m:g"}
    assert not repeats_test([call(1)], [[no_key], [call(2)], []])
    assert repeats_test([call(["l", 5, [1]])], [[no_key], [call(["l", 1, [1]]), call(2)]])
