"""Selection of held-out calls for a record: those that separate the task's own solution from mutants of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from .....models import FileChange, Task
from ....rng import stream
from ....tasks.task_paths import source_files
from ..forms import is_object, is_plain
from ..judging.examination import Examination
from ..judging.recorded_changes import answers_with_names
from ..recorded_calls import Call, RecordedCalls
from ..strength.lookup_tables import refuted_defaults
from ..strength.mutant_answers import Kills, chosen, killing_calls
from ..strength.requirements import too_weak
from ..values.places import canonical
from .domain import is_shown, shown_domain
from .inputs import PER_TARGET, held_out_calls
from .literals import literals
from .parameters import Options, is_free, unused_options
from .sequences import KEPT, held_out_sequences, kept_sequences, repeats_test
from .value_objects import other_object, value_classes

_TRUTH_VALUE = re.compile(r"->\s*bool\b|:rtype:[\s>`]*bool\b|[Rr]eturns?:?[\s>`*]+(?:a\s+)?(?:bool|True)\b|`True` if\b")
Mutants = Sequence[Sequence[FileChange]]
"""Versions of the task's own solution with one mistake each, as accepted changes."""


@dataclass(frozen=True)
class HeldOut:
    """A record with held-out calls and sequences, and how many mutants it kills because they answer differently."""

    recorded: RecordedCalls
    mutants: int = 0
    """Mutants of the solution that a proposed call kills."""
    killed: int = 0
    """Those of them that the record kills."""
    survivors: tuple[int, ...] = ()
    """The mutants, by number, that no proposed call kills."""


async def with_held_out(
    examination: Examination,
    recorded: RecordedCalls,
    solution: Sequence[FileChange],
    mutants: Mutants,
    is_worth: Callable[[RecordedCalls], bool],
) -> HeldOut:
    """Return the record with those proposed calls that kill most mutants, and others as far as there is room.

    Mutants are tried only where ``is_worth`` is true for the record. Raises SandboxError when a sandbox fails.
    """
    pool = await _with_inputs(examination, recorded, solution, is_bold=bool(mutants))
    if too_weak(pool) or not set(recorded.targets) <= pool.inputs.keys():
        pool = await _with_sequences(examination, pool, solution)
    tried = mutants if is_worth(pool) else ()
    kills = await killing_calls(examination, pool, solution, tried) if tried else {}
    inputs: dict[str, list[Call]] = {}
    killed = {number for (name, _), numbers in kills.items() if name.startswith("test ") for number in numbers}
    for target, calls in pool.inputs.items():
        defaults = refuted_defaults(calls)
        call_kills = [kills.get((f"input {target}", number), frozenset()) for number in range(len(calls))]
        useful = [numbers | more for numbers, more in zip(call_kills, defaults, strict=True)]
        picked = chosen(useful, ["is_bold" in call for call in calls], PER_TARGET, _with_options_in_turn(calls))
        if picked:
            inputs[target] = [
                {name: part for name, part in calls[number].items() if name not in ("is_bold", "option")}
                for number in picked
            ]
            killed.update(*(call_kills[number] for number in picked))
    call_kills = [_of_sequence(kills, number) for number in range(len(pool.sequences))]
    bold = ["is_bold" in calls[-1] for calls in pool.sequences]
    picked = chosen(call_kills, bold, KEPT, [number for number, is_bold in enumerate(bold) if is_bold])
    killed.update(*(call_kills[number] for number in picked))
    sequences = [
        [{name: part for name, part in call.items() if name != "is_bold"} for call in pool.sequences[number]]
        for number in picked
    ]
    recorded = replace(pool, inputs=inputs, sequences=sequences)
    different = frozenset().union(*kills.values())
    return HeldOut(recorded, len(different), len(killed), tuple(n for n in range(len(tried)) if n not in different))


def _with_options_in_turn(calls: Sequence[Call]) -> list[int]:
    """Return the bold calls that pass an option and raise nothing, one for each option in turn."""
    turns: Counter[str] = Counter()
    ranked: list[tuple[int, int]] = []
    for number, call in enumerate(calls):
        if "is_bold" in call and "option" in call and call.get("needs", True) and not call["answer"]["error"]:
            turns[call["option"]] += 1
            ranked.append((turns[call["option"]], number))
    return [number for _, number in sorted(ranked)]


def _of_sequence(kills: Kills, number: int) -> frozenset[int]:
    return frozenset().union(*(numbers for (name, _), numbers in kills.items() if name == f"sequence {number}"))


async def _with_inputs(
    examination: Examination, recorded: RecordedCalls, solution: Sequence[FileChange], is_bold: bool
) -> RecordedCalls:
    """Return the record with all proposed calls to which the solution gives the same plain answer every time.

    Tests and statements say little about what a function refuses: a call that raises is left out, or is bold where a
    test of the function or the statement shows the exception's class. Calls that the unsolved workspace answers
    as well are bold too.
    """
    task = examination.task
    draw = stream(task.generator.seed, "inputs", task.task_id)
    texts = literals(task, examination.trees) if is_bold else []
    options = _options(examination, recorded, texts) if is_bold else {}
    is_value_class = value_classes(examination.trees.solved_tree, task.pytest.python_path)

    def changed_object(form: Any, others: Sequence[Any]) -> Any:
        return other_object(form, others, is_value_class, draw) if is_object(form) else form

    proposed = held_out_calls(list(recorded.tests.values()), draw, is_bold, texts, options, other_object=changed_object)
    domains = shown_domain(recorded.test_calls)
    proposed = {
        target: [call for call in calls if "is_bold" not in call or is_shown(call, domains[target])]
        for target, calls in proposed.items()
    }
    if not any(proposed.values()):
        return recorded
    trial = replace(recorded, tests={}, inputs=proposed, sequences=[])
    runs = [await examination.answers(changes, trial.sent(), recorded.opaque) for changes in (solution, solution, [])]
    runs = [answers_with_names(run, {}) for run in runs]
    inputs: dict[str, list[Call]] = {}
    documented, is_truth_value = documented_errors(task), promises_truth_value(task)
    for target, calls in proposed.items():
        answers_given = [run.get(f"input {target}", []) for run in runs]
        errors = _errors(recorded, target)
        good = [
            retained
            for call, *answers in zip_longest(calls, *answers_given)
            if (retained := kept_call(call, answers, errors, documented)) and (is_bold or "is_bold" not in retained)
        ]
        good = without_none(good) if is_truth_value else good
        if good:
            inputs[target] = good
    return replace(recorded, inputs=inputs)


def _options(examination: Examination, recorded: RecordedCalls, texts: Sequence[str]) -> Options:
    """Return values for the optional parameters that no recorded call passes."""
    task, tree = examination.task, examination.trees.solved_tree
    sources = {path: (tree / path).read_bytes() for path in source_files(task) if (tree / path).is_file()}
    draw = stream(task.generator.seed, "options", task.task_id)
    return unused_options(sources, task.pytest.python_path, recorded.test_calls, texts, draw)


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


def _errors(recorded: RecordedCalls, target: str) -> set[str]:
    """Return the classes of exceptions that recorded calls of a function raise."""
    answers = [call["answer"] for call in recorded.test_calls if call["target"] == target]
    return {canonical(answer["error"][0]) for answer in answers if answer["error"]}


def _is_data(answer: Any) -> bool:
    is_result = "broken" not in answer and answer["error"] is None and answer["after"] is None
    return is_result and is_plain(answer["result"])


async def _with_sequences(
    examination: Examination, recorded: RecordedCalls, solution: Sequence[FileChange]
) -> RecordedCalls:
    """Return the record with all proposed sequences of calls that the solution answers the same every time."""
    task = examination.task
    draw = stream(task.generator.seed, "sequences", task.task_id)
    options = _options(examination, recorded, literals(task, examination.trees))
    is_value_class = value_classes(examination.trees.solved_tree, task.pytest.python_path)
    proposed = held_out_sequences(list(recorded.tests.values()), recorded.targets, draw, options, is_value_class)
    if not proposed:
        return recorded
    trial = replace(recorded, tests={}, inputs={}, sequences=proposed)
    runs = [await examination.answers(changes, trial.sent(), recorded.opaque) for changes in (solution, solution, [])]
    first, second, nothing = ([run.get(f"sequence {i}", []) for i in range(len(proposed))] for run in runs)
    documented = documented_errors(task)

    def is_known(call: Call, kind: Any) -> bool:
        return is_known_error(kind, _errors(recorded, call["target"]), documented)

    answered = kept_sequences(proposed, (first, second), nothing, is_known)
    tests = list(recorded.tests.values())
    return replace(recorded, sequences=[calls for calls in answered if not repeats_test(calls, tests)])
