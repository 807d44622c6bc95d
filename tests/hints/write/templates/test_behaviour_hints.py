"""Hints against waste, silence and false claims quote what was done."""

from __future__ import annotations

import re
from typing import Any

import pytest

from etude.environments.coding.tools import TOOLS, schemas
from etude.environments.tool_protocol import NO_CALL
from etude.hints.detect.behaviour import behaviour_of, behaviours
from etude.hints.transcript.past_turns import PastCall, PastTurn
from etude.hints.write.templates import HINTS, hints_for

BIG = "a line of text\n" * 900


def last_hint(turns: list[PastTurn]) -> tuple[str, str]:
    """(template, text) of the only hint for the last thing found."""
    error = behaviours(turns)[-1]
    (hint,) = hints_for(error, turns, schemas(list(TOOLS)), [])
    assert hint.template == behaviour_of(error)
    return hint.template, hint.text


@pytest.mark.parametrize(
    ("calls", "template", "says"),
    [
        ([("bash", {"command": "git status"}, "ok\nclean")] * 2, "repeat", ["`git status`", "turn 0"]),
        ([("read_file", {"path": "a.py"}, "ok\n1\tx")] * 2, "reread", ["`a.py`", "turn 0"]),
        ([("bash", {"command": "sleep 10"}, "ok")], "sleep", ["`sleep 10`"]),
        ([("bash", {"command": "cat big.txt"}, f"ok\n{BIG}")], "pages", ["`cat big.txt`", "start_line"]),
        ([("submit", {}, "ok\nsubmitted")], "silent", ["one or two sentences"]),
        ([("submit", {"summary": "word " * 600}, "ok\nsubmitted")], "wordy", ["3000 characters"]),
        (
            [("submit", {"summary": "All tests pass."}, "ok")],
            "false_claim",
            ["`All tests pass.`", "no test run", "run_tests"],
        ),
        (
            [("submit", {"summary": "Updated a.py."}, "ok")],
            "false_claim",
            ["nothing wrote to it", "Make the change first"],
        ),
        ([("submit", {"summary": "I ran `make lint`."}, "ok")], "false_claim", ["Run it first"]),
    ],
)
def test_the_hint_quotes_it(
    calls: list[tuple[str, dict[str, Any], str]], template: str, says: list[str], call: Any
) -> None:
    name, text = last_hint([PastTurn("", (call(*one),)) for one in calls])
    assert name == template
    for words in says:
        assert words in text


def test_hint_for_a_failed_run_says_fix_it_or_report_it(call: Any) -> None:
    run, submit = call("run_tests", {}, "exit 1\n1 failed"), call("submit", {}, "ok")
    text = last_hint([PastTurn("", (run,)), PastTurn("All tests pass.", (submit,))])[1]
    assert "turn 0" in text and "Fix the failure" in text


def test_hint_for_silence_names_the_files_that_were_written(call: Any) -> None:
    write: PastCall = call("write_file", {"path": "src/a.py", "content": "x"}, "ok\nwrote 1 bytes")
    assert "`src/a.py`" in last_hint([PastTurn("", (write,)), PastTurn("", (call("submit", {}, "ok"),))])[1]


def test_effort_and_a_turn_without_a_call_name_submit(call: Any) -> None:
    edit = call("edit_file", {"path": "a.py", "old": "a", "new": "b"}, "ok\nedited")
    looks = [call("search", {"pattern": str(number)}, "ok\nx") for number in range(10)]
    turns = [PastTurn("", (one,)) for one in (edit, call("run_tests", {}, "ok\n1 passed"), *looks)]
    assert last_hint(turns)[0] == "effort" and "call submit now" in last_hint(turns)[1]
    assert "call submit" in last_hint([PastTurn("Hm.", (), (NO_CALL,))])[1]


def test_every_hint_of_the_folder_is_registered_and_loads(root: Any) -> None:
    modules = (root / "hints" / "write" / "templates").glob("*.py")
    source = "\n".join(module.read_text() for module in modules)
    assert set(re.findall(r"^def ([a-z]\w*)\(context: ErrorContext\)", source, re.MULTILINE)) == set(HINTS.names())
    assert all(HINTS.load(name).__doc__ for name in HINTS.names())


def test_an_unknown_hint_gets_the_nearest_name() -> None:
    with pytest.raises(KeyError, match="Did you mean 'timeout'"):
        HINTS.load("timeuot")
