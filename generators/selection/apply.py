"""Selection applied to the rows of ``etude generate``: each task gets its split, and the report its counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...models import Task
from ..output.publish import Row
from .benchmarks import benchmarks_of
from .overlap import Overlap, RowIndex
from .splits import SplitRules, source_spec


@dataclass
class SelectionReport:
    """What selection did with the tasks of a set."""

    min_strength: float = 0.0  # least strength of a task outside the split ``weak``
    splits: dict[str, int] = field(default_factory=dict)  # tasks in each split
    below_strength: int = 0  # tasks under the least strength, whatever their split
    unmeasured_strength: int = 0  # tasks without a strength: their solution has nothing to change
    benchmarks: dict[str, list[str]] = field(default_factory=dict)  # packages of public benchmarks, and these
    overlap: list[Overlap] = field(default_factory=list)  # 13-grams shared with each file of rows


def with_splits(rows: Sequence[Row], rules: SplitRules) -> list[Row]:
    """Return the rows in their order, each task in its split."""
    return [
        row if row.task is None else replace(row, task=row.task.model_copy(update={"split": rules.split_of(row.task)}))
        for row in rows
    ]


def selection_report(tasks: Sequence[Task], rules: SplitRules, indexes: Sequence[RowIndex] = ()) -> SelectionReport:
    """Return the counts of tasks whose splits are drawn already, and their overlap with each index."""
    strengths = [task.verifier_strength for task in tasks]
    return SelectionReport(
        min_strength=rules.min_strength,
        splits=dict(sorted(Counter(task.split for task in tasks).items())),
        below_strength=sum(value is not None and value < rules.min_strength for value in strengths),
        unmeasured_strength=strengths.count(None),
        benchmarks={
            name: lists
            for name, spec in sorted({(task.repo, source_spec(task)) for task in tasks})
            if (lists := benchmarks_of(name, spec))
        },
        overlap=[index.compare(tasks) for index in indexes],
    )
