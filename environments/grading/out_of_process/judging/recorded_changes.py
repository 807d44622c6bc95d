"""Rules that a record gives for answers: which arguments they may change, and which attributes they carry.

The trusted side of a test run applies them (see ``change_guard.py`` and ``own_state.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....snapshots.test_run.test_runner import TestRun
from ..forms import is_plain
from ..processes.public_forms import attribute_names
from ..recorded_calls import Call, RecordedCalls
from ..values.change_guard import arguments_of, inner_forms, objects_in
from ..values.places import canonical
from .answers import Answers

NEEDS_CHANGES = "it passes only where an answer changes what the recorded calls leave alone"
_NAMED = ("l", "S", "d", "ba", "o", "O", "fn", "L", "n", "h")


def recorded_changes(recorded: RecordedCalls) -> dict[str, Any]:
    """Return the ``places`` of arguments that calls change, by target, and the ``numbers`` of objects, by test."""
    places: dict[str, set[str]] = {}
    numbers: dict[str, list[Any]] = {}
    for test, calls in recorded.tests.items():
        held: dict[Any, str] = {}
        changed: set[Any] = set()
        for call in calls:
            for number, at in _changed_by(call, held):
                changed.add(number)
                places.setdefault(call["target"], set()).update(at)
        numbers[test] = sorted(changed, key=str)
    return {"places": {target: sorted(at) for target, at in places.items()}, "numbers": numbers}


def _changed_by(call: Call, held: dict[Any, str]) -> Iterable[tuple[Any, set[str]]]:
    """Yield the objects in arguments that a call changes, with their places; ``held`` has their contents before."""
    places: dict[Any, set[str]] = {}
    created: set[Any] = set()
    for place, form in arguments_of(call):
        for at, number, part in objects_in(form, place):
            places.setdefault(number, set()).add(at)
            if part[0] == "n":
                created.add(number)
            elif part[0] == "h" and part[2]:
                held.pop(number, None)  # the test has changed it too
            elif part[0] not in ("h", "r"):
                held[number] = _content_text(part)
    answer = call["answer"]
    forms = [*(answer["after"] or []), answer["result"], *((answer["error"] or [None] * 3)[2] or [])]
    for form in forms:
        for _, number, part in objects_in(form, ""):
            if part[0] == "r":
                continue
            text = _content_text(part)
            if number in places and number not in created and held.get(number) != text:
                yield number, places[number]
            held[number] = text


def _content_text(form: Any) -> str:
    """Return what an object's form holds directly as text; objects in it are only named."""
    parts = [[place, _head(part)] for place, part in inner_forms(form, "")]
    return canonical([parts, form[2] if form[0] == "ba" else None])


def _head(form: Any) -> Any:
    if not isinstance(form, list):
        return form
    if form[0] in _NAMED:
        return ["r", form[1]]
    return [form[0], *([_head(part) for part in form[1]] if form[0] in ("t", "F") else form[1:])]


def rules_of(recorded: RecordedCalls, frozen: Mapping[str, Sequence[Any]] | None = None) -> dict[str, Any]:
    """Return the rules for answers that the trusted side takes from a record.

    ``recorded_names`` are the attributes that count when calls are compared, ``own_state`` those that answers carry
    beside the state of objects, ``recorded_changes`` what answers may change, and ``frozen`` the objects, by test, that
    no answer changes.
    """
    names = attribute_names(recorded.test_calls)
    changes = recorded_changes(recorded)
    return {"recorded_names": names, "own_state": recorded.own_state, "recorded_changes": changes, "frozen": frozen}


def frozen_objects(run: TestRun) -> dict[str, list[Any]]:
    """Return the objects that answers changed and recorded calls leave alone, by test that passed."""
    records = {test: run.crossings.get(test, {}) for test in run.passed}
    return {test: record["foreign"] for test, record in records.items() if record.get("foreign")}


def stable_names(runs: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[str]]:
    """Return the attributes, by class, that are plain data and the same in each of several runs' answers to tests."""
    first, *others = runs
    names: dict[str, set[str]] = {}
    unsteady: set[tuple[str, str]] = set()
    for test, answers in first.items():
        for position, answer in enumerate(answers):
            entries = _entries(answer)
            for kind, attributes in entries.values():
                names.setdefault(kind, set()).update(attributes)
                unsteady.update((kind, name) for name, form in attributes.items() if not _is_data(form))
            for other in others:
                others_answers = other.get(test, ())
                again = _entries(others_answers[position]) if position < len(others_answers) else {}
                for number in entries.keys() & again.keys():
                    (kind, attributes), (_, held_again) = entries[number], again[number]
                    every = attributes.keys() | held_again.keys()
                    unsteady.update((kind, name) for name in every if attributes.get(name) != held_again.get(name))
    steady = {kind: sorted(name for name in every if (kind, name) not in unsteady) for kind, every in names.items()}
    return {kind: attributes for kind, attributes in steady.items() if attributes}


def _is_data(form: Any) -> bool:
    return form != ["?"] and is_plain(form)


def _entries(answer: Any) -> dict[Any, tuple[str, dict[str, Any]]]:
    return {number: (kind, attributes) for number, kind, attributes in answer.get("raw", ())}


def with_names(answer: Any, names: Mapping[str, Iterable[str]]) -> Any:
    """Return an answer without changes of modules, and whose ``raw`` attributes are only those with these names.

    Accepts an answer of any shape.
    """
    if not isinstance(answer, dict) or not {"raw", "modules"} & answer.keys():
        return answer
    entries: list[Any] = []
    for entry in answer["raw"] if isinstance(answer.get("raw"), list) else []:
        if not (isinstance(entry, list) and len(entry) == 3 and isinstance(entry[2], dict)):
            continue
        counted = names.get(entry[1], ()) if isinstance(entry[1], str) else ()
        attributes = {name: form for name, form in entry[2].items() if name in counted}
        entries += [[*entry[:2], attributes]] if counted else []
    bare = {name: part for name, part in answer.items() if name not in ("raw", "modules")}
    return {**bare, "raw": entries} if entries else bare


def calls_with_names(calls: Sequence[Call], names: Mapping[str, Iterable[str]]) -> list[Call]:
    """Return recorded calls whose answers carry only attributes with these names."""
    return [{**call, "answer": with_names(call["answer"], names)} if "answer" in call else call for call in calls]


def answers_with_names(answers: Answers, names: Mapping[str, Iterable[str]]) -> Answers:
    """Return a solution's answers with only these attributes; those to held-out calls have none."""
    return {
        test: [with_names(answer, names if test.isdigit() else {}) for answer in test_answers]
        for test, test_answers in answers.items()
    }
