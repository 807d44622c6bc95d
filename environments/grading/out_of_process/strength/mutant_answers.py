"""Answers of mutants: which calls of a record kill a mutant, because it does not answer them as recorded.

A mutant is the task's own solution with one mistake or omission, as in a partial solution. A record that such a
solution satisfies decides little, however many calls it has.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from .....models import FileChange
from ..judging.answers import Answers, is_same_held_out, is_same_step, same_answer
from ..judging.examination import Examination
from ..judging.recorded_changes import answers_with_names
from ..recorded_calls import Call, RecordedCalls

AT_ONCE = 2
"""Most mutants that answer at the same time."""
KILLS_EACH = 3
"""Most calls that are kept because they kill the same mutant."""
BOLD_KILLS = 2
"""Most of them where bold calls are among them."""
LEAST_NEEDED = 8
"""Fewest kept calls that the workspace answers otherwise, where there are as many."""
MOST_FURTHER = 12
"""Most bold calls that are kept although other calls kill the same mutants."""
Place = tuple[str, int]
"""Place of a call: the name under which its test, target or sequence is sent, and its position there."""
Kills = Mapping[Place, frozenset[int]]
"""The mutants, by number, that a call kills."""
_Comparison = Callable[[Call, Any], bool]


async def killing_calls(
    examination: Examination,
    recorded: RecordedCalls,
    solution: Sequence[FileChange],
    mutants: Sequence[Sequence[FileChange]],
) -> Kills:
    """Return which calls of the record kill which mutants. Raises SandboxError."""
    kills: dict[Place, set[int]] = {}
    for number, different in enumerate(await different_calls(examination, recorded, solution, mutants)):
        for place in different:
            kills.setdefault(place, set()).add(number)
    return {place: frozenset(numbers) for place, numbers in kills.items()}


async def different_calls(
    examination: Examination,
    recorded: RecordedCalls,
    solution: Sequence[FileChange] | None,
    others: Sequence[Sequence[FileChange]],
) -> list[set[Place]]:
    """Return the calls that each of the ``others`` does not answer as recorded, but the solution, if given, does.

    Raises SandboxError when a sandbox fails.
    """
    names = {name: f"test {name}" if name.isdigit() else name for name in recorded.sent()}
    sent = {names[name]: calls for name, calls in recorded.sent().items()}
    turn = asyncio.Semaphore(AT_ONCE)

    async def places(changes: Sequence[FileChange]) -> set[Place]:
        async with turn:  # no solution is judged by these answers: one process may have all calls
            answers_given = await examination.answers(changes, sent, recorded.opaque, [], is_trial=True)
        by_number = {name.removeprefix("test "): answers for name, answers in answers_given.items()}
        return _different(recorded, answers_with_names(by_number, recorded.own_state))

    differences = await asyncio.gather(*map(places, others))
    expected_differences = await places(solution) if solution is not None else set()
    return [different - expected_differences for different in differences]


def _different(recorded: RecordedCalls, answers_given: Answers) -> set[Place]:
    """Return the places of the calls that have another answer than the recorded one.

    Where the process ends early, only the first call without an answer counts.
    """
    places: set[Place] = set()

    def compare(name: str, calls: Sequence[Call], is_same: _Comparison) -> None:
        answers = answers_given.get(name.removeprefix("test "))
        if answers is None:
            unanswered.append((name, 0))
            return
        places.update(
            (name, position)
            for position, (call, got) in enumerate(zip_longest(calls, answers))
            if call is None or got is None or not is_same(call, got)
        )

    unanswered: list[Place] = []
    for number, calls in enumerate(recorded.tests.values()):
        compare(f"test {number}", calls, lambda call, got: same_answer(call["answer"], got))
    for target, calls in recorded.inputs.items():
        compare(f"input {target}", calls, is_same_held_out)
    for number, calls in enumerate(recorded.sequences):
        compare(f"sequence {number}", calls, is_same_step)
    return places.union(unanswered[:1])


def chosen(
    kills: Sequence[frozenset[int]],
    bold: Sequence[bool],
    most: int,
    further: Sequence[int] = (),
    needed: Sequence[int] = (),
    features: Sequence[frozenset[str]] = (),
) -> list[int]:
    """Return the numbers of at most ``most`` proposed calls to keep: those that kill most mutants, then others.

    ``kills`` has the mutants that each call kills. Every mutant gets up to KILLS_EACH calls that kill it, bold ones
    among them where fewer than BOLD_KILLS others do. Bold calls are also kept up to MOST_FURTHER of the calls
    ``further``, in that order, and where fewer than LEAST_NEEDED of the calls ``needed`` would be kept, which the
    workspace answers otherwise. The other calls are those with most new ``features``.
    """
    numbers = range(len(kills))
    modest = [number for number in numbers if not bold[number]]
    kinds = features or kills
    picked = _covering(kills, modest, [], 1, most)
    picked += _covering(kills, numbers, picked, 1, most - len(picked))
    unused = [number for number in further if number not in picked]
    picked += unused[: min(MOST_FURTHER, most - len(picked))]
    for enough in range(2, KILLS_EACH + 1):
        picked += _covering(kills, modest, picked, enough, most - len(picked))
        if enough <= BOLD_KILLS:
            picked += _covering(kills, numbers, picked, enough, most - len(picked))
    for group in ([number for number in needed if not bold[number]], needed):
        lacking = LEAST_NEEDED - len({*picked} & {*needed})
        unpicked = [number for number in group if number not in picked]
        picked += _different_kinds(unpicked, kinds, picked, min(lacking, most - len(picked)))
    others = [number for number in modest if number not in picked]
    return sorted([*picked, *_different_kinds(others, kinds, picked, most - len(picked))])


def _covering(
    kills: Sequence[frozenset[int]], numbers: Iterable[int], before: Sequence[int], enough: int, most: int
) -> list[int]:
    """Return some of ``numbers``, so that they and those ``before`` kill each mutant ``enough`` times where they can.

    The call that kills most of the remaining mutants is picked first.
    """
    killed = Counter(mutant for number in before for mutant in kills[number])
    candidates = [number for number in numbers if number not in before]
    picked: list[int] = []
    while candidates and len(picked) < most:
        gains = [sum(killed[mutant] < enough for mutant in kills[number]) for number in candidates]
        if not max(gains):
            break
        best = candidates.pop(gains.index(max(gains)))
        picked.append(best)
        killed.update(kills[best])
    return picked


def _different_kinds(
    numbers: Sequence[int], features: Sequence[Collection[object]], before: Sequence[int], most: int
) -> list[int]:
    """Return up to ``most`` of the numbers: the next one always has most features that no earlier one has."""
    covered = {feature for number in before for feature in features[number]}
    candidates, picked = list(numbers), list[int]()
    while candidates and len(picked) < most:
        best = max(candidates, key=lambda number: len(set(features[number]) - covered))
        candidates.remove(best)
        picked.append(best)
        covered |= set(features[best])
    return picked
