"""Candidates, contexts and draws of the policies that choose a hint."""

from __future__ import annotations

from collections.abc import Sequence

from etude.environments.hint_trials.hint_policy import arm_of, by_arm, context_of, draw
from etude.models import ErrorTurn, Hint


def error(turn: int, hints: Sequence[Hint] = (), kind: str = "timeout") -> ErrorTurn:
    return ErrorTurn.model_validate({"turn": turn, "call_index": 0, "kind": kind, "tool": "bash", "hints": hints})


def test_the_context_counts_earlier_errors_of_the_same_kind_only() -> None:
    errors = [error(0), error(1, kind="traceback"), error(2), error(5)]
    assert [context_of(item, errors)["attempt"] for item in errors] == ["1", "1", "2", "3"]
    assert context_of(errors[0], errors) == {
        "kind": "timeout",
        "tool": "bash",
        "attempt": "1",
        "site": "erring",
        "injected": "no",
    }


def test_an_arm_is_a_template_a_writer_or_a_text() -> None:
    assert arm_of(Hint(text="x", template="again")) == "again"
    assert arm_of(Hint(text="x", source="llm")) == "llm"
    assert arm_of(Hint(text="x")) == arm_of(Hint(text="x")) != arm_of(Hint(text="y"))
    first, second = Hint(text="x", template="again"), Hint(text="y", template="again")
    assert by_arm([first, second]) == {"again": first}


def test_the_last_arm_is_drawn_when_rounding_leaves_a_gap() -> None:
    assert draw({"a": 0.5, "b": 0.49999}, 0.999999) == "b"
