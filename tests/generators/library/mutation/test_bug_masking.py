"""The generator ``bug_masking``: two mistakes in one file, and neither correction alone is enough."""

from __future__ import annotations

import pytest

from etude.errors import NotApplicable
from etude.generators.base import StatementContext

SOURCE = """
def fill(shelf, books):
    shelf.sort()
    count = len(shelf) + len(books)
    shelf.extend(books)
    for book in books:
        book.place = count
    return count - 1
"""


def test_the_second_mistake_is_further_down_and_both_are_there(snapshot_of, propose):
    snapshot = snapshot_of(SOURCE)
    original = (snapshot.tree / "module.py").read_bytes().splitlines()
    candidates = propose(snapshot, "bug_masking")
    assert candidates
    for candidate in candidates:
        only_second, only_first = (files["module.py"] for files in candidate.probes.values())
        both = candidate.exercise["module.py"]
        assert len({both, only_first, only_second, b"\n".join(original) + b"\n"}) == 4
        assert min(_differing(original, only_first)) < min(_differing(original, only_second))


def _differing(original, changed):
    lines = changed.splitlines()
    same = 0
    while same < min(len(lines), len(original)) and lines[same] == original[same]:
        same += 1
    return [same]


def test_a_mistake_that_other_tests_run_too_does_not_hide_behind_the_first(snapshot_of, propose):
    snapshot = snapshot_of(SOURCE)
    all_lines = snapshot.baseline.covered

    def covered(test):
        return {"module.py": [4, 5, 6, 7]} if test.endswith("_5") else all_lines(test)

    snapshot.baseline.covered = covered
    for candidate in propose(snapshot, "bug_masking"):
        assert b"shelf.sort()" in candidate.exercise["module.py"]  # tests of the later lines do not all run this one


def test_each_partial_correction_is_a_probe(snapshot_of, propose):
    for candidate in propose(snapshot_of(SOURCE), "bug_masking"):
        assert list(candidate.probes) == ["only the first mistake corrected", "only the second mistake corrected"]


def test_the_distance_between_the_mistakes_is_a_knob(snapshot_of, propose):
    with pytest.raises(NotApplicable, match="no two mistakes that the same tests run"):
        propose(snapshot_of(SOURCE), "bug_masking", min_distance=9)


def test_the_report_says_that_there_are_two_mistakes(snapshot_of, propose):
    context = StatementContext(package="shelf 1.0", failing=["tests/test_module.py::test_fill"], interface=[])
    text = propose(snapshot_of(SOURCE), "bug_masking")[0].statement.render(context)
    assert "Two places of the code are wrong" in text and text.endswith("\n")
