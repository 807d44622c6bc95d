"""The 13-gram overlap with a file of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etude.errors import RowError
from etude.generators.selection.overlap import Match, RowIndex, grams, without_markers
from etude.models import GeneratorRef, Task

WORDS = "the parser drops the last field of a record when its line has no final newline".split()
DIFF = """diff --git a/x.py b/x.py
--- a/x.py
+++ b/x.py
@@ -1,2 +1,2 @@ def last(record):
     if record and record[-1] is not None and len(record) > width:
-        return record
+        return record[:width] + [pad(field, width, fill) for field in record[width:]]
"""


def rows_file(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def task(name: str, statement: str = "Do it.", patch: str = "") -> Task:
    generator = GeneratorRef(name="hand", version="1", seed=0)
    return Task(task_id=name, generator=generator, problem_statement=statement, patch=patch)


def test_a_text_has_one_gram_for_each_thirteen_words() -> None:
    assert [len(list(grams(" ".join(WORDS[:count])))) for count in (12, 13, 15)] == [0, 1, 3]
    assert list(grams("A-b " * 7)) == list(grams("a B " * 7))


def test_a_diff_is_read_without_headers_and_markers() -> None:
    plain = without_markers(DIFF)
    assert "x.py" not in plain and "def last" not in plain
    assert plain.splitlines()[1] == "        return record"
    assert without_markers("- a list\n+ no diff") == "- a list\n+ no diff"


def test_a_task_overlaps_when_a_row_has_thirteen_words_of_it(tmp_path: Path) -> None:
    row = {"instance_id": "one", "problem_statement": " ".join(WORDS), "patch": DIFF}
    index = RowIndex(rows_file(tmp_path, {"instance_id": "other", "problem_statement": "Nothing."}, row))
    copied = task("copied", "Note: " + " ".join(WORDS[:14]).upper(), DIFF.replace("x.py", "renamed.py"))
    result = index.compare([copied, task("short", " ".join(WORDS[:12])), task("free", "something else " * 20)])
    assert (result.file, result.rows, result.tasks) == ("rows.jsonl", 2, 3)
    assert (result.statements, result.patches) == (1, 1)
    assert result.matches[-1] == Match("copied", "statement", "one", 2, 0.6667)
    assert [match.part for match in result.matches] == ["patch", "statement"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist; name a .jsonl, .json or .parquet file of rows"),
        ("", "holds no row; name a file with rows"),
        ('{"a": 1}\n', "has none of the columns problem_statement, patch, test_patch"),
        ("nonsense\n", "is not JSON"),
    ],
)
def test_a_file_without_rows_is_refused_in_one_line(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RowError) as error:
        RowIndex(path)
    assert message in str(error.value) and "\n" not in str(error.value)
