"""Value objects get other data in held-out calls; other objects are only exchanged for whole ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from etude.environments.grading.out_of_process.forms import is_object
from etude.environments.grading.out_of_process.held_out.inputs import held_out_calls
from etude.environments.grading.out_of_process.held_out.sequences import held_out_sequences
from etude.environments.grading.out_of_process.held_out.value_objects import other_object, value_classes

SOURCE = """
import dataclasses

class Version:
    def __init__(self, major, minor=0, *, prerelease=None):
        self._major, self._minor, self._prerelease = major, minor, prerelease

class Counted:
    def __init__(self, items):
        self.items, self.length = items, len(items)

class Open:
    def __init__(self, major, **more):
        self.major = major

@dataclasses.dataclass
class Point:
    x: int
    y: int = 0

class Outer:
    class Inner:
        def __init__(self, text):
            self.text = text
"""


def version(number: int, major: int, prerelease: str | None, name: str = "Version") -> list[Any]:
    fields = [["_major", major], ["_minor", 2], ["_prerelease", prerelease]]
    return ["o", number, ["new", ["g", "pkg.core", name]], [], ["t", [None, ["D", fields]]], None, None]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src/pkg").mkdir(parents=True)
    (tmp_path / "src/pkg/core.py").write_text(SOURCE)
    (tmp_path / "src/pkg/__init__.py").write_text("class Root:\n    def __init__(self, text):\n        pass\n")
    (tmp_path / "src/pkg/odd.py").write_bytes(b"\xff(")
    return tmp_path


@pytest.mark.parametrize(
    ("module", "name", "attributes", "expected"),
    [
        ("pkg.core", "Version", "_major _minor _prerelease", True),
        ("pkg.core", "Version", "_major _minor", False),
        ("pkg.core", "Counted", "items length", False),
        ("pkg.core", "Open", "major", False),
        ("pkg.core", "Point", "x y", True),
        ("pkg.core", "Outer.Inner", "text", True),
        ("pkg", "Root", "text", True),
        ("pkg", "Absent", "text", False),
        ("pkg.odd", "Root", "text", False),
        ("other", "Root", "", False),
    ],
)
def test_a_value_class_holds_what_its_constructor_takes(
    tree: Path, module: str, name: str, attributes: str, expected: bool
) -> None:
    assert value_classes(tree, ["src", "."])(module, name, frozenset(attributes.split())) is expected


def test_an_object_gets_other_data_where_its_class_allows_that(tree: Path) -> None:
    others = [version(1, 3, "rc.1"), version(2, 0, None)]
    known = {str(item[3:]) for item in others}
    choice = random.Random(1)
    changed = [other_object(others[0], others, value_classes(tree, ["src"]), choice) for _ in range(200)]
    new = [item for item in changed if str(item[3:]) not in known]
    assert len(new) > 40 and all(is_object(item) for item in changed)
    texts = {dict(item[4][1][1][1])["_prerelease"] for item in new} - {None, "rc.1"}
    assert any(len(str(text)) > 4 for text in texts), "numbers of other lengths too"
    kept = [other_object(others[0], others, lambda *_: False, choice) for _ in range(100)]
    assert {str(item[3:]) for item in kept} == known, "others are exchanged for what a test shows"
    stranger = version(3, 9, None, "Counted")
    assert other_object(stranger, others, lambda *_: False, choice) == stranger, "but not for one of another class"


def call(*arguments: Any) -> dict[str, Any]:
    answer = {"result": 1, "after": None, "error": None, "printed": ""}
    return {"target": "pkg.core:f", "arguments": list(arguments), "keywords": {}, "answer": answer}


def test_an_object_that_a_later_call_gets_again_stays() -> None:
    free = [[call(version(1, 1, None), "a")], [call(version(1, 2, None), "b")], [call(version(1, 3, None), "c")]]
    tied = [[*calls, call(["r", 1], "d")] for calls in free]
    for tests, is_exchanged in ((free, True), (tied, False)):
        own = {str(calls[0]["arguments"][1]): calls[0]["arguments"][0][4] for calls in tests}
        new = held_out_sequences(tests, ["pkg.core:f"], random.Random(2))
        numbers = {calls[0]["arguments"][0][1] for calls in new}
        assert (numbers != {1}) is is_exchanged
        moved = [calls for calls in new if own.get(calls[0]["arguments"][1]) not in (None, calls[0]["arguments"][0][4])]
        assert bool(moved) or not is_exchanged


def test_held_out_calls_get_other_objects_too(tree: Path) -> None:
    tests = [[call(version(number, number, "rc.1"), "a")] for number in range(1, 4)]
    choice, is_value_class = random.Random(4), value_classes(tree, ["src"])
    new = held_out_calls(
        tests,
        choice,
        is_bold=False,
        other_object=lambda form, others: other_object(form, others, is_value_class, choice),
    )
    objects = [item["arguments"][0] for item in new["pkg.core:f"]]
    assert len({item[1] for item in objects}) == len(objects), "each is numbered anew"
    assert {str(item[4]) for item in objects} - {str(calls[0]["arguments"][0][4]) for calls in tests}
