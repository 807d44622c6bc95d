"""The remark on tests that fail with the right code too."""

from __future__ import annotations

from pathlib import Path

from helpers.deleted_total import package, snapshot_of

from etude.generators.statements.known_failures import with_known_failures

STATEMENT = "# Fix it\n\nIt is broken.\n"


def test_a_statement_stays_as_it_is_when_no_dropped_test_fails() -> None:
    dropped = {
        "tests/test_a.py::test_x": "skipped every time",
        "tests/test_a.py::test_y[0x1]": "its id holds an address",
        "tests/test_a.py::test_z[b-a]": "disagrees: passed, missing, passed",
    }
    assert with_known_failures(STATEMENT, dropped) == STATEMENT


def test_failing_tests_are_counted_by_file() -> None:
    one = {"tests/test_a.py::test_x": "failed every time"}
    assert with_known_failures(STATEMENT, one) == (
        STATEMENT + "\nIn this environment 1 test of `tests/test_a.py` fails with the right code too, or not every "
        "time. It is not graded.\n"
    )
    many = {f"tests/test_{name}.py::test_x[{number}]": "error every time" for name in "abcde" for number in (1, 2)}
    many["tests/test_a.py::test_z"] = "disagrees: passed, failed, passed"
    assert with_known_failures(STATEMENT, many) == (
        STATEMENT + "\nIn this environment 11 tests of `tests/test_a.py` (3), `tests/test_b.py` (2), `tests/test_c.py` "
        "(2) and 2 more files fail with the right code too, or not every time. They are not graded.\n"
    )


def test_the_reasons_of_a_snapshot_are_understood(tmp_path: Path) -> None:
    visible = "import pytest\nfrom tally import total\n\n\ndef test_total():\n    assert total([1]) == 1\n"
    failing = (
        "\n\ndef test_wrong():\n    assert total([1]) == 2\n\n\n@pytest.fixture\ndef broken():\n    raise OSError\n"
    )
    files = package(
        "tally", "def test_nothing():\n    pass\n", f"{visible}{failing}\n\ndef test_broken(broken):\n    pass\n"
    )
    dropped = snapshot_of(tmp_path / "tally", files).baseline.dropped
    assert with_known_failures(STATEMENT, dropped) == (
        STATEMENT + "\nIn this environment 2 tests of `tests/test_visible.py` fail with the right code too, or not "
        "every time. They are not graded.\n"
    )
