"""Objects whose class cannot make them again: they get their content from the built-in base, and no code runs."""

from __future__ import annotations

import collections
import sys
import types
from typing import Any

import pytest

HERE = "grammar"


class Token(tuple[str, str]):
    """A pair whose constructor takes another argument than the pair holds, as parsers have."""

    place: int

    def __new__(cls, kind: str, text: str, place: int) -> Token:
        made = super().__new__(cls, (kind, text))
        made.place = place
        return made


class Address(collections.namedtuple("Address", "host port")):
    """A named tuple with a further argument."""

    def __new__(cls, host: str, port: int, text: str) -> Address:
        return super().__new__(cls, host.lower(), port)


class Name(str):
    """A text whose constructor takes what it holds."""

    def __new__(cls, text: str) -> Name:
        return super().__new__(cls, text.lower())


class Twins(dict[Any, Any]):
    """A dictionary that writes every pair in both directions."""

    def __setitem__(self, key: Any, value: Any) -> None:
        dict.__setitem__(self, key, value)
        dict.__setitem__(self, value, key)


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType(HERE)
    for kind in (Token, Address, Name, Twins):
        monkeypatch.setattr(kind, "__module__", HERE)
        setattr(module, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, HERE, module)


def values(side: dict[str, Any], allowed: Any = None, opaque: Any = ()) -> Any:
    made = side["Values"](opaque, [HERE], allowed=allowed)
    made.begin("0")
    return made


@pytest.mark.parametrize("value", [Token("word", "a", 3), Address("A", 80, "A:80"), Name("X")], ids=type)
@pytest.mark.parametrize("opaque", [(), [f"{HERE}:Token", f"{HERE}:Address"]])
def test_an_object_arrives_whatever_its_constructor_takes(side: dict[str, Any], value: Any, opaque: Any) -> None:
    arrived = values(side, opaque=opaque).decode(values(side, opaque=opaque).encode(value))
    assert type(arrived) is type(value) and arrived == value and vars(arrived) == vars(value)


def test_an_object_is_made_by_its_class_where_that_takes_its_content(side: dict[str, Any]) -> None:
    assert values(side).encode(Name("x"))[2][0] == "new"
    assert values(side).encode(Token("word", "a", 3))[2][0] == "content"
    assert values(side, opaque=[f"{HERE}:Name"]).encode(Name("x"))[2][0] == "content"


def test_a_dictionary_arrives_without_its_own_way_of_setting_items(side: dict[str, Any]) -> None:
    twins = Twins()
    dict.__setitem__(twins, "a", 1)
    assert dict(values(side).decode(values(side).encode(twins))) == {"a": 1}


def test_the_trusted_side_makes_only_expected_objects_of_plain_content(side: dict[str, Any]) -> None:
    names = {(f"content {HERE}", "Token"), (f"content {HERE}", "Twins"), (f"new {HERE}", "Name")}
    trusted = values(side, allowed=lambda *place: place in names)
    plain, state = ["t", ["word", "a"]], ["D", [["place", 3]]]

    def form(number: str, name: str, content: Any) -> list[Any]:
        return ["o", number, ["content", ["g", HERE, name]], content, state, None, None]

    assert trusted.decode(form("0.1", "Token", [plain])) == ("word", "a")
    for number, (name, content) in enumerate(
        [
            ("Token", []),
            ("Token", [plain, plain]),
            ("Token", [["l", "0.90", ["word", "a"]]]),
            ("Token", [form("0.91", "Token", [plain])]),
            ("Token", ["word"]),
            ("Twins", [["d", "0.92", []]]),
            ("Name", ["x"]),
        ]
    ):
        with pytest.raises(side["CannotEncode"]):
            trusted.decode(form(f"0.{number + 10}", name, content))
