"""Answers of a solution's process, read and compared with the recorded ones without trust in their shape."""

from __future__ import annotations

import json
import math
from itertools import zip_longest
from typing import Any

from ..recorded_calls import QUESTIONS, Call, RecordedCalls
from ..values.own_state import NO_FORM
from ..values.stand_ins import with_stand_ins
from .equal_data import UNKNOWN_SHAPE, comparable, is_same_data, plain_data
from .spoilt_arguments import spoilt_attributes

MAX_DEPTH = 200
"""Most levels of lists in an answer."""
MAX_ANSWERS = 8 * 1024 * 1024
"""Most bytes of a solution's answers to all calls; where there are more, none is read."""

Answers = dict[str, list[Any]]
"""The answers to the calls of each test; a test is missing where its process ended early."""


def comparable_part(call: Call, got: Any) -> Any:
    """Return the part of an answer that is data, None for an answer of no known shape."""
    try:
        return comparable(call, got)
    except UNKNOWN_SHAPE:
        return None


def same_answer(expected: Any, got: Any, tolerance: float = 1e-9) -> bool:
    """Return whether two forms are equal, floats within a relative tolerance."""
    if isinstance(expected, list) and isinstance(got, list):
        if len(expected) == 2 == len(got) and expected[0] == "f" == got[0]:
            try:
                return expected[1] == got[1] or math.isclose(float(expected[1]), float(got[1]), rel_tol=tolerance)
            except (ValueError, TypeError, OverflowError):
                return False
        return len(expected) == len(got) and all(map(same_answer, expected, got))
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(same_answer(expected[key], got[key]) for key in expected)
    return type(expected) is type(got) and bool(expected == got)


def is_as(expected: Any, got: Any) -> bool:
    """Return whether an answer has the expected data; output counts only where the expected answer has some."""
    if isinstance(got, dict) and isinstance(expected, dict) and isinstance(got.get("printed"), str):
        got = {**_as_data(got), "printed": got["printed"] if expected["printed"] else ""}
        expected = _as_data(expected)
    return is_same_data(expected, got)


def _as_data(answer: dict[str, Any]) -> dict[str, Any]:
    after = answer.get("after")
    data = [None if form is None else plain_data(form) for form in after] if isinstance(after, list) else after
    parts: dict[str, Any] = {name: answer[name] for name in ("error", "printed") if name in answer}
    return {**parts, "after": data, "result": plain_data(answer.get("result"))}


def is_same_held_out(call: Call, got: Any) -> bool:
    """Return whether an answer to a held-out call has the data of the recorded one.

    The private state of objects and the texts of exceptions are not compared, and an exception may be of a subclass.
    """
    expected = call["answer"]
    return is_answer_as(call, comparable_part(call, expected), _as_expected_error(expected, got))


def is_same_step(call: Call, got: Any) -> bool:
    """Return whether an answer to a call of a held-out sequence has the recorded data.

    The recorded answer has only what is compared (see ``comparable``). An exception may be of a subclass.
    """
    expected = call["answer"]
    if isinstance(expected["after"], list):  # as records of earlier versions write unchanged data
        expected = {**expected, "after": [None if form == NO_FORM else form for form in expected["after"]]}
    return is_answer_as(call, expected, _as_expected_error(expected, got))


def _as_expected_error(expected: Any, got: Any) -> Any:
    """Return an answer in which the expected exception replaces one of a subclass."""
    if isinstance(got, dict) and expected["error"] and isinstance(got.get("error"), list) and got["error"]:
        kind, classes = got["error"][0], got.get("classes")
        name = ":".join(map(str, kind[1:3])) if isinstance(kind, list) else ""
        bases = classes.get(name) if isinstance(classes, dict) else None
        if isinstance(bases, list) and expected["error"][0][1:] in bases:
            return {**got, "error": expected["error"]}
    return got


def is_answer_as(call: Call, expected: Any, got: Any) -> bool:
    """Return whether an answer has the expected data; an object of a private class counts as the data that it holds.

    Arguments may not lose data that the task's own solution keeps in them (see ``spoilt_arguments.py``).
    """
    if not spoilt_attributes(call, got) <= set(call.get("changes", ())):
        return False
    if is_as(expected, comparable_part(call, got)):
        return True
    try:
        plain = with_stand_ins(got, lambda _module, _name: False)
    except UNKNOWN_SHAPE:
        return False
    return plain is not got and is_as(expected, comparable_part(call, plain))


def failed_held_out(recorded: RecordedCalls, answers_given: Answers) -> dict[str, str]:
    """Return the functions whose answers to held-out calls or sequences are wrong, each with the reason."""
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


def parsed(channel: bytes) -> Answers:
    """Return the answers that a solution's process wrote; lines of any other shape are left out.

    More than MAX_ANSWERS bytes count as no answer at all.
    """
    answers: Answers = {}
    if len(channel) > MAX_ANSWERS:
        return answers
    for line in channel.split(b"\n"):
        try:
            record = json.loads(line)
            answers_given = record["answers"]
            if (
                isinstance(answers_given, list)
                and all(isinstance(item, dict) for item in answers_given)
                and _is_shallow(answers_given)
            ):
                answers[str(record["test"])] = answers_given
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return answers


def _is_shallow(form: Any) -> bool:
    """Return whether JSON is nested at most MAX_DEPTH levels deep."""
    level = [form]
    for _ in range(MAX_DEPTH):
        inner = [item for item in level if isinstance(item, list | dict)]
        if not inner:
            return True
        level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]
    return False
