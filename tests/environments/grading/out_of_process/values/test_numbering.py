"""Numbers of objects do not depend on the private state of a solution."""

from __future__ import annotations

from typing import Any

import pytest


class Address:
    def __init__(self, host: str) -> None:
        self.host, self.parts = host, [host]


class Page:
    """Its constructor is examined: what it holds is the solution's own business."""


def answer(side: dict[str, Any], sent: list[Any], result: Any) -> tuple[Any, dict[str, Any]]:
    """Return the numbers that an answer gives, by object, and the answer."""
    values = side["Values"]([f"{__name__}:Page"], [__name__.partition(".")[0]])
    values.begin()
    call = {"arguments": [values.new_object(item) if type(item) is Page else values.encode(item) for item in sent]}
    given, _ = side["describe_answer"](values, 0, {**call, "keywords": {}}, sent, (result, None, ("", "")))
    return values.numbers, given


@pytest.fixture(autouse=True)
def public_classes(monkeypatch: pytest.MonkeyPatch, side: dict[str, Any]) -> None:
    monkeypatch.setitem(side, "is_of_tests", lambda module: False)


@pytest.mark.parametrize("private", [{}, {"_decoded": {"host": []}}, {"_call": [[], []], "_z": {}}], ids=str)
def test_private_state_shifts_no_number_of_what_a_caller_sees(side: dict[str, Any], private: dict[str, Any]) -> None:
    page, address, results = Page(), Address("a"), ([], {"x": [1]})
    page.__dict__.update(private, _url=address)
    numbers, _ = answer(side, [page], results)
    assert numbers[id(page)] == 1
    assert numbers[id(address)] == "0.1/_url.1" and numbers[id(address.parts)] == "0.0.1/_url.1/parts.1"
    assert [numbers[id(item)] for item in (results[0], results[1], results[1]["x"])] == ["0.1", "0.2", "0.3"]


def test_a_cache_in_an_argument_shifts_no_number_of_the_result(side: dict[str, Any]) -> None:
    for has_cache in (False, True):
        address, result = Address("a"), (Address("b"), [Address("c")])
        values = side["Values"]([], [__name__.partition(".")[0]])
        values.begin()
        call = {"arguments": [values.encode(address)], "keywords": {}}
        if has_cache:
            address.cache = {1: [], 2: result, 3: {}}  # type: ignore[attr-defined]
        side["describe_answer"](values, 0, call, [address], (result, None, ("", "")))
        shown = [values.numbers[id(item)] for item in (result[0], result[1], result[1][0])]
        assert shown == ["0.1", "0.2", "0.3"]


def test_an_object_of_a_later_answer_has_a_number_of_its_own(side: dict[str, Any]) -> None:
    values = side["Values"]([f"{__name__}:Page"], [__name__.partition(".")[0]])
    values.begin()
    page = Page()
    values.new_object(page)
    seen = set()
    for number in range(3):
        page.url = Address("a")  # type: ignore[attr-defined]
        side["describe_answer"](values, number, {"arguments": [], "keywords": {}}, [page], (None, None, ("", "")))
        seen.add(values.numbers[id(page.url)])  # type: ignore[attr-defined]
        assert values.objects[values.numbers[id(page.url)]] is page.url  # type: ignore[attr-defined]
    assert len(seen) == 3


def test_a_long_chain_of_owners_has_short_numbers(side: dict[str, Any]) -> None:
    chain = Address("end")
    for _ in range(30):
        outer = Address("a")
        outer.inner, chain = chain, outer  # type: ignore[attr-defined]
    numbers, _ = answer(side, [], chain)
    assert max(map(len, map(str, numbers.values()))) < 150
    assert len(set(numbers.values())) == len(numbers) == 62
