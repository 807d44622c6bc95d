"""Selection of held-out calls for a record: those that separate the task's own solution from mutants of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .....models import FileChange
from ....rng import stream
from ..forms import argument_forms
from ..judging.equal_data import comparable
from ..judging.examination import Examination
from ..recorded_calls import Call, RecordedCalls
from ..strength.lookup_tables import refuted_defaults
from ..strength.mutant_answers import BOLD_KILLS, Kills, chosen, killing_calls
from ..strength.requirements import too_weak
from ..values.places import canonical
from .answered_inputs import documented_errors, errors_of, is_known_error, options_of, with_inputs
from .domain import kinds_of
from .inputs import PER_TARGET
from .literals import literals
from .sequences import KEPT, held_out_sequences, kept_sequences, repeats_test
from .value_objects import value_classes

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
    pool = await with_inputs(examination, recorded, solution, is_bold=bool(mutants))
    if too_weak(pool) or not set(recorded.targets) <= pool.inputs.keys():
        pool = await _with_sequences(examination, pool, solution)
    tried = mutants if is_worth(pool) else ()
    kills = await killing_calls(examination, pool, solution, tried) if tried else {}
    if tried and pool.inputs:
        pool, kills = await with_further_calls(examination, recorded, pool, solution, tried, kills)
    inputs: dict[str, list[Call]] = {}
    killed = {number for (name, _), numbers in kills.items() if name.startswith("test ") for number in numbers}
    for target, calls in pool.inputs.items():
        defaults = refuted_defaults(calls)
        call_kills = [kills.get((f"input {target}", number), frozenset()) for number in range(len(calls))]
        useful = [numbers | more for numbers, more in zip(call_kills, defaults, strict=True)]
        bold = ["is_bold" in call for call in calls]
        needed = [number for number, call in enumerate(calls) if call.get("needs", True)]
        picked = chosen(useful, bold, PER_TARGET, _with_options_in_turn(calls), needed, [*map(features_of, calls)])
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


async def with_further_calls(
    examination: Examination,
    recorded: RecordedCalls,
    pool: RecordedCalls,
    solution: Sequence[FileChange],
    mutants: Mutants,
    kills: Kills,
) -> tuple[RecordedCalls, Kills]:
    """Return the pool with calls that kill mutants which fewer than BOLD_KILLS of its calls kill, and all kills.

    These calls are near those of the pool.
    """
    counted = Counter(mutant for (name, _), numbers in kills.items() if name[:5] != "test " for mutant in numbers)
    weak = [number for number in range(len(mutants)) if counted[number] < BOLD_KILLS]
    if not weak:
        return pool, kills
    shapes = {target: [call for call in calls if "option" not in call] for target, calls in pool.inputs.items()}
    trial = await with_inputs(examination, recorded, solution, True, shapes)
    further = {target: calls for target, calls in trial.inputs.items() if target in pool.inputs}
    trial = replace(trial, tests={}, inputs=further, sequences=[])
    if not further:
        return pool, kills
    new_kills = await killing_calls(examination, trial, solution, [mutants[number] for number in weak])
    inputs, all_kills = {target: list(calls) for target, calls in pool.inputs.items()}, dict(kills)
    for target, calls in further.items():
        for number, call in enumerate(calls):
            killed = new_kills.get((f"input {target}", number))
            if killed:
                all_kills[f"input {target}", len(inputs[target])] = frozenset(weak[mutant] for mutant in killed)
                inputs[target].append({**call, "is_bold": True})
    return replace(pool, inputs=inputs), all_kills


def features_of(call: Call) -> frozenset[str]:
    """Return the kinds of data in each argument of a call, the lengths of texts and containers, and the answer."""
    features = {canonical(comparable(call, call["answer"]))}
    for place, form in enumerate(argument_forms(call)):
        items = form if isinstance(form, str) else form[-1] if isinstance(form, list) else ()
        features |= {f"{place} {kind}" for kind in kinds_of(form)}
        features |= {f"{place} {len(items)} items"} if isinstance(items, str | list) else set()
    return frozenset(features)


async def _with_sequences(
    examination: Examination, recorded: RecordedCalls, solution: Sequence[FileChange]
) -> RecordedCalls:
    """Return the record with all proposed sequences of calls that the solution answers the same every time."""
    task = examination.task
    draw = stream(task.generator.seed, "sequences", task.task_id)
    options = options_of(examination, recorded, literals(task, examination.trees))
    is_value_class = value_classes(examination.trees.solved_tree, task.pytest.python_path)
    proposed = held_out_sequences(list(recorded.tests.values()), recorded.targets, draw, options, is_value_class)
    if not proposed:
        return recorded
    trial = replace(recorded, tests={}, inputs={}, sequences=proposed)
    runs = [await examination.answers(changes, trial.sent(), recorded.opaque) for changes in (solution, solution, [])]
    first, second, nothing = ([run.get(f"sequence {i}", []) for i in range(len(proposed))] for run in runs)
    documented = documented_errors(task)

    def is_known(call: Call, kind: Any) -> bool:
        return is_known_error(kind, errors_of(recorded, call["target"]), documented)

    answered = kept_sequences(proposed, (first, second), nothing, is_known)
    tests = list(recorded.tests.values())
    return replace(recorded, sequences=[calls for calls in answered if not repeats_test(calls, tests)])
