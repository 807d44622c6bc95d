"""Variants: other text, tree and bytecode, and the same behaviour."""

from __future__ import annotations

import ast
import random

import pytest

from etude.generators.python.variants import variant

SOURCE = '''"""A module."""
from __future__ import annotations

import math


def grade(points, best=10):
    """Return a grade."""
    share = points / best
    if share > 0.5:
        word = "good"
    else:
        word = "bad"
    for number in range(3):
        word += str(number)
    return word


def walk(tree):
    names = [name for name, _ in tree]
    for name, children in tree:
        yield name
        yield from walk(children)
    return names


def counter():
    count = 0

    def up(step=1):
        nonlocal count
        count += step
        return count

    return up


class Box:
    def __init__(self, *items, **named):
        self.items = list(items)
        for key, value in named.items():
            setattr(self, key, value)

    def first(self):
        try:
            head = self.items[0]
        except IndexError as error:
            return str(error)
        else:
            return head

    def shown(self):
        width = 3
        return f"{width=} {sorted(locals())}"
'''
LINES = range(1, 200)


def results(source: bytes) -> list[object]:
    names: dict[str, object] = {}
    exec(compile(source, "module.py", "exec", dont_inherit=True), names)
    grade, walk, counter, box = (names[name] for name in ("grade", "walk", "counter", "Box"))
    up = counter()
    tree = [("a", [("b", [])]), ("c", [])]
    return [
        grade(7), grade(2), grade(2, best=3), list(walk(tree)), up(), up(4), box().first(), box(3, x=4).first(),
        box(x=4).x, box().shown(), grade.__doc__,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_a_variant_behaves_as_its_source(seed: int) -> None:
    changed = variant("module.py", SOURCE.encode(), LINES, random.Random(seed))
    assert results(changed) == results(SOURCE.encode())


def test_a_variant_has_another_tree_and_other_bytecode() -> None:
    changed = variant("module.py", SOURCE.encode(), LINES, random.Random(1))
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))
    codes = []
    for text in (SOURCE.encode(), changed):
        names: dict[str, object] = {}
        exec(compile(text, "module.py", "exec", dont_inherit=True), names)
        codes.append(names["grade"].__code__.co_code)
    assert codes[0] != codes[1]


def test_two_draws_give_two_variants_and_one_draw_gives_one() -> None:
    texts = [variant("module.py", SOURCE.encode(), LINES, random.Random(seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_functions_outside_the_lines_keep_their_tree() -> None:
    changed = variant("module.py", SOURCE.encode(), range(7, 17), random.Random(1))
    before, after = (
        {node.name: ast.dump(node) for node in ast.parse(text).body if hasattr(node, "name")}
        for text in (SOURCE, changed)
    )
    assert {name for name in before if before[name] != after[name]} == {"grade"}


def test_functions_that_look_at_their_own_variables_are_not_changed() -> None:
    changed = variant("module.py", SOURCE.encode(), LINES, random.Random(1)).decode()
    assert "width = 3" in changed


def test_a_broken_module_is_refused() -> None:
    with pytest.raises(ValueError, match="not valid Python"):
        variant("module.py", b"def f(:\n", LINES, random.Random(1))


def test_the_statements_of_another_version_are_in_a_variant_and_do_not_run() -> None:
    wrong = SOURCE.replace("share > 0.5", "share >= 0.75").encode()
    changed = variant("module.py", SOURCE.encode(), LINES, random.Random(1), wrong)
    assert b">= 0.75" in changed and b"> 0.5" in changed
    assert results(changed) == results(SOURCE.encode())
