"""Objects of a solution's own classes, and Python's containers, arrive as the plain data that they hold."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from etude.environments.grading.out_of_process.judging.answers import is_same_held_out


class Text(str):
    """A string with an attribute, as solutions make them for caches."""


class Pairs(dict[str, int]):
    """A dictionary of a class of its own."""


class Lying(str):
    """A string that claims to be another one."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


def text() -> Text:
    value = Text("a")
    value.cache = 3  # type: ignore[attr-defined]
    return value


def limited() -> Any:
    return collections.deque([1, 2], maxlen=2)


def local() -> Any:
    class Local(list[int]):
        pass

    return Local([1, 2])


def given(side: dict[str, Any], result: Any, error: Any = None) -> dict[str, Any]:
    values = side["Values"]()
    answer, _ = side["describe_answer"](values, 0, {"arguments": [], "keywords": {}}, [], (result, error, ("", "")))
    assert isinstance(answer, dict)
    return answer


def received(side: dict[str, Any], answer: dict[str, Any], names: Any = ()) -> Any:
    """Return what a test gets of an answer; ``names`` are those that recorded answers have."""

    def allowed(module: str, name: str) -> bool:
        return (module, name) in names or module == "builtins" and name in ("ValueError", "KeyError")

    boundary = side["Boundary"]({"opaque": [], "packages": [], "answers": {}})
    boundary.values = side["Values"]((), (), allowed)
    return boundary._given({"target": "m:f", "arguments": [], "keywords": {}}, answer)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.defaultdict(lambda: 3, a=2), {"a": 2}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (limited(), [1, 2]),
        (text(), "a"),
        (Pairs(a=1), {"a": 1}),
        (local(), [1, 2]),
        ([collections.deque([text()])], [["a"]]),
        ({"x": collections.OrderedDict(a=limited())}, {"x": {"a": [1, 2]}}),
        (type("Whole", (int,), {})(7), 7),
        (type("Part", (float,), {})(0.5), 0.5),
        (collections.namedtuple("Pair", "a b")(1, 2), (1, 2)),
        (type("Bag", (set,), {})([1]), {1}),
        (type("Frozen", (frozenset,), {})([1]), frozenset({1})),
    ],
)
def test_data_of_another_class_arrives_as_plain_data(side: dict[str, Any], value: Any, expected: Any) -> None:
    result = received(side, given(side, value))
    assert result == expected and type(result) is type(expected)
    call = {"target": "m:f", "arguments": [], "keywords": {}, "answer": given(side, expected)}
    assert is_same_held_out(call, given(side, value))
    other = {**call, "answer": given(side, [expected, 1])}
    assert not is_same_held_out(other, given(side, value))


def test_an_expected_class_still_makes_its_own_objects(side: dict[str, Any]) -> None:
    value = collections.OrderedDict(a=1)
    result = received(side, given(side, value), {("call collections", "OrderedDict")})
    assert result == value and type(result) is collections.OrderedDict


def test_a_value_that_occurs_twice_arrives_twice(side: dict[str, Any]) -> None:
    one, rows = text(), limited()
    result = received(side, given(side, [one, one, rows, rows]))
    assert result == ["a", "a", [1, 2], [1, 2]] and result[2] is result[3] and type(result[1]) is str


def test_nothing_of_a_class_arrives_with_its_data(side: dict[str, Any]) -> None:
    """A factory, an attribute or an equality of the solution would be code beside the test."""
    result = received(side, given(side, [Lying("x"), collections.defaultdict(Lying, a=1)]))
    assert result != ["y", {"a": 1}] and [type(item) for item in result] == [str, dict]
    call = {"target": "m:f", "arguments": [], "keywords": {}, "answer": given(side, "y")}
    assert not is_same_held_out(call, given(side, Lying("x")))


@pytest.mark.parametrize(
    "bases",
    [[["builtins", "eval"]], [["os", "system"]], [["builtins", "type"]], [["builtins", []]], [], 3, [["m", "dict"]]],
    ids=repr,
)
def test_a_claim_about_bases_makes_no_other_object(side: dict[str, Any], bases: Any) -> None:
    form = ["o", "0.1", ["call", ["g", "os", "system"]], ["true"], None, None, None]
    answer = {"result": form, "after": None, "error": None, "printed": "", "classes": {"os:system": bases}}
    with pytest.raises((side["CannotEncode"], TypeError)):
        received(side, answer)
    answer["classes"] = {"os:system": [["builtins", "str"]]}
    assert received(side, answer) == "true"


def raised(side: dict[str, Any], error: Exception) -> Exception:
    with pytest.raises(Exception) as caught:
        received(side, given(side, None, error))
    return caught.value


def test_an_exception_of_a_class_that_is_made_on_the_way_is_one_of_its_base(side: dict[str, Any]) -> None:
    class Own(ValueError):
        pass

    class Inner(Own):
        pass

    for error in (Own("bad"), Inner("bad")):
        caught = raised(side, error)
        assert type(caught) is ValueError and caught.args == ("bad",)
        for expected, is_same in ((ValueError("x"), True), (KeyError("bad"), False)):
            call = {"target": "m:f", "arguments": [], "keywords": {}, "answer": given(side, None, expected)}
            assert is_same_held_out(call, given(side, None, error)) is is_same
    other = type("Other", (BaseException,), {})
    assert "Other" not in str(side["bases_of"](other, set()))


def test_every_exception_that_a_class_derives_from_is_named(side: dict[str, Any]) -> None:
    assert side["bases_of"](UnicodeDecodeError, set()) == [["builtins", "UnicodeError"], ["builtins", "ValueError"]]
    call = {"target": "m:f", "arguments": [], "keywords": {}, "answer": given(side, None, ValueError("x"))}
    error = UnicodeDecodeError("ascii", b"x", 0, 1, "bad")
    assert is_same_held_out(call, given(side, None, error)) and not is_same_held_out(
        {**call, "answer": given(side, None, Exception("x"))}, given(side, None, error)
    )


def test_an_answer_that_unfolds_without_end_is_no_answer(side: dict[str, Any]) -> None:
    """Each pair holds the one before twice: as plain data it doubles with every level."""
    form: Any = ["t", [1, 2]]
    for level in range(1, 60):
        pair = [form, form if level == 1 else ["r", f"0.{level - 1}"]]
        form = ["o", f"0.{level}", ["new", ["g", "m", "Pair"]], [["t", pair]], None, None, None]
    answer = {
        "result": form,
        "after": None,
        "error": None,
        "printed": "",
        "classes": {"m:Pair": [["builtins", "tuple"]]},
    }
    with pytest.raises(ValueError, match="too many parts"):
        side["with_stand_ins"](answer, lambda _module, _name: False)
    assert not is_same_held_out({"target": "m:f", "arguments": [], "keywords": {}, "answer": given(side, 1)}, answer)
