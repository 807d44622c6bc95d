"""From a real package to a validated set: what is written, that it is the same every time, and what is refused."""

from __future__ import annotations

import json
import shutil
import textwrap
from pathlib import Path

import pytest
from helpers.paths import DATA

from etude.errors import GeneratorError, SnapshotError, UnknownName
from etude.generators.generate import generate
from etude.generators.output.publish import JOURNAL
from etude.models import Task

SAMPLE = DATA / "scales"
KNOBS = {"min_lines": 3}


def make(source: Path, out: Path, **more):
    arguments = {"generators": ["fd_function"], "count": 3, "seed": 7, "jobs": 2, "knobs": KNOBS, **more}
    return generate([str(source)], out=out, **arguments)


def rows(folder: Path) -> list[Task]:
    return [Task.model_validate_json(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("set")
    return out, make(SAMPLE, out)


def test_every_candidate_of_a_well_tested_package_becomes_a_task(made):
    out, report = made
    assert (report.candidates, report.tasks, report.rejected) == (3, 3, {})
    written = json.loads((out / "report.json").read_text())
    assert written["yield"] == 1.0 and written["seconds"] > 0
    assert "3 coding tasks from scales 1.2.0" in (out / "README.md").read_text()
    assert not (out / JOURNAL).exists()


def test_a_row_holds_the_whole_exercise(made):
    for task in rows(made[0]):
        assert task.FAIL_TO_PASS and task.PASS_TO_PASS
        assert not set(task.FAIL_TO_PASS) & set(task.PASS_TO_PASS)
        assert "+    raise NotImplementedError" in task.workspace_patch
        assert "-    raise NotImplementedError" in task.patch
        assert task.patch and task.test_patch and len(task.base_commit) == 40
        assert task.licence == "MIT" and task.source_globs == ["src/scales/**"]
        assert task.interface[0].name in task.problem_statement


def test_same_seed_same_bytes_whatever_the_jobs_and_the_folder(made, tmp_path, monkeypatch):
    moved = shutil.copytree(SAMPLE, tmp_path / "elsewhere" / "of-another-name")
    monkeypatch.chdir(tmp_path)
    make(moved, tmp_path / "again", jobs=1)
    assert (tmp_path / "again" / "tasks.jsonl").read_bytes() == (made[0] / "tasks.jsonl").read_bytes()


def test_no_path_of_this_machine_is_in_a_row(made):
    text = (made[0] / "tasks.jsonl").read_text()
    assert str(SAMPLE) not in text and str(Path.home()) not in text and str(made[0]) not in text


def test_an_interrupted_run_goes_on_where_it_stopped(made, tmp_path):
    seen: list[tuple[str, int, int]] = []

    def stop_after_two(phase: str, done: int, total: int) -> None:
        if total and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(SAMPLE, tmp_path, progress=stop_after_two)
    assert not (tmp_path / "tasks.jsonl").exists()
    with (tmp_path / JOURNAL).open("a") as journal:
        journal.write('{"key": "cut sho')
    make(SAMPLE, tmp_path, progress=lambda *state: seen.append(state))
    assert next(done for _, done, total in seen if total) >= 2
    assert (tmp_path / "tasks.jsonl").read_bytes() == (made[0] / "tasks.jsonl").read_bytes()


def test_a_set_made_from_other_arguments_is_never_overwritten(made, tmp_path):
    folder = shutil.copytree(made[0], tmp_path / "copy")
    before = (folder / "tasks.jsonl").read_bytes()
    with pytest.raises(GeneratorError, match="choose another --out"):
        make(SAMPLE, folder, seed=8)
    assert (folder / "tasks.jsonl").read_bytes() == before


LOOSE = {
    "pyproject.toml": """
        [project]
        name = "loose"
        version = "0.1"
        license = {text = "MIT"}
        [tool.setuptools]
        py-modules = ["loose"]
        """,
    "loose.py": """
        def guess(text):
            text = text.strip()
            if not text:
                return None
            return text.upper()

        def tuned(text):
            for letter in text:
                if letter == "?":
                    return False
            return True
        """,
    "test_loose.py": """
        from loose import guess, tuned

        def test_guess():
            try:
                guess(" c ")
            except Exception:
                pass

        def test_tuned():
            assert tuned("A4")

        def test_nothing():
            assert True
        """,
}


def test_what_does_not_hold_is_rejected_with_its_reason(tmp_path):
    source = tmp_path / "loose"
    source.mkdir()
    for name, text in LOOSE.items():
        (source / name).write_text(textwrap.dedent(text))
    report = make(source, tmp_path / "out")
    assert report.rejected == {"v1_no_test_fails": 1, "v5_trivial_solution": 1}
    assert (tmp_path / "out" / "tasks.jsonl").read_bytes() == b""


def test_code_that_is_not_known_to_be_permissive_is_refused(tmp_path):
    for licence, expected in (
        ("", "free 0.1 names no licence that can be told: take another source, or pass --any-licence"),
        ('license = {text = "GPL-3.0-only"}', "free 0.1 is under GPL-3.0-only, which is not known to be permissive"),
    ):
        source = tmp_path / f"free{len(licence)}"
        source.mkdir()
        for name, text in LOOSE.items():
            told = text.replace('license = {text = "MIT"}', licence).replace("loose", "free")
            (source / name.replace("loose", "free")).write_text(textwrap.dedent(told))
        with pytest.raises(GeneratorError, match=expected):
            make(source, tmp_path / "out")
        assert not (tmp_path / "out").exists()
    make(source, tmp_path / "out", any_licence=True)
    assert (tmp_path / "out" / "report.json").exists()


def test_bad_requests_say_what_to_do(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'fd_function'"):
        make(SAMPLE, tmp_path, generators=["fd_functon"])
    with pytest.raises(GeneratorError, match="Did you mean 'min_lines'"):
        make(SAMPLE, tmp_path, knobs={"min_line": 1})
    with pytest.raises(GeneratorError, match="nothing to propose"):
        make(SAMPLE, tmp_path, knobs={"min_lines": 100})
    with pytest.raises(SnapshotError):
        make(tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(GeneratorError, match="cannot write to"):
        make(SAMPLE, tmp_path / "file")
