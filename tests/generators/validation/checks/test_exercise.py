"""What a task asks for is read from its patch."""

from __future__ import annotations

import ast

import pytest

from etude.environments.snapshots import make_patch
from etude.generators.validation.checks.exercise import Exercise, added_lines, patched_files
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


def test_pieces_are_the_innermost_definitions_that_differ():
    pieces = exercise({"m.py": BEFORE}, {"m.py": AFTER}).pieces
    assert [piece.name for piece in pieces] == ["one", "Box.get", "Lid"]
    assert pieces[0].source == b"def one(a):\n    return a + 1\n"
    assert isinstance(pieces[2].node, ast.ClassDef) and pieces[2].short == "Lid"


def test_a_piece_includes_its_decorators():
    (piece,) = exercise({"m.py": b""}, {"m.py": b"@cache\ndef f():\n    return 1\n"}).pieces
    assert piece.source.startswith(b"@cache") and piece.lines == range(1, 4)


def test_added_lines_are_numbered_in_the_new_file():
    lines = added_lines(make_patch({"m.py": BEFORE}, {"m.py": AFTER}))
    assert lines == {"m.py": {5, 10, *range(14, 19)}}


def test_a_line_is_content_when_it_looks_like_a_header():
    old = b"a\n-- b\nc\n"
    patch = make_patch({"x.py": old}, {"x.py": b"a\nc\n++ d\n"})
    assert added_lines(patch) == {"x.py": {3}}
    assert patched_files(patch)[0] == "x.py"


MOVED = b"def one(a):\n    return a + 1\n"


@pytest.mark.parametrize(
    ("before", "after", "secret"),
    [
        ({"a.py": MOVED, "b.py": b""}, {"a.py": b"from b import one\n", "b.py": MOVED}, []),
        ({"a.py": MOVED}, {"a.py": MOVED.replace(b"one", b"first")}, []),
        ({"a.py": MOVED}, {"a.py": MOVED.replace(b"+ 1", b"+ 2")}, ["one"]),
        ({"a.py": MOVED}, {"a.py": MOVED + b"\n\n" + MOVED.replace(b"one", b"copy")}, ["copy"]),
    ],
)
def test_code_that_is_only_moved_or_renamed_is_not_secret(before, after, secret):
    assert [piece.name for piece in exercise(before, after).secret_pieces] == secret
