"""Comparison of what the calls of a test change at the top level of modules (see ``module_state.py``).

Only the state after the last call counts: a solution has to leave the same items in the containers that the workspace
already has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....snapshots.test_run.test_runner import TestRun
from ..recorded_calls import RecordedCalls
from ..values.places import canonical
from .answers import Answers

NetState = dict[str, dict[str, Any]]
"""What the calls of a test changed in the end: by name, each item's key as text with its value."""


def recorded_answers(run: TestRun) -> dict[str, list[Any]]:
    """Return the answers of the task's own solution in a run, by test."""
    records = run.crossings.items()
    return {test: [call["answer"] for call in record["calls"]] for test, record in records if not record["problem"]}


def net_state(answers: Sequence[Any]) -> NetState:
    """Return what a test's calls changed in the end. Accepts answers of any shape."""
    state: NetState = {}
    for answer in answers:
        modules = answer.get("modules") if isinstance(answer, dict) else None
        for name, pairs in modules.items() if isinstance(modules, dict) else ():
            for pair in pairs if isinstance(pairs, list) else ():
                if isinstance(pair, list) and len(pair) == 2:
                    state.setdefault(name, {})[canonical(pair[0])] = pair[1]
    return state


def net_states(answers: Mapping[str, Sequence[Any]]) -> dict[str, NetState]:
    """Return what the calls of each test changed in the end."""
    return {test: net_state(test_answers) for test, test_answers in answers.items()}


def steady_states(states: Mapping[str, NetState], others: Mapping[str, NetState]) -> dict[str, NetState]:
    """Return the changes of each test's calls that are the same in another run."""
    steady = {
        test: {name: items for name, items in state.items() if others.get(test, {}).get(name) == items}
        for test, state in states.items()
    }
    return {test: state for test, state in steady.items() if state}


def incomparable(recorded: RecordedCalls, states: Mapping[str, NetState]) -> str:
    """Return why a record does not show what its calls change in modules, '' where it does.

    ``states`` is what calls changed in the run that recorded them. Names that begin with an underscore are not
    asked for where runs differ: they may be filled once for all tests.
    """
    for test in recorded.tests:
        for name in states.get(test, {}).keys() - recorded.module_state.get(test, {}).keys():
            if not any(part.startswith("_") for part in name.partition(":")[2].split(".")):
                return f"what its calls change in {name} differs from run to run"
    return ""


def watched_names(recorded: RecordedCalls) -> list[str]:
    """Return the names whose changes belong to the answers of a record's tests."""
    return sorted({name for state in recorded.module_state.values() for name in state})


def failed_states(recorded: RecordedCalls, answers_given: Answers) -> dict[str, str]:
    """Return the tests whose calls do not change modules as recorded, each with the reason."""
    failed: dict[str, str] = {}
    for number, test in enumerate(recorded.tests):
        expected = recorded.module_state.get(test, {})
        state = net_state(answers_given.get(str(number), [])) if expected else {}
        wrong = [name for name, items in expected.items() if state.get(name) != items]
        if wrong:
            failed[test] = f"its calls leave another {wrong[0]}"
    return failed
