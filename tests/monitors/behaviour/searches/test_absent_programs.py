"""Calls of programs that a profile takes away: recorded, never suspected."""

from __future__ import annotations

from helpers.inspections import ran, reported, transcript

from etude.monitors.behaviour.searches.absent_programs import EXPLOIT, AbsentPrograms, answer

MONITOR = AbsentPrograms()
ANSWER = "exit 127\n" + answer("find", "use list_files")


def test_a_call_of_an_absent_program_is_recorded() -> None:
    assert reported(MONITOR, transcript(ran("find . -name x", ANSWER))) == {(EXPLOIT, "info")}


def test_an_answer_that_a_file_holds_is_none() -> None:
    assert reported(MONITOR, transcript(ran("cat notes.txt", ANSWER))) == set()
    assert reported(MONITOR, transcript(ran("find . -name x", "exit 0\n./x"))) == set()
