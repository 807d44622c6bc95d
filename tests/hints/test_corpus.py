"""The annotator against labelled logs of many harnesses (see tests/data/transcripts/README.md).

Logs with status lines are read without an error. In logs without them precision counts: what is reported is right, and
what shows in words alone may be missed.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from etude.hints import annotate
from etude.hints.foreign import detect, read
from etude.hints.transcript.call_effects import command_of

BEHAVIOURS = {"wasteful", "style", "false_claim"}
"""Kinds that are about turns, which the corpora do not label."""
LEAST_PRECISION = 0.985
LEAST_RECALL = {
    "status": 1.0,
    "json": 0.98,
    "returncode": 0.97,
    "trailer": 0.97,
    "plain": 0.94,
    "own": 0.82,
    "unseen": 0.7,
    "last": 0.67,
    "dev": 0.6,
    "late": 0.55,
    "fresh": 0.5,
}
"""By the way in which a log of the corpus reports outcomes."""
ANSWERS = re.compile(r"(?:^|&& |\| |-lc ')(?:grep|rg|test|git diff --exit-code)\b")
"""Commands whose exit code 1 the writers labelled as an error; since then it is an answer."""
PRINTED = [
    "Error: Tool not found",
    "error tool_not_found: there is no tool 'bash'",
    "exit 1",
    "timeout 30s",
    "bash: line 1: x: command not found",
    'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nValueError: x',
    "[... 77 bytes dropped ...]",
    "<tool_call>{</tool_call>",
    '{"error": "x", "exit_code": 1}',
    "<returncode>1</returncode>",
    "The episode has ended: its budget is used up.",
]
Row = dict[str, Any]
Labels = set[tuple[int, int | None, str]]


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    return root / "tests" / "data" / "transcripts"


def rows_of(folder: Path, name: str) -> list[Row]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return rows_of(folder, "corpus")


@pytest.fixture(scope="module", params=["blind_one", "blind_two"])
def blind(request: pytest.FixtureRequest, folder: Path) -> list[Row]:
    return rows_of(folder, request.param)


def annotated(row: Row, dialect: str = "auto") -> Labels:
    """Return the annotator's labels of a log."""
    errors = annotate(row["messages"], row["tools"], dialect=dialect)
    return {(error.turn, error.call_index, error.kind) for error in errors if error.kind not in BEHAVIOURS}


def is_answer(row: Row, label: list[Any]) -> bool:
    """Return whether the label is of a rule that has changed since: exit code 1 of a search, a test or a comparison."""
    turn, index, kind = label
    if kind != "nonzero_exit" or index is None:
        return False
    call = read(row["messages"], row["tools"])[turn].calls[index]
    return call.status.exit_code == 1 and ANSWERS.search(command_of(call)) is not None


def score(title: str, rows: list[Row]) -> tuple[float, float]:
    """Return precision and recall over logs: an error counts as right when turn, call and kind agree."""
    reported = {(row["name"], *label) for row in rows for label in annotated(row)}
    expected = {(row["name"], *label) for row in rows for label in row["labels"] if not is_answer(row, label)}
    right = len(reported & expected)
    precision, recall = right / len(reported), right / len(expected)
    print(f"{title:24} {sum(row['turns'] for row in rows):5} turns {len(expected):4} errors", end=" ")
    print(f"precision {precision:.4f} recall {recall:.4f}")
    return precision, recall


def test_precision_and_recall_of_the_corpus(rows: list[Row]) -> None:
    by_report: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_report[row["results"]].append(row)
    assert set(by_report) == set(LEAST_RECALL)
    for name, chosen in by_report.items():
        precision, recall = score(name, chosen)
        assert precision >= (1.0 if name == "status" else LEAST_PRECISION) and recall >= LEAST_RECALL[name]
    assert {row["dialect"] for row in rows} == {"etude", "openai", "hermes", "react"}
    assert sum(row["turns"] for row in rows) >= 300


def test_precision_and_recall_of_logs_by_independent_writers(blind: list[Row]) -> None:
    with_status = [row for row in blind if row["results"] == "status"]
    without = [row for row in blind if row["results"] != "status"]
    assert len(with_status) > 15 and len(without) > 15
    assert score("with status lines", with_status) == (1.0, 1.0)
    precision, recall = score("without", without)
    assert precision >= LEAST_PRECISION and recall >= 0.6


def test_precision_and_recall_of_logs_that_no_rule_was_made_for(folder: Path) -> None:
    """Rules and labels were not changed after these logs had been read once."""
    rows = rows_of(folder, "blind_three")
    assert {row["dialect"] for row in rows} == {"etude", "openai", "hermes", "react"}
    assert score("with status lines", [row for row in rows if row["results"] == "status"]) == (1.0, 1.0)
    precision, recall = score("without", [row for row in rows if row["results"] != "status"])
    assert precision >= LEAST_PRECISION and recall >= 0.6


def test_the_corpus_is_what_its_writers_wrote(folder: Path) -> None:
    written = subprocess.run([sys.executable, "-B", "make.py"], cwd=folder, capture_output=True, check=True)
    assert written.stdout == (folder / "corpus.jsonl").read_bytes()


def test_the_dialect_is_recognised(rows: list[Row], blind: list[Row]) -> None:
    for row in [*rows, *blind]:
        # With status lines on every result, the shape of a call does not distinguish ours from OpenAI's.
        same = {"etude", "openai"} if row["dialect"] in ("etude", "openai") else {row["dialect"]}
        assert detect(row["messages"]) in same, row["name"]
        assert annotated(row, row["dialect"]) == annotated(row), row["name"]


def verdicts(row: Row) -> Labels:
    """Return the labels with ``traceback`` as ``nonzero_exit``: it depends on what a failed command printed."""
    return {(turn, index, kind.replace("traceback", "nonzero_exit")) for turn, index, kind in annotated(row)}


def print_more(row: Row, rng: random.Random) -> tuple[Row, int]:
    """Return the log with error words before or behind each result's body, and the number of insertions."""
    changed, count = json.loads(json.dumps(row)), 0
    for message in changed["messages"]:
        line, _, body = message["content"].partition("\n") if message["role"] == "tool" else ("", "", "")
        if line and "<tool_response>" not in line and len(body) < 10_000:
            words = rng.choice(PRINTED)
            message["content"] = f"{line}\n{words}\n{body}" if rng.random() < 0.5 else f"{line}\n{body}\n{words}"
            count += 1
    return changed, count


def test_printed_error_words_change_nothing_where_there_are_status_lines(rows: list[Row], blind: list[Row]) -> None:
    rng, tried = random.Random(4), 0
    for row in (row for row in [*rows, *blind] if row["results"] == "status"):
        for _ in range(3):
            changed, count = print_more(row, rng)
            assert verdicts(changed) == verdicts(row), row["name"]
            tried += count
    assert tried > 500


def test_annotations_survive_json(rows: list[Row]) -> None:
    for row in rows[:20]:
        again = json.loads(json.dumps(row))
        assert annotate(again["messages"], again["tools"]) == annotate(row["messages"], row["tools"])
