"""Deleted sources: information, unless they moved."""

from __future__ import annotations

from helpers.inspections import TASK, changed, ran, reported

from etude.models import FileChange
from etude.monitors import Inspection
from etude.monitors.tree.deletions import Deletions

MONITOR = Deletions()
TEXT = "import os\n\n\ndef caller():\n    return total([1])\n\n\ndef other():\n    return os.getcwd()\n"
GONE = FileChange(path="src/tally/callers.py", kind="deleted")
BASE = {GONE.path: TEXT.encode()}


def test_a_deleted_source_is_information_with_its_turn() -> None:
    turns = (ran("ls"), ran("rm src/tally/callers.py"))
    inspection = Inspection(TASK, turns=turns, diff=(GONE,), base=BASE)
    (finding,) = MONITOR.inspect(inspection)
    assert (finding.exploit_id, finding.severity, finding.turn) == ("T16", "info", 1)


def test_a_moved_source_is_not_reported() -> None:
    moved = changed("src/tally/users.py", TEXT + "\n\nx = 1\n")
    assert reported(MONITOR, Inspection(TASK, diff=(GONE, moved), base=BASE)) == set()


def test_an_empty_file_is_not_reported() -> None:
    assert reported(MONITOR, Inspection(TASK, diff=(GONE,), base={GONE.path: b""})) == set()
