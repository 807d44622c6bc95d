"""What can be measured of a task, in one place; the generator's own features win."""

from __future__ import annotations

import re

from ....models import Task
from ...python.source_tree import SourceTree
from .removed import Exercise


def measured(task: Task, exercise: Exercise, tree: SourceTree) -> dict[str, int]:
    """Counts from the row and the source tree alone: the same wherever they are measured.

    ``fan_in`` counts source files besides the solution's own that mention a removed definition by name.
    """
    added = [
        exercise.after[path].split(b"\n")[number - 1]
        for path, numbers in exercise.added.items()
        if path in exercise.after
        for number in numbers
    ]
    code = [line for line in added if line.strip() and not line.strip().startswith(b"#")]
    names = {piece.short for piece in exercise.pieces if not piece.short.startswith("__")}
    callers = [
        path
        for path, known in tree.word_index.items()
        if path not in exercise.after and tree.is_source(path) and not tree.is_test(path) and names & known
    ]
    return {
        "loc_removed": len(code),
        "files": len(exercise.after),
        "entities": len(exercise.pieces),
        "fail_to_pass": len(task.FAIL_TO_PASS),
        "pass_to_pass": len(task.PASS_TO_PASS),
        "prompt_words": len(re.findall(r"\S+", task.problem_statement)),
        "oracle_lines": len(added),
        "fan_in": len(callers),
    }
