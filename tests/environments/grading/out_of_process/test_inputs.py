"""Held-out inputs stay within what the tests show."""

from __future__ import annotations

import random

from etude.environments.grading.out_of_process.variation import varied


def test_a_text_keeps_its_shape_and_takes_marks_that_a_test_shows_there() -> None:
    others = ["a-b", "C_d 1", "x@y"]
    found = {varied("a-b", others, random.Random(seed)) for seed in range(200)}
    assert all(len(text) == 3 and text[0].islower() and text[2].islower() for text in found)
    assert {text[1] for text in found} == {"-", "_", " ", "@"}
    assert {varied("a b", ["ab"], random.Random(seed))[1] for seed in range(50)} == {" "}, "no test shows another mark"
    assert {varied("\n", others, random.Random(seed)) for seed in range(50)} == {"\n"}
