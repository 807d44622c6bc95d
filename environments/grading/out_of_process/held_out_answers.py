"""What a solution answered to held-out calls and sequences, compared with what the task's own solution answered."""

from __future__ import annotations

from itertools import zip_longest

from .answers import Answers, is_same_held_out, is_same_step
from .recorded_calls import RecordedCalls
from .sequences import QUESTIONS


def failed_held_out(recorded: RecordedCalls, answers_given: Answers) -> dict[str, str]:
    """Return the functions that answer held-out calls or sequences otherwise, with the reason."""
    failed: dict[str, str] = {}
    for target, calls in recorded.inputs.items():
        answers = answers_given.get(f"input {target}", [])
        wrong = [call for call, got in zip(calls, answers, strict=False) if not is_same_held_out(call, got)]
        if wrong or len(answers) != len(calls):
            count = len(wrong) + max(len(calls) - len(answers), 0)
            failed[target] = f"{count or 'all'} of {len(calls)} held-out calls have another result"
    return {**failed, **_failed_sequences(recorded, answers_given)}


def _failed_sequences(recorded: RecordedCalls, answers_given: Answers) -> dict[str, str]:
    failed: dict[str, str] = {}
    for number, calls in enumerate(recorded.sequences):
        answers = answers_given.get(f"sequence {number}", [])
        for call, got in zip_longest(calls, answers):
            if call is None or not is_same_step(call, got):
                is_about = call is not None and call["target"] not in QUESTIONS
                target = call["target"] if is_about else calls[0]["target"]
                failed[target] = f"a call of held-out sequence {number} has another result"
                break
    return failed
