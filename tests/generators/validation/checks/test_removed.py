"""Reading from a patch what a task asks for."""

from __future__ import annotations

import ast

from etude.environments.snapshots import make_patch
from etude.generators.validation.checks.removed import Exercise, added_lines, patched
from etude.models import GeneratorRef, Task

BEFORE = b"""import os


def one(a):
    raise NotImplementedError


class Box:
    def get(self):
        raise NotImplementedError

    def put(self, x):
        self.x = x
"""
AFTER = b"""import os


def one(a):
    return a + 1


class Box:
    def get(self):
        return self.x

    def put(self, x):
        self.x = x


class Lid:
    def close(self):
        return True
"""


def exercise(before: dict[str, bytes], after: dict[str, bytes]) -> Exercise:
    patch = make_patch(before, after)
    task = Task(task_id="t", generator=GeneratorRef(name="g", version="1", seed=0), problem_statement="", patch=patch)
    return Exercise(task, before, after)


def test_the_innermost_definitions_that_differ_are_told():
    found = exercise({"m.py": BEFORE}, {"m.py": AFTER}).pieces
    assert [piece.name for piece in found] == ["one", "Box.get", "Lid"]
    assert found[0].source == b"def one(a):\n    return a + 1\n"
    assert isinstance(found[2].node, ast.ClassDef) and found[2].short == "Lid"


def test_a_decorator_belongs_to_its_function():
    (piece,) = exercise({"m.py": b""}, {"m.py": b"@cache\ndef f():\n    return 1\n"}).pieces
    assert piece.source.startswith(b"@cache") and piece.lines == range(1, 4)


def test_added_lines_count_in_the_new_file():
    lines = added_lines(make_patch({"m.py": BEFORE}, {"m.py": AFTER}))
    assert lines == {"m.py": {5, 10, *range(14, 19)}}


def test_a_line_that_looks_like_a_header_is_content():
    old = b"a\n-- b\nc\n"
    patch = make_patch({"x.py": old}, {"x.py": b"a\nc\n++ d\n"})
    assert added_lines(patch) == {"x.py": {3}}
    assert patched(patch)[0] == "x.py"
