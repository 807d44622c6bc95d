"""The audit of a task set: a good set passes, each kind of damage is reported, and the cleaned set drops it."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from uuid import uuid4

import pytest
from helpers.paths import DATA

from etude.environments.snapshots import make_patch
from etude.environments.tasks.task_trees import materials
from etude.errors import GeneratorError, SnapshotError, UnknownName
from etude.generators.base import ProgressUpdate, Rejection
from etude.generators.generate import generate, without_duplicates
from etude.generators.output.publish import Row
from etude.generators.validation import audit
from etude.generators.validation.audit import CHECKS, EXPECTED, validate
from etude.generators.validation.checks.duplicates import fingerprint
from etude.generators.validation.checks.exercise import Exercise
from etude.models import Task

SAMPLE = DATA / "scales"
ONLY_STATIC = [name for name in CHECKS if name not in ("leaks", "statement", "strength", "duplicates")]


@pytest.fixture(scope="module")
def good_set(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("set")
    generate([str(SAMPLE)], generators=["fd_function"], count=3, seed=7, out=out, jobs=2, knobs={"min_lines": 3})
    return out


@pytest.fixture
def tasks(good_set: Path) -> list[Task]:
    return [Task.model_validate_json(line) for line in (good_set / "tasks.jsonl").read_text().splitlines()]


def write(folder: Path, *rows: Task) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tasks.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in rows))
    return folder


def problems_of(report) -> set[tuple[str, str]]:
    return {(problem.task_id, problem.check) for problem in report.problems}


def all_but(*names: str) -> list[str]:
    return [name for name in CHECKS if name not in names]


def test_a_good_set_passes_every_check(good_set: Path):
    report = validate(good_set, sample=2, jobs=2)
    assert report.problems == [] and report.ok and report.tasks == 2
    assert [row.check for row in report.rows] == list(CHECKS)
    assert all((row.tasks, row.ok, row.failed) == (2, 2, 0) for row in report.rows)
    assert {row.check: row.mean_reward for row in report.rows if row.check in EXPECTED} == EXPECTED


def test_generated_rows_have_strength_and_features(tasks: list[Task]):
    for task in tasks:
        assert task.verifier_strength is not None and 0 <= task.verifier_strength <= 1
        assert {"oracle_lines", "prompt_words", "fan_in", "mutants", "fail_to_pass"} <= set(task.features)


def test_a_task_is_not_checked_twice_when_the_audit_was_interrupted(
    tasks: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    statement = f"{tasks[0].problem_statement} {uuid4()}"  # no earlier run of this test checked it
    folder = write(tmp_path / "set", tasks[0].model_copy(update={"problem_statement": statement}), *tasks[1:])
    played, limit = [], 2

    async def reward(tasks_of_set: object, task: Task, agent: str, backend: str):
        if len(played) == limit:
            raise KeyboardInterrupt
        played.append(task.task_id)
        return float(task.task_id != tasks[0].task_id), []

    monkeypatch.setattr(audit, "_play", reward)
    skip = all_but("oracle", "duplicates")
    with pytest.raises(KeyboardInterrupt):
        validate(folder, skip=skip)
    limit = 99
    report = validate(folder, skip=skip)
    assert (report.earlier, len(played), len(set(played))) == (2, 3, 3)
    assert problems_of(report) == {(tasks[0].task_id, "oracle")}
    assert [(row.check, row.tasks, row.ok) for row in report.rows] == [("oracle", 3, 2), ("duplicates", 3, 3)]
    assert report.rows[0].mean_reward == pytest.approx(2 / 3)
    assert validate(folder, skip=skip).earlier == 0 and len(played) == 6


def test_a_wrong_solution_is_reported(tasks: list[Task], tmp_path: Path):
    broken = tasks[0].model_copy(update={"patch": tasks[0].patch.replace("\n+    return", "\n+    return None  #")})
    assert broken.patch != tasks[0].patch
    report = validate(write(tmp_path, broken), skip=all_but("oracle", "stable"))
    assert {(problem.check, problem.reward) for problem in report.problems} == {("oracle", 0.0), ("stable", None)}
    assert not report.ok


def test_hidden_tests_are_reported_when_anything_passes_them(tasks: list[Task], tmp_path: Path):
    # Without the record of the old tests' calls, which something that passes the new ones does not satisfy.
    components = [name for name in tasks[0].verifier.components if name != "behaviour"]
    verifier = tasks[0].pytest.model_copy(update={"behaviour": "", "components": components})
    tests = {"FAIL_TO_PASS": tasks[0].PASS_TO_PASS[:1], "PASS_TO_PASS": []}
    easy = tasks[0].model_copy(update={**tests, "verifier": verifier})
    assert problems_of(validate(write(tmp_path, easy), skip=all_but("noop", "trivial"))) == {
        (easy.task_id, "noop"),
        (easy.task_id, "trivial"),
    }


def test_a_test_is_unstable_when_it_does_not_exist(tasks: list[Task], tmp_path: Path):
    ghost = tasks[0].model_copy(update={"PASS_TO_PASS": [*tasks[0].PASS_TO_PASS, "tests/test_notes.py::test_ghost"]})
    report = validate(write(tmp_path, ghost), skip=all_but("stable"), runs=2)
    assert "test_ghost: missing, missing" in report.problems[0].cause


def test_a_leak_is_reported_when_the_workspace_holds_the_solution(tasks: list[Task], tmp_path: Path):
    body = "\n".join(line[1:] for line in tasks[0].patch.splitlines() if line.startswith("+") and line[:3] != "+++")
    extra = make_patch({}, {"tools/old.bin": f"old copy\n{body}\n".encode() * 2})
    leaky = tasks[0].model_copy(update={"workspace_patch": tasks[0].workspace_patch + extra})
    report = validate(write(tmp_path, leaky, *tasks[1:]), skip=ONLY_STATIC)
    assert problems_of(report) == {(leaky.task_id, "leaks")}
    assert "tools/old.bin" in report.problems[0].cause


def test_a_repeated_exercise_and_a_row_without_strength_are_reported(tasks: list[Task], tmp_path: Path):
    again = tasks[0].model_copy(update={"task_id": "again", "instance_id": "again"})
    bare = tasks[1].model_copy(update={"verifier_strength": None, "features": {}})
    report = validate(write(tmp_path, tasks[0], bare, again), skip=ONLY_STATIC)
    assert problems_of(report) == {("again", "duplicates"), (bare.task_id, "strength")}


def test_a_task_has_one_problem_when_its_patches_do_not_fit(tasks: list[Task], tmp_path: Path):
    odd = tasks[0].model_copy(update={"workspace_patch": tasks[0].workspace_patch.replace("\n-", "\n-x", 1)})
    report = validate(write(tmp_path, odd), jobs=2)
    assert problems_of(report) == {(odd.task_id, "snapshot")} and len(report.problems) == 1


def test_the_cleaned_set_has_the_good_rows_byte_for_byte(good_set: Path, tasks: list[Task], tmp_path: Path):
    lines = (good_set / "tasks.jsonl").read_bytes().splitlines(keepends=True)
    bare = tasks[1].model_copy(update={"verifier_strength": None, "features": {}})
    (tmp_path / "tasks.jsonl").write_bytes(lines[0] + bare.model_dump_json().encode() + b"\n" + lines[2])
    report = validate(tmp_path, skip=ONLY_STATIC, out=tmp_path / "clean")
    assert report.written == 2 and not report.ok
    assert (tmp_path / "clean" / "tasks.jsonl").read_bytes() == lines[0] + lines[2]
    written = json.loads((tmp_path / "clean" / "report.json").read_text())
    assert list(written["dropped"]) == [bare.task_id] and written["tasks"] == 2
    assert "2 coding tasks from scales" in (tmp_path / "clean" / "README.md").read_text()
    assert validate(tmp_path / "clean", skip=ONLY_STATIC).ok


def test_a_cleaned_set_is_refused_when_the_folder_is_taken_or_only_a_sample_is_checked(good_set: Path, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("something else")
    with pytest.raises(GeneratorError, match="choose another --out"):
        validate(good_set, out=tmp_path)
    with pytest.raises(GeneratorError, match="--sample"):
        validate(good_set, out=tmp_path / "new", sample=1)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_cleaned_set_is_refused_before_the_checks_when_its_folder_cannot_be_written(good_set: Path):
    updates: list[ProgressUpdate] = []
    with pytest.raises(GeneratorError, match="cannot write /proc/cleaned: .*; choose another --out"):
        validate(good_set, out=Path("/proc/cleaned"), progress=updates.append)
    assert updates == []


def test_an_interrupted_validation_writes_nothing(good_set: Path, tmp_path: Path):
    def stop(update: ProgressUpdate) -> None:
        if update.done:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        validate(good_set, skip=ONLY_STATIC, out=tmp_path / "clean", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_validation_raises_one_error_when_the_cache_cannot_be_written(good_set: Path, tmp_path: Path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ETUDE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(SnapshotError, match="cannot be written"):
        validate(good_set)


def test_an_unknown_check_is_refused_with_the_nearest_name(good_set: Path):
    with pytest.raises(UnknownName, match="leaks"):
        validate(good_set, skip=["leak"])


def test_the_first_of_two_equal_exercises_stays(tasks: list[Task]):
    again = tasks[0].model_copy(update={"task_id": "again", "instance_id": "again"})
    rejected = Row("s", "g", "other", None, Rejection("v2_nothing_left", "no other test passes"))
    rows = [*(Row("s", "g", "e", task) for task in (again, *tasks)), rejected]
    prints = [fingerprint(task, Exercise.of(task, materials(task))) for task in (again, *tasks)]
    checked = without_duplicates(rows, prints)
    reasons = [row.rejection.reason if row.rejection else "" for row in checked]
    assert reasons == ["", "v6_duplicate", "", "", "v2_nothing_left"]
    assert checked[1].task is None and checked[1].rejection == Rejection("v6_duplicate", "the same exercise as again")
    assert [row.task for row in checked[2:]] == [*tasks[1:], None]


@pytest.mark.slow
def test_duplicates_are_rejected_when_a_set_is_made(tmp_path: Path):
    """Check two copies of one function in one package: only the first in seed order becomes a task."""
    source = shutil.copytree(SAMPLE, tmp_path / "scales")
    patterns = (source / "src" / "scales" / "patterns.py").read_text()
    (source / "src" / "scales" / "copied.py").write_text(patterns)
    tests = (source / "tests" / "test_patterns.py").read_text()
    (source / "tests" / "test_copied.py").write_text(tests.replace("scales.patterns", "scales.copied"))
    arguments = {"generators": ["fd_function"], "count": 12, "seed": 3, "knobs": {"min_lines": 3, "mutants": 0}}
    report = generate([str(source)], out=tmp_path / "one", jobs=2, **arguments)
    assert report.rejected.get("v6_duplicate", 0) >= 1
    generate([str(source)], out=tmp_path / "two", jobs=1, **arguments)
    assert (tmp_path / "one" / "tasks.jsonl").read_bytes() == (tmp_path / "two" / "tasks.jsonl").read_bytes()
