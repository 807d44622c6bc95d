"""SWE-bench rows: the columns, their types, and patches that apply to the named commit."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from etude.environments.sandbox import open_sandbox
from etude.environments.snapshots import Snapshot, make_workspace
from etude.environments.tasks.task_set import write_tasks
from etude.errors import ExportError, UnknownName
from etude.generators.export import export
from etude.generators.export.swe_bench import row as swe_bench_row
from etude.models import Task, UnittestVerifier

COLUMNS = """instance_id repo base_commit environment_setup_commit version created_at problem_statement hints_text patch
test_patch FAIL_TO_PASS PASS_TO_PASS""".split()


@pytest.fixture(scope="module")
def row(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("out")
    report = export(folder, "swe-bench", out)
    assert report.rows == 1 and str(out / "swe-bench.jsonl") in report.files
    # swebench's loader splits lines at every separator of Unicode, as splitlines does.
    (line,) = (out / "swe-bench.jsonl").read_text().splitlines()
    return json.loads(line)


def test_a_row_has_the_columns_of_swe_bench_as_text(row: dict[str, str], task: Task) -> None:
    assert list(row) == [*COLUMNS, "eval_script", "log_parser", "eval_type"]
    assert {type(value) for value in row.values()} == {str}
    assert json.loads(row["FAIL_TO_PASS"]) == task.FAIL_TO_PASS and json.loads(row["PASS_TO_PASS"]) == []
    assert row["instance_id"] == task.task_id and row["problem_statement"] == task.problem_statement
    assert row["created_at"] == "2000-01-01T00:00:00Z"


def test_patches_apply_to_the_commit_of_the_row(
    row: dict[str, str], task: Task, snapshot: Snapshot, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(make_workspace(snapshot, task.workspace_patch, git=True).path, tree)

    def git(*arguments: str, stdin: str = "") -> str:
        safe = ["git", "-c", f"safe.directory={tree}", *arguments]
        return subprocess.run(safe, cwd=tree, input=stdin, text=True, check=True, capture_output=True).stdout.strip()

    assert git("rev-parse", "HEAD") == row["base_commit"]
    assert datetime.fromtimestamp(int(git("log", "--format=%ct")), UTC) == datetime.fromisoformat(row["created_at"])
    git("apply", "--check", stdin=row["test_patch"])
    git("apply", stdin=row["patch"])
    git("apply", stdin=row["test_patch"])
    for path in ("src/scales/notes.py", "tests/test_notes.py"):
        assert (tree / path).read_bytes() == (snapshot.tree / path).read_bytes()


@pytest.mark.parametrize("solved", [True, False])
def test_the_eval_script_passes_the_solution_alone(
    row: dict[str, str], task: Task, snapshot: Snapshot, solved: bool
) -> None:
    layers = snapshot.layers(make_workspace(snapshot, task.workspace_patch, git=True).path)
    script = row["eval_script"].replace("/testbed", "/workspace")

    async def log() -> str:
        sandbox = await open_sandbox(layers)
        try:
            if solved:
                done = await sandbox.exec(["git", "apply", "-"], stdin=row["patch"].encode())
                assert done.exit_code == 0, done.output
            return (await sandbox.exec(["bash", "-s"], stdin=script.encode(), timeout_s=120)).output.decode()
        finally:
            await sandbox.close()

    output = asyncio.run(log())
    between = output.split(">>>>> Start Test Output")[1].split(">>>>> End Test Output")[0]
    status = {words[1]: words[0] for line in between.splitlines() if len(words := line.split()) > 1}
    assert {status[test] for test in task.FAIL_TO_PASS} == {"PASSED" if solved else "FAILED"}, output


def test_export_raises_one_line_when_a_task_has_no_row(folder: Path, task: Task, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown format 'swe_bench'. Did you mean 'swe-bench'"):
        export(folder, "swe_bench", tmp_path / "out")
    bare = Task(task_id="drill", generator=task.generator, problem_statement="Do it.")
    write_tasks(tmp_path / "bare", [bare])
    with pytest.raises(ExportError, match="drill has no base_commit"):
        export(tmp_path / "bare", "swe-bench", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="cannot write to .*; choose another --out"):
        export(folder, "swe-bench", tmp_path / "file" / "below")


def test_an_export_has_the_same_bytes_every_time(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        export(folder, "swe-bench", tmp_path / name)
    assert (tmp_path / "a" / "swe-bench.jsonl").read_bytes() == (tmp_path / "b" / "swe-bench.jsonl").read_bytes()


def test_a_task_of_a_unittest_program_is_run_by_it_and_labelled_as_its_parser_prints(task: Task) -> None:
    verifier = UnittestVerifier(program="tests/runtests.py", options=["--settings=test_sqlite", "--verbosity=0"])
    changes = {"verifier": verifier, "FAIL_TO_PASS": ["forms.tests.Case.test_a"], "PASS_TO_PASS": ["forms.x.B.test_b"]}
    exported = swe_bench_row(task.model_copy(update=changes))
    assert json.loads(exported["FAIL_TO_PASS"]) == ["test_a (forms.tests.Case)"]
    assert exported["log_parser"] == "parse_log_django"
    command = "python tests/runtests.py --verbosity=2 --settings=test_sqlite forms.tests forms.x"
    assert command in exported["eval_script"].splitlines()
