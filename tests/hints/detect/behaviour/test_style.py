"""Missing and over-long communication."""

from __future__ import annotations

from typing import Any

from etude.environments.tool_protocol import NO_CALL
from etude.hints.detect.behaviour import behaviour_of, behaviours
from etude.hints.transcript.past_turns import PastTurn


def names(*turns: PastTurn) -> list[str]:
    return [behaviour_of(error) for error in behaviours(turns) if error.kind == "style"]


def test_submitting_without_a_word_is_silent(call: Any) -> None:
    assert names(PastTurn("", (call("submit", {}),))) == ["silent"]
    assert names(PastTurn("done", (call("submit", {}),))) == []
    assert names(PastTurn("", (call("submit", {"summary": "done"}),))) == []


def test_a_turn_that_the_environment_answers_with_a_reminder_lacks_a_call() -> None:
    assert names(PastTurn("Let me think.", (), (NO_CALL,))) == ["no_call"]
    assert names(PastTurn("How can I help?", (), ("Please fix it.",))) == []


def test_long_texts_are_wordy_and_thoughts_and_code_are_not(call: Any) -> None:
    busy = call("bash", {"command": "ls"})
    assert names(PastTurn("word " * 2000, (busy,))) == ["wordy"]
    assert names(PastTurn("<think>" + "word " * 2000 + "</think>ok", (busy,))) == []
    assert names(PastTurn("```\n" + "x = 1\n" * 2000 + "```", (busy,))) == []
    assert names(PastTurn("", (call("submit", {"summary": "word " * 600}),))) == ["wordy"]
