"""The folder of a task set: when it may be written, and what an interrupted run leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from etude.environments.tasks.task_set import TaskSet
from etude.errors import GeneratorError
from etude.generators.output.card import card, replace_blobs
from etude.generators.output.publish import JOURNAL, Journal, Row, publish, refuse_foreign
from etude.models import RECORD_LACKS, GeneratorRef, Task

REQUEST: dict[str, Any] = {"sources": ["x"], "seed": 0}
REPORT: dict[str, Any] = {"candidates": 2, "yield": 1.0, "rejected": {}}


def row(name: str) -> Row:
    generator = GeneratorRef(name="hand", version="1", seed=0)
    return Row("thing 1", "hand", name, Task(task_id=name, generator=generator, problem_statement="Do it."))


def test_nothing_is_written_before_the_first_verdict(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    journal.add("k", row("one"))
    assert Journal(tmp_path / "a" / "b").get("k") == row("one")
    journal.remove()
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_journal_line_is_ignored_when_it_is_not_a_verdict(tmp_path: Path) -> None:
    Journal(tmp_path).add("k", row("one"))
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'7\n{"key": "x"}\n{"key": "y", "task": {"task_id": 1}}\n\xff\xfe\n{"key": "cut')
    journal = Journal(tmp_path)
    assert [journal.get(key) is None for key in ("k", "x", "y", "cut")] == [False, True, True, True]


@pytest.mark.parametrize("place", ["file", "file/below", "gone/below"])
def test_a_folder_is_refused_at_once_when_it_cannot_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "gone").symlink_to("nowhere")
    with pytest.raises(GeneratorError, match="cannot write to .*; choose another --out"):
        Journal(tmp_path / place)


def test_a_folder_is_refused_when_another_process_writes_to_it(tmp_path: Path) -> None:
    code = "import sys\nfrom pathlib import Path\nfrom etude.generators.output.publish import Journal, Row\n"
    code += "journal = Journal(Path(sys.argv[1]))\njournal.add('k', Row('', '', '', None))\n"
    code += "print('holds', flush=True)\nsys.stdin.read()\n"
    late = Journal(tmp_path)
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "holds\n"
        with pytest.raises(GeneratorError, match="another `etude generate` writes to"):
            Journal(tmp_path)
        with pytest.raises(GeneratorError, match="another `etude generate` writes to"):
            late.add("l", row("one"))
        other.kill()
    assert Journal(tmp_path).get("k") == Row("", "", "", None)


def test_files_are_not_overwritten_when_another_request_wrote_them(tmp_path: Path) -> None:
    refuse_foreign(tmp_path / "new", REQUEST)
    (tmp_path / "README.md").write_text("notes")
    with pytest.raises(GeneratorError, match="already holds a README.md that no run of etude wrote"):
        refuse_foreign(tmp_path, REQUEST)
    (tmp_path / JOURNAL).write_text("")  # an interrupted run of etude
    refuse_foreign(tmp_path, REQUEST)
    (tmp_path / "report.json").write_text(json.dumps({"request": {**REQUEST, "seed": 1}}))
    with pytest.raises(GeneratorError, match="made from other arguments"):
        publish(tmp_path, [row("one")], REPORT, REQUEST, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == [JOURNAL, "README.md", "report.json"]


def test_each_task_is_written_once_when_a_source_is_given_twice(tmp_path: Path) -> None:
    publish(tmp_path, [row("one"), row("two"), row("one")], REPORT, REQUEST, [])
    assert [task.task_id for task in TaskSet.load(tmp_path)] == ["one", "two"]


def task(name: str, **fields: Any) -> Task:
    generator = GeneratorRef(name=fields.pop("generator", "fd_function"), version="1", seed=0)
    return Task(task_id=name, generator=generator, problem_statement="Do it.", **fields)


def front_matter(text: str) -> list[str]:
    _, head, _ = text.split("---\n", 2)
    return head.splitlines()


def test_the_card_has_the_front_matter_of_the_hub() -> None:
    text = card([task("a", licence="MIT"), task("b", licence="Apache-2.0 OR BSD-3-Clause")], REPORT, [])
    assert front_matter(text) == [
        "license: [apache-2.0, bsd-3-clause, mit]",
        "task_categories: [text-generation]",
        "tags: [code, reinforcement-learning, openenv, etude, fd-function]",
        "size_categories: [n<1K]",
        "configs: [{config_name: default, data_files: tasks.jsonl}]",
    ]
    assert front_matter(card([task("a", licence="MIT")], REPORT, []))[0] == "license: mit"
    unknown_licence = front_matter(card([task("a", licence='my "own"')], REPORT, []))
    assert unknown_licence[:2] == ["license: other", 'license_name: "my \\"own\\""']
    assert front_matter(card([task("a")], REPORT, []))[:2] == ["license: other", 'license_name: "unknown"']
    assert "size_categories: [1K<n<10K]" in card([task(str(n)) for n in range(1000)], REPORT, [])


def test_the_card_describes_the_set() -> None:
    tasks = [task("a", verifier_strength=0.5), task("b", verifier_strength=1.0, generator="fd_class", split="test")]
    report = {"candidates": 8, "yield": 0.25, "rejected": {"v1_no_test_fails": 6}}
    text = card([*tasks, task("c", assurance="out_of_process")], report, [])
    for line in (
        "| fd_class | 1 tasks |",
        "| candidates | 8 |",
        "| yield | 25% |",
        "| rejected: v1_no_test_fails | 6 |",
        "| splits | test 1, train 2 |",
        "| verifier strength (share of mutants killed) | 0.50 / 0.75 / 1.00 in 2 of 3 tasks |",
        "| every mutant killed | 1 tasks |",
    ):
        assert line in text.splitlines()
    assert "- 2 tasks have assurance `in_process`" in text


def test_the_card_counts_what_the_records_of_tasks_lack() -> None:
    lacking = {"enough calls": 1, "enough tests: a RLock has no form": 2}
    tasks = [
        task(f"{reason}{n}", features={RECORD_LACKS: reason})
        for reason, number in lacking.items()
        for n in range(number)
    ]
    rows = [line for line in card([*tasks, task("a")], REPORT, []).splitlines() if "the record lacks" in line]
    assert rows == [
        "| graded in process alone, because the record lacks: enough tests: a RLock has no form | 2 |",
        "| graded in process alone, because the record lacks: enough calls | 1 |",
    ]
    assert RECORD_LACKS not in tasks[0].public().features


def test_the_card_says_that_archives_are_missing() -> None:
    text = card([task("a")], REPORT, [])
    assert "Snapshots: not packed;" in text
    assert "verifier strength" not in card([task("a")], REPORT, [])


def test_the_card_reports_archives_when_etude_wrote_it() -> None:
    text = card([task("a")], REPORT, [])
    updated = replace_blobs(text, 2, 3 << 20)
    assert "Snapshots: 2 packed in `blobs/` (3.0 MiB)" in updated and "not packed" not in updated
    assert replace_blobs(updated, 2, 3 << 20) == updated
    assert replace_blobs("# Notes\n", 2, 3 << 20) == "# Notes\n"
