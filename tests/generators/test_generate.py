"""From a real package to a validated set: what is written, that it is reproducible, and what is refused."""

from __future__ import annotations

import ast
import json
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from helpers.light_checks import LIGHT
from helpers.paths import DATA

from etude.cli.app import main
from etude.errors import EndpointUnavailable, GeneratorError, SnapshotError, UnknownName
from etude.generators.base import ProgressUpdate
from etude.generators.generate import generate
from etude.generators.library.mutation.bug_operator import OperatorBug
from etude.generators.output.publish import JOURNAL
from etude.models import Task

SAMPLE = DATA / "scales"
KNOBS = {"min_lines": 3}


def make_set(source: Path, out: Path, **more):
    arguments = {"generators": ["fd_function"], "count": 3, "seed": 7, "jobs": 2, "knobs": KNOBS, **more}
    return generate([str(source)], out=out, **arguments)


def rows(folder: Path) -> list[Task]:
    return [Task.model_validate_json(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def sample_set(tmp_path_factory):
    out = tmp_path_factory.mktemp("set")
    return out, make_set(SAMPLE, out)


def test_every_candidate_becomes_a_task_when_the_package_is_well_tested(sample_set):
    out, report = sample_set
    assert (report.candidates, report.tasks, report.rejected) == (3, 3, {})
    written = json.loads((out / "report.json").read_text())
    assert written["yield"] == 1.0 and written["seconds"] > 0 and written["count"] == 3
    assert "| candidates | 3 (at most 3 per source and generator) |" in (out / "README.md").read_text()
    assert "3 coding tasks from scales 1.2.0" in (out / "README.md").read_text()
    assert not (out / JOURNAL).exists()


def test_a_row_has_every_part_of_the_exercise(sample_set):
    for task in rows(sample_set[0]):
        assert task.FAIL_TO_PASS and task.PASS_TO_PASS
        assert not set(task.FAIL_TO_PASS) & set(task.PASS_TO_PASS)
        assert "+    raise NotImplementedError" in task.workspace_patch
        assert "-    raise NotImplementedError" in task.patch
        assert task.patch and task.test_patch and len(task.base_commit) == 40
        assert task.licence == "MIT" and task.source_globs == ["src/scales/**"]
        assert task.interface[0].name in task.problem_statement


def test_the_rows_are_the_same_bytes_whatever_the_jobs_and_the_folder(sample_set, tmp_path, monkeypatch):
    moved = shutil.copytree(SAMPLE, tmp_path / "elsewhere" / "of-another-name")
    monkeypatch.chdir(tmp_path)
    make_set(moved, tmp_path / "again", jobs=1)
    assert (tmp_path / "again" / "tasks.jsonl").read_bytes() == (sample_set[0] / "tasks.jsonl").read_bytes()


def test_a_row_has_no_path_of_this_machine(sample_set):
    text = (sample_set[0] / "tasks.jsonl").read_text()
    assert str(SAMPLE) not in text and str(Path.home()) not in text and str(sample_set[0]) not in text


def test_a_run_is_resumed_when_it_was_interrupted(sample_set, tmp_path):
    updates: list[ProgressUpdate] = []

    def stop_after_two(update: ProgressUpdate) -> None:
        if update.total and update.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_set(SAMPLE, tmp_path, progress=stop_after_two)
    assert not (tmp_path / "tasks.jsonl").exists()
    with (tmp_path / JOURNAL).open("a") as journal:
        journal.write('{"key": "cut sho')
    make_set(SAMPLE, tmp_path, progress=updates.append)
    first, *_, last = [update for update in updates if update.total]
    assert first.done >= 2
    assert (last.done, last.total, last.accepted, last.rejected) == (3, 3, 3, 0)
    assert (tmp_path / "tasks.jsonl").read_bytes() == (sample_set[0] / "tasks.jsonl").read_bytes()


def test_a_set_is_not_overwritten_when_other_arguments_made_it(sample_set, tmp_path):
    folder = shutil.copytree(sample_set[0], tmp_path / "copy")
    before = (folder / "tasks.jsonl").read_bytes()
    with pytest.raises(GeneratorError, match="choose another --out"):
        make_set(SAMPLE, folder, seed=8)
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


NEVER_COLLECTED = {
    "file": "open('no-such-file.json')\n\ndef test_vectors():\n    pass\n",
    "class": """
import warnings
from unittest import TestSuite

warnings.simplefilter("error")  # so pytest's warning that it cannot collect TestSuite becomes an error

def test_vectors():
    assert TestSuite
""",
}


@pytest.mark.parametrize("kind", NEVER_COLLECTED)
def test_what_was_never_collected_rejects_no_candidate(tmp_path, kind):
    source = shutil.copytree(SAMPLE, tmp_path / "scales")
    folder = next(path.parent for path in source.rglob("test_*.py"))
    (folder / "test_vectors.py").write_text(NEVER_COLLECTED[kind])
    report = make_set(source, tmp_path / "out", count=1, knobs={**KNOBS, "mutants": 0})
    assert (report.candidates, report.tasks, report.rejected) == (1, 1, {})


def test_a_rejected_candidate_is_reported_with_its_cause(tmp_path):
    source = tmp_path / "loose"
    source.mkdir()
    for name, text in LOOSE.items():
        (source / name).write_text(textwrap.dedent(text))
    updates: list[ProgressUpdate] = []
    report = make_set(source, tmp_path / "out", progress=updates.append)
    assert report.rejected == {"v1_no_test_fails": 1, "v5_trivial_solution": 1}
    assert (tmp_path / "out" / "tasks.jsonl").read_bytes() == b""
    rejects = json.loads((tmp_path / "out" / "report.json").read_text())["rejects"]
    assert {(item["entity"], item["reason"], item["detail"]) for item in rejects} == {
        ("loose.py::guess", "v1_no_test_fails", "1 tests run the changed code, all of them still pass"),
        ("loose.py::tuned", "v5_trivial_solution", "the trivial solution 'true' passes every hidden test"),
    }
    assert all((item["source"], item["generator"]) == ("loose 0.1", "fd_function") for item in rejects)
    assert (updates[-1].rejected, updates[-1].last_rejection in report.rejected) == (2, True)
    assert str(updates[-1]).startswith("loose 0.1: 2 of 2, 0 accepted, 2 rejected (last: v")


def test_every_rejection_in_the_code_has_a_detail(root):
    calls = [
        (path, node)
        for path in sorted((root / "generators").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("Rejected", "Rejection")
        and all(keyword.arg for keyword in node.keywords)  # not a stored one
    ]
    assert len(calls) > 20
    assert [f"{path}:{node.lineno}" for path, node in calls if len(node.args) + len(node.keywords) < 2] == []


def test_a_source_is_refused_when_its_licence_is_not_known_to_be_permissive(tmp_path):
    for licence, expected in (
        ("", "free 0.1 names no licence that Etude recognizes; take another source, or pass --any-licence"),
        ('license = {text = "GPL-3.0-only"}', "free 0.1 is under GPL-3.0-only, which is not known to be permissive"),
    ):
        source = tmp_path / f"free{len(licence)}"
        source.mkdir()
        for name, text in LOOSE.items():
            renamed = text.replace('license = {text = "MIT"}', licence).replace("loose", "free")
            (source / name.replace("loose", "free")).write_text(textwrap.dedent(renamed))
        with pytest.raises(GeneratorError, match=expected):
            make_set(source, tmp_path / "out")
        assert not (tmp_path / "out").exists()
    make_set(source, tmp_path / "out", any_licence=True)
    assert (tmp_path / "out" / "report.json").exists()


def test_a_bad_request_is_refused_with_its_remedy(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'fd_function'"):
        make_set(SAMPLE, tmp_path, generators=["fd_functon"])
    with pytest.raises(GeneratorError, match="Did you mean 'min_lines'"):
        make_set(SAMPLE, tmp_path, knobs={"min_line": 1})
    with pytest.raises(GeneratorError, match="nothing to propose"):
        make_set(SAMPLE, tmp_path, knobs={"min_lines": 100})
    with pytest.raises(SnapshotError):
        make_set(tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(GeneratorError, match="cannot write to"):
        make_set(SAMPLE, tmp_path / "file")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"generators": ["fd_functon"]}, "Did you mean 'fd_function'"),
        ({"knobs": {"min_line": 1}}, "Did you mean 'min_lines'"),
        ({"knobs": {"min_lines": "x"}}, "knob min_lines must be an int, got 'x'"),
        ({"knobs": {"mutants": -1}}, "knob mutants must be at least 0, got -1"),
        ({"out": Path("/proc/nowhere")}, "cannot write to /proc/nowhere"),
    ],
)
def test_a_request_is_refused_before_any_snapshot_is_built(tmp_path, arguments, expected):
    request = {"out": tmp_path / "out", **arguments}
    with pytest.raises((GeneratorError, UnknownName), match=expected):
        make_set(tmp_path / "a-source-that-does-not-exist", **request)


def test_a_knob_is_accepted_when_one_of_the_generators_has_it(tmp_path):
    knobs = {"dunder": True, **LIGHT}
    report = make_set(SAMPLE, tmp_path, generators=["fd_function", "fd_method"], count=1, knobs=knobs)
    assert report.candidates >= 1
    with pytest.raises(GeneratorError, match="unknown knob 'dunder'"):
        make_set(SAMPLE, tmp_path / "other", knobs=knobs)


@pytest.mark.slow
def test_sigterm_ends_a_run_that_can_be_resumed(sample_set, tmp_path):
    command = [sys.executable, "-m", "etude.cli", "generate", str(SAMPLE), "-g", "fd_function", "--count", "3"]
    command += ["--seed", "7", "--knob", "min_lines=3", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        lines = []
        for line in run.stderr:
            lines.append(line)
            if "1 of 3" in line:
                run.send_signal(signal.SIGTERM)
                break
        lines += run.stderr.readlines()
    assert run.returncode == 143
    assert "resource_tracker" not in "".join(lines)
    assert (tmp_path / JOURNAL).exists() and not (tmp_path / "tasks.jsonl").exists()
    make_set(SAMPLE, tmp_path)
    assert (tmp_path / "tasks.jsonl").read_bytes() == (sample_set[0] / "tasks.jsonl").read_bytes()


def test_a_generator_that_does_not_fit_a_source_is_left_out_and_named(tmp_path):
    report = make_set(SAMPLE, tmp_path, generators=["fd_function", "history_revert"], count=1, knobs={**KNOBS, **LIGHT})
    assert list(report.per_generator) == ["fd_function"] and report.per_generator["fd_function"].tasks == 1
    assert list(report.not_applicable) == ["history_revert on scales 1.2.0"]
    assert "no history to read" in report.not_applicable["history_revert on scales 1.2.0"]


def test_a_request_in_which_no_generator_fits_is_an_error_with_the_reason(tmp_path):
    with pytest.raises(GeneratorError, match="no history to read"):
        make_set(SAMPLE, tmp_path, generators=["history_revert", "history_pr"])


@pytest.fixture
def failing_bugs(monkeypatch):
    """Make ``bug_operator`` fail after its first candidate."""
    candidates = OperatorBug.candidates

    def failing(self, *arguments):
        yield next(iter(candidates(self, *arguments)))
        raise IndentationError("unindent does not match\nany outer level")

    monkeypatch.setattr(OperatorBug, "candidates", failing)


def test_a_defect_of_one_generator_is_reported_and_loses_nothing_else(failing_bugs, tmp_path, capsys):
    names = "bug_operator,fd_function"
    knobs = [f"--knob={name}={value}" for name, value in LIGHT.items()]
    assert main(["generate", str(SAMPLE), "-g", names, "--count", "2", "--seed", "7", *knobs, "-o", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    counts = {name: part["candidates"] for name, part in report["per_generator"].items()}
    assert counts == {"bug_operator": 1, "fd_function": 2} and report["not_applicable"] == {}
    error = report["failed"]["bug_operator on scales 1.2.0"]
    assert error.startswith("IndentationError at generators/curriculum/selection.py:")
    assert error.endswith(": unindent does not match any outer level")
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert line == (
        f"warning: bug_operator on scales 1.2.0 failed, which is a defect of the generator ({error}); report it, or "
        "leave the generator out"
    )


def test_a_defect_that_leaves_no_candidate_is_an_error_that_names_it(monkeypatch, tmp_path):
    def failing(self, *arguments):
        raise KeyError("tab")
        yield

    monkeypatch.setattr(OperatorBug, "candidates", failing)
    with pytest.raises(GeneratorError, match="no candidate: bug_operator on scales 1.2.0 failed, .*KeyError"):
        make_set(SAMPLE, tmp_path, generators=["bug_operator"], knobs=LIGHT)


@pytest.mark.parametrize("error", [EndpointUnavailable("the model is away"), GeneratorError("stop")])
def test_an_error_that_a_generator_raises_on_purpose_ends_the_run(monkeypatch, tmp_path, error):
    def failing(self, *arguments):
        raise error
        yield

    monkeypatch.setattr(OperatorBug, "candidates", failing)
    with pytest.raises(type(error), match=str(error)):
        make_set(SAMPLE, tmp_path, generators=["bug_operator", "fd_function"], knobs=LIGHT)
