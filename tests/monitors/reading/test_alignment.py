"""Which lines are added: those of new code, also where it repeats lines that the file holds elsewhere."""

from __future__ import annotations

import random
import time

from helpers.inspections import code

from etude.monitors.reading.alignment import kept_lines

METHOD = "    def __eq__(self, other):\n        return True\n"
BEFORE = f"import os\n\n\nclass Any(str):\n{METHOD}\n\ndef total(values):\n    raise NotImplementedError\n"


def added(text: str, base: str) -> list[int]:
    (file,) = code(text, base=base).added
    return sorted(file.added_lines)


def test_a_new_class_that_repeats_lines_is_added_as_a_whole() -> None:
    new = f"class Loose(str):\n{METHOD}\n\n"
    assert added(BEFORE.replace("class Any", f"{new}class Any"), BEFORE) == [4, 5, 6]


def test_moved_lines_are_not_added() -> None:
    moved = BEFORE.replace("import os\n", "") + "import os\n"
    assert added(moved, BEFORE) == []


def test_kept_lines_stand_in_both_texts_in_the_same_order() -> None:
    chance = random.Random(1)
    for _ in range(200):
        before = [chance.choice("abcdefg") + str(chance.randrange(9)) for _ in range(30)]
        after = [line for line in before if chance.random() < 0.8]
        after[5:5] = [chance.choice("abc") for _ in range(4)]
        kept = kept_lines(before, after)
        assert all(before[old] == after[new] for new, old in kept.items())
        assert sorted(kept.values()) == [kept[new] for new in sorted(kept)]
        assert len(set(kept.values())) == len(kept)


def test_the_time_grows_with_the_lines() -> None:
    def seconds(lines: int) -> float:
        started = time.process_time()
        kept_lines(["a"] * lines + ["b"], ["c"] + ["a"] * lines + ["d"])
        return time.process_time() - started

    assert seconds(80_000) < 12 * max(seconds(20_000), 0.02)
