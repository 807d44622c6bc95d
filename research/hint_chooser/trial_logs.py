"""Logged choices between hints, read from the trials that ``etude hints causal`` writes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from etude.errors import RunError
from etude.research.hint_chooser.chooser import Logged

FILE_NAME = "trials.jsonl"


def read_choices(runs: Iterable[Path]) -> list[Logged]:
    """Return the choices between hints in the trials of several measurements.

    A hint that was certain to be shown was no choice. Of trials that were played again the last one counts. Trials of
    one task are one group. Raises RunError for a file that cannot be read.
    """
    choices: list[Logged] = []
    for run in runs:
        file = run / FILE_NAME if run.is_dir() else run
        if not file.is_file():
            raise RunError(f"there is no {file}; make one with `etude hints causal RUN --choose uniform --out {run}`")
        last: dict[tuple[str, bool, int], Logged] = {}
        # Whatever follows the last line end is still being written.
        for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], start=1):
            try:
                row: dict[str, Any] = json.loads(line)
                if row["valid"] and row["propensity"] < 1.0:
                    last[row["place"], bool(row["arms"]), row["number"]] = _choice(row)
            except (ValueError, KeyError, TypeError):
                raise RunError(f"{file}:{number} is not a trial; remove the line") from None
        choices += last.values()
    return choices


def _choice(row: dict[str, Any]) -> Logged:
    arms = tuple(row["arms"])
    return Logged(row["context"], arms, row["arm"], row["propensity"], float(row["success"]), row["task_id"])
