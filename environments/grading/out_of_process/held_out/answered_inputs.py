"""Inputs of a record: proposed calls that the task's own solution answers with plain data, the same every time."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from .....models import FileChange, Task
from ....rng import stream
from ....tasks.task_paths import source_files
from ..forms import is_object, is_plain
from ..judging.examination import Examination
from ..judging.recorded_changes import answers_with_names
from ..recorded_calls import Call, RecordedCalls
from ..values.places import canonical
from .constants import Constants, known_constants
from .domain import is_shown, shown_domain
from .inputs import held_out_calls
from .literals import literals
from .parameters import Options, is_free, unused_options
from .value_objects import other_object, value_classes

_TRUTH_VALUE = re.compile(r"->\s*bool\b|:rtype:[\s>`]*bool\b|[Rr]eturns?:?[\s>`*]+(?:a\s+)?(?:bool|True)\b|`True` if\b")
_FURTHER = 500_000
"""Number of the first container in calls of the second round."""


async def with_inputs(
    examination: Examination,
    recorded: RecordedCalls,
    solution: Sequence[FileChange],
    is_bold: bool,
    near: Mapping[str, Sequence[Call]] | None = None,
) -> RecordedCalls:
    """Return the record with all proposed calls to which the solution gives the same plain answer every time.

    With ``near``, only bold calls near these are proposed, and none of these themselves.

    Tests and statements say little about what a function refuses: a call that raises is left out, or is bold where a
    test of the function or the statement shows the exception's class. Calls that the unsolved workspace answers
    as well are bold too.
    """
    task = examination.task
    draw = stream(task.generator.seed, "inputs" if near is None else "further inputs", task.task_id)
    texts = literals(task, examination.trees) if is_bold else []
    options = options_of(examination, recorded, texts) if is_bold and near is None else {}
    constants = _constants(examination, recorded) if is_bold else Constants()
    is_value_class = value_classes(examination.trees.solved_tree, task.pytest.python_path)

    def changed_object(form: Any, others: Sequence[Any]) -> Any:
        return other_object(form, others, is_value_class, draw) if is_object(form) else form

    shapes = [*recorded.tests.values(), *(near or {}).values()]
    first = 1 if near is None else _FURTHER
    proposed = held_out_calls(shapes, draw, is_bold, texts, options, first, changed_object, constants)
    domains = shown_domain(recorded.test_calls)

    def is_proposed(call: Call) -> bool:
        return is_shown(call, domains[call["target"]]) if "is_bold" in call else near is None

    proposed = {target: [*filter(is_proposed, calls)] for target, calls in proposed.items()}
    if not any(proposed.values()):
        return recorded
    trial = replace(recorded, tests={}, inputs=proposed, sequences=[])
    runs = [await examination.answers(changes, trial.sent(), recorded.opaque) for changes in (solution, solution, [])]
    runs = [answers_with_names(run, {}) for run in runs]
    inputs: dict[str, list[Call]] = {}
    documented, is_truth_value = documented_errors(task), promises_truth_value(task)
    for target, calls in proposed.items():
        answers_given = [run.get(f"input {target}", []) for run in runs]
        errors = errors_of(recorded, target)
        good = [
            retained
            for call, *answers in zip_longest(calls, *answers_given)
            if (retained := kept_call(call, answers, errors, documented)) and (is_bold or "is_bold" not in retained)
        ]
        good = without_none(good) if is_truth_value else good
        if good:
            inputs[target] = good
    return replace(recorded, inputs=inputs)


def options_of(examination: Examination, recorded: RecordedCalls, texts: Sequence[str]) -> Options:
    """Return values for the optional parameters that no recorded call passes."""
    task, tree = examination.task, examination.trees.solved_tree
    sources = {path: (tree / path).read_bytes() for path in source_files(task) if (tree / path).is_file()}
    draw = stream(task.generator.seed, "options", task.task_id)
    return unused_options(sources, task.pytest.python_path, recorded.test_calls, texts, draw)


def _constants(examination: Examination, recorded: RecordedCalls) -> Constants:
    targets = {*recorded.targets, *(call["target"] for call in recorded.test_calls)}
    return known_constants(examination.task, examination.trees, targets)


def documented_errors(task: Task) -> set[str]:
    """Return the names of exceptions in a task's statement."""
    statement = "\n".join([task.problem_statement, *(f"{item.name} {item.signature}" for item in task.interface)])
    return set(re.findall(r"\b\w+(?:Error|Exception|Invalid|Warning)\b", statement))


def promises_truth_value(task: Task) -> bool:
    """Return whether the statement says that something returns a bool."""
    statement = "\n".join([task.problem_statement, *(item.signature for item in task.interface)])
    return _TRUTH_VALUE.search(statement) is not None


def without_none(calls: Sequence[Call]) -> list[Call]:
    """Return the calls of a function without those that it answers with None, where all its results are bools or None.

    Code that returns what ``re.match`` found gives None for False, and a right solution returns False.
    """
    results = [call["answer"]["result"] for call in calls if call["answer"]["error"] is None]
    if not all(result is None or isinstance(result, bool) for result in results):
        return list(calls)
    return [call for call in calls if call["answer"]["error"] is not None or call["answer"]["result"] is not None]


def kept_call(call: Call, answers: Sequence[Any], errors: Collection[str], documented: Collection[str]) -> Call | None:
    """Return a call with its answer, None for a call that is not kept.

    ``answers`` are two of the solution, which have to be equal, and one of the unsolved workspace. ``errors`` are the
    classes of exceptions that tests show, ``documented`` the names of those in the statement.
    """
    one, two, none = answers
    if not one or canonical(one) != canonical(two) or not is_free(call, [one]):
        return None
    retained = {**call, "answer": one}
    if canonical(one) == canonical(none):
        return {**retained, "is_bold": True, "needs": False} if _is_data(one) else None
    if _is_data(one):
        return retained
    kind = one["error"][0] if one.get("error") else None
    is_known = kind is not None and is_known_error(kind, errors, documented)
    return {**retained, "is_bold": True} if is_known else None


def is_known_error(kind: Any, errors: Collection[str], documented: Collection[str]) -> bool:
    """Return whether tests show the class of an exception or the statement names it (see ``kept_call``)."""
    return canonical(kind) in errors or str(kind[-1]).rpartition(".")[2] in documented


def errors_of(recorded: RecordedCalls, target: str) -> set[str]:
    """Return the classes of exceptions that recorded calls of a function raise."""
    answers = [call["answer"] for call in recorded.test_calls if call["target"] == target]
    return {canonical(answer["error"][0]) for answer in answers if answer["error"]}


def _is_data(answer: Any) -> bool:
    is_result = "broken" not in answer and answer["error"] is None and answer["after"] is None
    return is_result and is_plain(answer["result"])
