"""Rows of a training set: the arguments of ``reset`` as JSON, beside an empty prompt that TRL requires."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

RESET = "etude_reset"
"""Column with the arguments of ``reset``, as ``reset_rows`` writes them."""
PLAIN = ("task_id", "split", "index", "seed")
"""Columns that are arguments of ``reset`` by themselves, in data sets of other origin."""


def reset_rows(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each set of arguments of ``reset``, such as ``{"task_id": ...}``."""
    return [{"prompt": [{"role": "user", "content": ""}], RESET: json.dumps(dict(task))} for task in tasks]


def reset_arguments(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``reset`` in a row.

    Raise ValueError for a row that names no task, because the episodes of its group would then play different tasks.
    """
    if row.get(RESET):
        arguments = json.loads(row[RESET])
    else:
        arguments = {name: row[name] for name in PLAIN if row.get(name) is not None}
    if not {"task_id", "index", "fork_of"} & set(arguments):
        raise ValueError(f"a row names no task; give a column task_id, split and index, or {RESET} (see reset_rows)")
    return dict(arguments)


def repeat_shuffled(tasks: Sequence[str], number: int, seed: int) -> list[dict[str, str]]:
    """Return ``number`` tasks as arguments of ``reset``: all tasks, shuffled, then all shuffled again, and so on."""
    rng = random.Random(f"order {seed}")
    repeated: list[dict[str, str]] = []
    while len(repeated) < number:
        repeated += [{"task_id": name} for name in rng.sample(list(tasks), len(tasks))]
    return repeated[:number]
