"""Rows of a training set: the arguments of ``reset`` beside a prompt that TRL wants and nobody reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

RESET = "etude_reset"
"""The dataset's column with the arguments of ``reset``, as ``reset_rows`` writes them."""
PLAIN = ("task_id", "split", "index", "seed")
"""Columns that are arguments of ``reset`` by themselves, in data sets that others wrote."""


def reset_rows(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for the arguments of each ``reset``, such as ``{"task_id": ...}``."""
    return [{"prompt": [{"role": "user", "content": ""}], RESET: json.dumps(dict(task))} for task in tasks]


def reset_arguments(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row asks for. Raises ValueError for one that names no task: a group would play several."""
    if row.get(RESET):
        found = json.loads(row[RESET])
    else:
        found = {name: row[name] for name in PLAIN if row.get(name) is not None}
    if not {"task_id", "index", "fork_of"} & set(found):
        raise ValueError(f"a row names no task: give a column task_id, split and index, or {RESET} (see reset_rows)")
    return dict(found)
