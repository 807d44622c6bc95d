"""The 13-gram overlap of a task set with the rows of a benchmark.

A task and a row overlap when 13 words in a row are the same, in upper or lower case, as in the analyses of GPT-3 (Brown
et al. 2020, appendix C) and of later models. Words are runs of letters, digits and underscores, so that code counts by
its names. Text of a row is its statement, its patch and its test patch; diffs are read without their markers.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...errors import RowError
from ...models import Task
from ..library.rows.formats.loading.files import rows as read_rows

GRAM = 13
MOST_MATCHES = 50
_TEXTS = ("problem_statement", "patch", "test_patch")
_ID = ("instance_id", "task_id", "id")
Part = Literal["statement", "patch"]


@dataclass(frozen=True)
class Match:
    """A task and the row that shares most with one of its texts."""

    task_id: str  # the task
    part: Part  # the text of the task
    row: str  # the row's identifier, or its place in the file
    shared: int  # 13-grams of the task's text that the row has too
    share: float  # the same as a share of the text's 13-grams


@dataclass
class Overlap:
    """The result for one file of rows."""

    file: str  # name of the file
    rows: int  # rows in it
    tasks: int  # tasks that were compared
    statements: int = 0  # tasks whose statement shares a 13-gram with a row
    patches: int = 0  # tasks whose solution or hidden tests share one
    matches: list[Match] = field(default_factory=list)  # the largest, at most MOST_MATCHES


class RowIndex:
    """The 13-grams of a file of rows."""

    def __init__(self, path: Path) -> None:
        """Read the file (JSON Lines, JSON or Parquet). Raises RowError when it is not a file of rows with texts."""
        if not path.exists():
            raise RowError(f"{path} does not exist; name a .jsonl, .json or .parquet file of rows")
        self.name = path.name
        self.rows = 0
        self._places: dict[int, list[str]] = {}
        for place, row in read_rows(path, None):
            texts = [text for name in _TEXTS if isinstance(text := row.get(name), str)]
            if not texts:
                raise RowError(f"{place} has none of the columns {', '.join(_TEXTS)}; name a file of SWE-bench rows")
            self.rows += 1
            identifier = _identifier(row, place)
            for gram in {gram for text in texts for gram in grams(without_markers(text))}:
                self._places.setdefault(gram, []).append(identifier)
        if not self.rows:
            raise RowError(f"{path} holds no row; name a file with rows")

    def compare(self, tasks: Iterable[Task]) -> Overlap:
        """Return what the tasks share with the rows."""
        compared = list(tasks)
        overlap = Overlap(self.name, self.rows, len(compared))
        matches: list[Match] = []
        for task in compared:
            statement = self._largest(task.task_id, "statement", task.problem_statement)
            patch = self._largest(task.task_id, "patch", without_markers(f"{task.patch}\n{task.test_patch}"))
            overlap.statements += statement is not None
            overlap.patches += patch is not None
            matches += [match for match in (statement, patch) if match is not None]
        matches.sort(key=lambda match: (-match.shared, match.task_id, match.part))
        overlap.matches = matches[:MOST_MATCHES]
        return overlap

    def _largest(self, task_id: str, part: Part, text: str) -> Match | None:
        of_text = set(grams(text))
        counts = Counter(row for gram in of_text for row in self._places.get(gram, ()))
        if not counts:
            return None
        row, shared = min(counts.items(), key=lambda item: (-item[1], item[0]))
        return Match(task_id, part, row, shared, round(shared / len(of_text), 4))


def grams(text: str) -> Iterator[int]:
    """Yield a 64-bit hash of each 13 consecutive words; a shorter text has none."""
    words = re.findall(r"\w+", text.lower())
    for start in range(len(words) - GRAM + 1):
        joined = " ".join(words[start : start + GRAM]).encode("utf-8", "replace")
        yield int.from_bytes(hashlib.blake2b(joined, digest_size=8).digest(), "big")


def without_markers(text: str) -> str:
    """Return the lines of a diff without its headers and markers; any other text is unchanged."""
    if not re.search(r"^@@ -\d", text, re.MULTILINE):
        return text
    lines = [line for line in text.split("\n") if not line.startswith(("diff --git", "index ", "--- ", "+++ ", "@@ "))]
    return "\n".join(line[1:] if line[:1] in ("+", "-", " ") else line for line in lines)


def _identifier(row: Mapping[str, Any], place: str) -> str:
    return next((str(row[name]) for name in _ID if row.get(name)), place)
