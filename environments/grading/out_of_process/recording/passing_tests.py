"""Recording of the tests that have to keep passing and run an examined function.

The unsolved workspace passes these tests, so the rules about its answers do not apply to them. Tests are kept that add
calls which the record lacks. Their arguments also give held-out calls: what worked before has to work afterwards.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from .....models import FileChange
from ....rng import stream
from ....snapshots.test_run.test_runner import TestRun
from ..forms import argument_forms, is_plain
from ..held_out.inputs import held_out_calls
from ..judging.examination import Examination, Replies
from ..judging.recorded_changes import answers_with_names, calls_with_names
from ..judging.recorded_state import NetState, net_state, net_states, recorded_answers, steady_states
from ..recorded_calls import MAX_BYTES, Call, RecordedCalls
from ..strength.requirements import Requirement, Unmet, most_frequent
from ..values.places import canonical
from .observation import running_tests

TRIED = 200
"""Most tests whose calls are looked at; where there are more, this many are drawn."""
KEPT = 24
"""Most tests that are kept; those that add most calls come first."""
_FIRST_NUMBER = 500_000
"""First number of an object in a call of ``with_kept_behaviour``, so that it differs from those of other calls."""
NO_CALL = "it calls no examined function"
UNSTEADY = "its calls differ from run to run"
LEAST_SHARE = 0.75
"""Least share of the tests that run an examined function whose calls can be repeated elsewhere."""


@dataclass(frozen=True)
class PassingTests:
    """The tests that have to keep passing and run an examined function."""

    tests: dict[str, list[Call]] = field(default_factory=dict)
    """The calls of the kept tests."""
    tried: int = 0
    """Number of tests that were looked at."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why tests cannot be repeated elsewhere, by test."""
    inner: dict[str, set[str]] = field(default_factory=dict)
    """Digests of what examined functions answered inside the calls of the kept tests."""
    module_state: dict[str, NetState] = field(default_factory=dict)
    """What the calls of the kept tests change in modules."""

    @property
    def lacking(self) -> str:
        """Return how many tests are not recorded, and why, '' where these are few: they could be forged in process."""
        if len(self.reasons) <= (1 - LEAST_SHARE) * self.tried:
            return ""
        return (
            f"{len(self.reasons)} of {self.tried} tests that have to keep passing and run a changed function are not "
            f"recorded: {most_frequent(self.reasons)}"
        )

    @property
    def unmet(self) -> Unmet | None:
        """Return what ``lacking`` says, with its cause; None where it says nothing."""
        cause = most_frequent(self.reasons)
        return Unmet(Requirement.PASSING_TESTS, self.lacking, cause) if self.lacking else None


async def passing_tests(
    examination: Examination, recorded: RecordedCalls, solution: Sequence[FileChange]
) -> PassingTests:
    """Return the tests to add to a record of FAIL_TO_PASS tests. Raises SandboxError when a sandbox fails."""
    task = examination.task
    running = await running_tests(examination, task.PASS_TO_PASS) if task.PASS_TO_PASS else []
    if not running:
        return PassingTests()
    if len(running) > TRIED:
        drawn = set(stream(task.generator.seed, "passing tests", task.task_id).sample(running, TRIED))
        running = [test for test in running if test in drawn]
    first, again = await asyncio.gather(examination.trusted_run(running), examination.trusted_run(running, hash_seed=1))
    reasons: dict[str, str] = {}
    calls_made: dict[str, list[Call]] = {}
    for test in running:
        reason, calls, is_steady = repeated_calls(test, first, again, recorded.own_state)
        if reason or not is_steady or not calls:
            reasons[test] = reason or (NO_CALL if is_steady else UNSTEADY)
        else:
            calls_made[test] = calls
    chosen = _fitting(recorded, _adding_calls(recorded.tests, calls_made))
    states = steady_states(*(net_states(recorded_answers(run)) for run in (first, again)))
    retained, states = await _reproduced(
        examination, replace(recorded, tests=chosen, module_state=states), solution, reasons
    )
    inner: dict[str, set[str]] = {}
    for test in retained:
        for target, digests in first.crossings[test]["inner"].items():
            inner.setdefault(target, set()).update(digests)
    return PassingTests(retained, len(running), reasons, inner, states)


def repeated_calls(
    test: str, first: TestRun, again: TestRun, names: Mapping[str, Iterable[str]]
) -> tuple[str, list[Call], bool]:
    """Return why a test's calls cannot be recorded ('' when they can), the calls, and whether two runs make them alike.

    ``names`` are the attributes that answers carry beside the state of objects, by class.
    """
    one, two = first.crossings.get(test, {}), again.crossings.get(test, {})
    if test not in first.passed:
        return "it does not pass where the functions are replaced", [], False
    if one.get("problem"):
        return one["problem"], [], False
    calls, calls_again = (calls_with_names(crossing.get("calls", []), names) for crossing in (one, two))
    return "", calls, canonical(calls) == canonical(calls_again)


def with_needs(calls: Sequence[Call], nothing: Sequence[Any]) -> list[Call]:
    """Return calls that say whether they need a solution: the unsolved workspace gives another answer."""
    pairs = zip_longest(calls, nothing[: len(calls)])
    return [{**call, "needs": canonical(call["answer"]) != canonical(other)} for call, other in pairs]


def _adding_calls(
    recorded: Mapping[str, Sequence[Call]], calls_made: Mapping[str, list[Call]]
) -> dict[str, list[Call]]:
    """Return at most KEPT of the tests: those first that add most calls to the recorded ones."""
    registered = {key for calls in recorded.values() for key in _keys(calls)}
    keys = {test: _keys(calls) for test, calls in calls_made.items()}
    chosen: dict[str, list[Call]] = {}
    while keys and len(chosen) < KEPT:
        test = max(keys, key=lambda name: len(keys[name] - registered))
        if keys[test] <= registered:
            break
        registered |= keys.pop(test)
        chosen[test] = calls_made[test]
    return chosen


def _keys(calls: Sequence[Call]) -> set[str]:
    """Return a key of each call; it includes the calls before where its arguments are not plain data."""
    keys: set[str] = set()
    before = ""
    for call in calls:
        forms = argument_forms(call)
        text = canonical([call["target"], call["arguments"], call["keywords"]])
        before = hashlib.sha256((before + text).encode("utf-8", "replace")).hexdigest()
        keys.add(text if all(map(is_plain, forms)) and call["target"][0] != "@" else before)
    return keys


def _fitting(recorded: RecordedCalls, chosen: dict[str, list[Call]]) -> dict[str, list[Call]]:
    """Return as many of the chosen tests as fit into a row beside the recorded ones."""
    names = list(chosen)
    while names:
        fitting = {test: chosen[test] for test in names}
        if len(replace(recorded, tests={**recorded.tests, **fitting}).pack()) <= MAX_BYTES:
            return fitting
        names = names[: len(names) // 2]
    return {}


async def _reproduced(
    examination: Examination, chosen: RecordedCalls, solution: Sequence[FileChange], reasons: dict[str, str]
) -> tuple[dict[str, list[Call]], dict[str, NetState]]:
    """Return the tests to which the solution gives the recorded answers elsewhere, and that pass with these.

    Their calls say whether they need a solution. The second value is what they change in modules in both processes.
    """
    if not chosen.tests:
        return {}, {}
    elsewhere, nothing = await asyncio.gather(
        examination.answers(solution, chosen.sent(), chosen.opaque),
        examination.answers([], chosen.sent(), chosen.opaque),
    )
    states = {test: net_state(elsewhere.get(str(number), [])) for number, test in enumerate(chosen.tests)}
    states = steady_states(chosen.module_state, states)
    elsewhere, nothing = (answers_with_names(run, chosen.own_state) for run in (elsewhere, nothing))
    same: dict[str, list[Call]] = {}
    for number, (test, calls) in enumerate(chosen.tests.items()):
        if canonical(elsewhere.get(str(number), [])) != canonical([call["answer"] for call in calls]):
            reasons[test] = "elsewhere the solution answers otherwise"
        else:
            same[test] = with_needs(calls, nothing.get(str(number), []))
    if same:
        allowed = replace(chosen, tests=same).allowed()
        run = await examination.trusted_run(list(same), Replies(same, allowed, {"own_state": chosen.own_state}))
        passed = {test for test in run.passed if not run.crossings[test].get("unanswered")}
        for test in same.keys() - passed:
            reasons[test] = "with given answers it fails"
            del same[test]
    return same, {test: states[test] for test in same if test in states}


async def with_kept_behaviour(
    examination: Examination, recorded: RecordedCalls, solution: Sequence[FileChange]
) -> RecordedCalls:
    """Return the record with more held-out calls, also like those in tests that have to keep passing.

    As for other held-out calls, the solution gives the same plain answer every time.
    """
    if not recorded.passing:
        return recorded
    task = examination.task
    draw = stream(task.generator.seed, "inputs of passing tests", task.task_id)
    registered = {target: {_text(call) for call in calls} for target, calls in recorded.inputs.items()}
    new = held_out_calls(list(recorded.tests.values()), draw, is_bold=False, first=_FIRST_NUMBER)
    proposed = {
        target: [call for call in calls if _text(call) not in registered.get(target, ())]
        for target, calls in new.items()
    }
    if not any(proposed.values()):
        return recorded
    runs = [await examination.answers(changes, proposed, recorded.opaque) for changes in (solution, solution, [])]
    runs = [answers_with_names(run, {}) for run in runs]
    inputs: dict[str, list[Call]] = dict(recorded.inputs)
    for target, calls in proposed.items():
        first, second, nothing = (run.get(target, []) for run in runs)
        good = [
            {**call, "answer": one, "needs": canonical(one) != canonical(none)}
            for call, one, two, none in zip_longest(calls, first, second, nothing[: len(calls)])
            if _is_plain_answer(one) and canonical(one) == canonical(two)
        ]
        if good:
            inputs[target] = [*inputs.get(target, []), *good]
    return replace(recorded, inputs=inputs)


def _text(call: Call) -> str:
    return canonical([call["arguments"], call["keywords"]])


def _is_plain_answer(answer: Any) -> bool:
    if not answer or "broken" in answer:
        return False
    return answer["error"] is None and answer["after"] is None and is_plain(answer["result"])
