"""SWE-smith rows: its columns, and a patch whose reverse is the solution."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from etude.environments.snapshots import make_patch
from etude.environments.tasks.task_set import write_tasks
from etude.errors import ExportError
from etude.generators.export import export
from etude.generators.export.swe_smith import reverse, row
from etude.models import Task

OLD: dict[str, bytes | None] = {
    "a b.py": b"one\ntwo\nthree\n",
    "gone.py": b"x = 1\n",
    "end.py": b"no newline",
    "kept.py": b"same\n",
    "long.py": b"".join(b"%d\n" % number for number in range(60)),
    "signs.py": b"-- a\n++ b\n@@ -1 +1 @@\nc\n",
}
NEW: dict[str, bytes | None] = {
    "a b.py": b"one\n2\nthree\nfour\n",
    "new.py": b"y = 2\n",
    "empty.py": b"",
    "end.py": b"a newline\n",
    "kept.py": b"same\n",
    "long.py": b"".join(b"%d\n" % (number if number not in (5, 40) else -number) for number in range(60)),
    "signs.py": b"-- d\n++ b\n@@ -2 +2 @@\n-- e\n",
}


def test_a_row_has_the_columns_of_swe_smith(folder: Path, task: Task, tmp_path: Path) -> None:
    export(folder, "swe-smith", tmp_path)
    (line,) = (tmp_path / "swe-smith.jsonl").read_text("ascii").splitlines()
    made: dict[str, Any] = json.loads(line)
    own = "instance_id repo patch FAIL_TO_PASS PASS_TO_PASS image_name problem_statement".split()
    assert list(made) == [*own, "base_commit", "test_patch", "test_cmd", "task_id"]
    repo = f"etude__scales.{task.base_commit[:8]}"
    assert made["repo"] == f"swesmith/{repo}" and made["task_id"] == task.task_id
    # Its harness finds the repository in front of the last dot.
    assert made["instance_id"].rsplit(".", 1) == [repo, "scales-1_2_0_hand_index"]
    assert made["FAIL_TO_PASS"] == task.FAIL_TO_PASS and made["test_patch"] == task.test_patch
    assert made["test_cmd"].endswith(" tests/test_notes.py")


def test_the_reversed_patch_undoes_the_solution(task: Task, tmp_path: Path) -> None:
    for name, content in OLD.items():
        (tmp_path / name).write_bytes(content or b"")
    patch = make_patch(OLD, NEW)

    def apply(text: str) -> None:
        command = ["git", "apply", "--whitespace=nowarn", "-"]
        ours = {"GIT_DIR": str(tmp_path / "none"), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, cwd=tmp_path, env=ours, input=text, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr

    apply(patch)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == NEW
    apply(reverse(task.model_copy(update={"patch": patch})))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == OLD


def test_a_row_refuses_a_binary_solution_and_a_task_without_a_repository(task: Task, tmp_path: Path) -> None:
    binary = make_patch({"x": b"\0a"}, {"x": b"\0b"})
    with pytest.raises(ExportError, match="changes a binary file; export tasks of source text only"):
        row(task.model_copy(update={"patch": binary}))
    write_tasks(tmp_path / "bare", [Task(task_id="drill", generator=task.generator, problem_statement="Do it.")])
    with pytest.raises(ExportError, match="drill has no base_commit"):
        export(tmp_path / "bare", "swe-smith", tmp_path / "out")
