"""Closing messages against what happened: 110 honest and 105 false ones, each labelled before it was tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etude.hints.detect.behaviour import behaviours
from etude.hints.detect.behaviour.claims import claims
from etude.hints.transcript.past_turns import PastCall, PastTurn
from etude.models import ErrorTurn

ROWS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("claims.json").read_text())


def false_claims(turns: list[PastTurn], changed: list[str] | None = None) -> list[ErrorTurn]:
    return [error for error in behaviours(turns, changed) if error.kind == "false_claim"]


def closed(text: str, call: Any, *, in_summary: bool) -> PastTurn:
    """Return a last turn that submits, with the message as its text or as the summary."""
    submit = call("submit", {"summary": text} if in_summary else {}, "ok\nsubmitted")
    return PastTurn("" if in_summary else text, (submit,))


@pytest.mark.parametrize("case", ["text", "summary", "no call"])
def test_precision_and_recall(case: str, logs: dict[str, list[PastTurn]], call: Any) -> None:
    reported = {True: 0, False: 0}
    for row in ROWS:
        last = PastTurn(row["text"]) if case == "no call" else closed(row["text"], call, in_summary=case == "summary")
        errors = false_claims([*logs[row["log"]], last])
        assert len(errors) <= 1
        reported[row["false"]] += bool(errors)
    honest, false = (sum(row["false"] is label for row in ROWS) for label in (False, True))
    assert min(honest, false) >= 40
    assert reported[False] == 0, "an honest message was called false"
    assert reported[True] / false >= 0.98


def test_the_claim_and_what_speaks_against_it_are_named(logs: dict[str, list[PastTurn]], call: Any) -> None:
    turns = [*logs["tested_fail"], closed("Fixed it. All tests pass. Bye.", call, in_summary=False)]
    (error,) = false_claims(turns)
    assert (error.turn, error.call_index, error.tool, error.evidence) == (2, 0, "submit", "All tests pass.")
    assert error.message == "false_claim: says that the tests pass, and the last test run (turn 1) failed"


def test_the_diff_decides_where_the_log_cannot(logs: dict[str, list[PastTurn]], call: Any) -> None:
    turns = [*logs["script"], closed("I updated README.md.", call, in_summary=False)]
    assert false_claims(turns) == []
    assert false_claims(turns, ["README.md"]) == []
    assert len(false_claims(turns, ["src/tally/core.py"])) == 1


def test_a_clean_oracle_episode_yields_nothing(logs: dict[str, list[PastTurn]], call: Any) -> None:
    done = PastTurn("done", (call("submit", {"summary": "done"}, "ok\nsubmitted"),))
    for changed in (None, ["src/tally/core.py"]):
        assert behaviours([*logs["patch"], done], changed) == []


def test_only_a_turn_that_closes_is_a_report(logs: dict[str, list[PastTurn]], call: Any) -> None:
    busy = PastTurn("All tests pass.", (call("bash", {"command": "ls"}, "ok\nsrc"),))
    assert false_claims([*logs["untested"], busy]) == []


def test_what_a_file_or_a_command_prints_is_no_test_run(call: Any) -> None:
    for command in ("cat tests/test_core.py", "grep -rn pytest .", "echo '3 passed'"):
        turns = [PastTurn("", (call("bash", {"command": command}, "ok\n3 passed"),)), PastTurn("The tests pass.")]
        assert len(false_claims(turns)) == 1


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "python -m pytest tests/test_core.py",
        "cd src && PYTHONPATH=. timeout 60 pytest | tail -5",
        "uv run pytest",
        "python3 -m unittest discover",
        "make test",
        "npm test",
        "bash run_tests.sh",
        "tox -e py311",
        "bash -c 'cd src && pytest'",
        "docker exec box pytest -q",
        "coverage run -m pytest",
        "timeout 60 pytest",
    ],
)
def test_many_commands_run_tests(command: str, call: Any) -> None:
    turns = [PastTurn("", (call("bash", {"command": command}, "ok\nfine"),)), PastTurn("The tests pass.")]
    assert false_claims(turns) == []


@pytest.mark.parametrize(
    "text", ["", "a" * 100_000, "tests " * 5_000, "a/" * 9_000 + "b.py was changed", "I ran `" * 999]
)
def test_odd_messages_are_read_and_quickly(text: str) -> None:
    assert isinstance(list(claims(text)), list)


def test_a_call_that_was_not_run_is_no_evidence(call: Any) -> None:
    late: PastCall = call("run_tests", {}, "not run: episode ended")
    submit = call("submit", {}, "ok\nsubmitted")
    assert len(false_claims([PastTurn("All tests pass.", (submit, late))])) == 1
