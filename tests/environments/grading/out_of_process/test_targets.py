"""Examined functions of a task; the trusted tree behaves as before when nothing is recorded."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from etude.environments.grading.out_of_process.targets import examine, module_name

SOLVED = '''
import functools

LIMIT = 3

@functools.lru_cache
def square(x, *, scale=1):
    """Square."""
    return x * x * scale

def pairs(items, /, *more, **named):
    for item in (*items, *more, *named.values()):
        yield item, item

async def later(x):
    return x

class Box:
    def __init__(self, x):
        self.__x = x

    @property
    def x(self):
        return self.__x

    @x.setter
    def x(self, value):
        self.__x = value

    @classmethod
    def of(cls, *xs):
        return cls(sum(xs))

    @staticmethod
    def zero():
        return 0

class Tall(Box):
    def __init__(self, x):
        super().__init__(x + 1)
'''
UNSOLVED = """
import functools

LIMIT = 3

class Box:
    pass
"""


def test_changed_functions_are_targets_and_classes_with_changed_constructors_are_opaque() -> None:
    found = examine({"src/shapes.py": UNSOLVED.encode()}, {"src/shapes.py": SOLVED.encode()}, ["src"])
    names = [target.partition(":")[2] for target in found.targets]
    assert names == [
        *("square", "pairs", "later", "Box.__init__", "Box.x", "Box.x#set", "Box.of", "Box.zero", "Tall.__init__"),
    ]
    assert found.opaque == ("shapes:Box", "shapes:Tall")
    assert found.unreplaced == ()


def test_a_docstring_or_an_untouched_function_is_no_target() -> None:
    before = SOLVED.replace('"""Square."""', '"""The square."""').replace("return 0", "return 1")
    found = examine({"shapes.py": before.encode()}, {"shapes.py": SOLVED.encode()}, ["."])
    assert found.targets == ("shapes:Box.zero",)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import contextlib\n@contextlib.contextmanager\ndef f():\n    yield 1\n", "contextmanager"),
        ("class A:\n    def __del__(self):\n        pass\n", "taken apart"),
        ("async def f():\n    yield 1\n", "asynchronous generator"),
        ("def f(:\n", "not the syntax"),
    ],
)
def test_what_cannot_be_replaced_is_named(code: str, reason: str) -> None:
    found = examine({}, {"m.py": code.encode()}, ["."])
    assert found.targets == () and reason in found.unreplaced[0]


def test_the_replaced_module_works_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    originals: dict[str, Any] = {}

    def gold(target: str) -> Any:
        return lambda function: originals.setdefault(target, function)

    def call(target: str, arguments: Any, keywords: Any) -> Any:
        calls.append(target)
        return originals[target](*arguments, **keywords)

    async def acall(target: str, arguments: Any, keywords: Any) -> Any:
        return await call(target, arguments, keywords)

    monkeypatch.setitem(sys.modules, "_etude_boundary", SimpleNamespace(gold=gold, call=call, acall=acall))  # type: ignore[arg-type]
    found = examine({}, {"shapes.py": SOLVED.encode()}, ["."])
    scope: dict[str, Any] = {"__name__": "shapes"}
    exec(compile(found.files["shapes.py"], "shapes.py", "exec"), scope)
    box, tall = scope["Box"](2), scope["Tall"](5)
    box.x = 7
    assert (box.x, tall.x, scope["Box"].of(1, 2).x, scope["Box"].zero()) == (7, 6, 3, 0)
    assert scope["square"](3, scale=2) == 18 and scope["square"].__doc__ == "Square."
    assert list(scope["pairs"]([1], 2, a=3)) == [(1, 1), (2, 2), (3, 3)]
    assert not [name for name in {*scope, *vars(scope["Box"])} if name.startswith("_etude_gold")]
    assert {"shapes:Box.x#set", "shapes:pairs", "shapes:Tall.__init__"} <= set(calls)


@pytest.mark.parametrize(
    ("path", "name"),
    [("src/a/b.py", "a.b"), ("src/a/__init__.py", "a"), ("c.py", "c"), ("x-y/a.py", ""), ("src/__init__.py", "src")],
)
def test_a_module_has_the_name_that_it_is_imported_by(path: str, name: str) -> None:
    assert module_name(path, ["src", "."]) == name
