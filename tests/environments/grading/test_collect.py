"""Collection of changes: which are graded, and why others are refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from etude.environments.grading import changes_of, collect, diff_digest, matches
from etude.environments.grading.collect import MAX_FILE_BYTES, MAX_FILES
from etude.environments.sandbox import Change
from etude.models import GeneratorRef, PytestVerifier, Task

TASK = Task(
    task_id="t",
    generator=GeneratorRef(name="hand", version="1", seed=0),
    problem_statement="",
    source_globs=["src/pkg/**", "src/*.py"],
    protected_paths=["tests/**", "**/test_*.py"],
    verifier=PytestVerifier(python_path=["src"]),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("src/pkg/a.py", "src/pkg/sub/b.py", "src/pkg/sub/test_b.py", "tests/test_a.py", "src/queue.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def file(path: str, content: bytes = b"x = 1\n") -> Change:
    return Change(path=path, kind="file", size=len(content), content=content)


@pytest.mark.parametrize(
    ("path", "glob", "expected"),
    [
        ("src/pkg/a.py", "src/**", True),
        ("src/pkg/a.py", "src/*.py", False),
        ("src/pkg/a.py", "**/*.py", True),
        ("a.py", "**/*.py", True),
        ("src/pkg/a.py", "src/pkg", True),
        ("src/pkgx/a.py", "src/pkg", False),
        ("src/pkg/a.py", "src/pk?/a.py", True),
        ("src/pkg/a.pyc", "**/*.py", False),
        ("src/pkg/a.py\n", "**/*.py", False),
    ],
)
def test_globs(path: str, glob: str, expected: bool) -> None:
    assert matches(path, [glob]) is expected


def test_a_configuration_file_is_graded_only_where_the_task_names_it(tree: Path) -> None:
    named = TASK.model_copy(update={"source_globs": [*TASK.source_globs, "setup.cfg"]})
    changes = [file(path) for path in ("pyproject.toml", "setup.cfg", "src/pkg/setup.cfg")]
    for task, graded in [(TASK, []), (named, ["setup.cfg"])]:
        accepted, refused = collect(changes, task, tree)
        assert [change.path for change in accepted] == graded
        assert all(change.reason.startswith("config:") for change in refused)
    every = TASK.model_copy(update={"source_globs": ["**"]})
    assert collect(changes, every, tree)[0] == []


@pytest.mark.parametrize(
    "path", ["src/pkg/a.py", "src/pkg/new/deep.py", "src/pkg/data.bin", "src/extra.py", "src/queue.py"]
)
def test_source_files_are_graded(tree: Path, path: str) -> None:
    accepted, refused = collect([file(path, b"\x00\xff")], TASK, tree)
    assert [change.path for change in accepted] == [path]
    assert refused == []


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("tests/test_a.py", "test"),
        ("src/pkg/sub/test_b.py", "test"),
        ("tests/test_new.py", "new_test"),
        ("test_root.py", "new_test"),
        ("README.md", "outside"),
        ("src/pkg/conftest.py", "conftest"),
        ("conftest.py", "conftest"),
        ("pytest.ini", "config"),
        ("src/pkg/setup.cfg", "config"),
        ("pyproject.toml", "config"),
        ("tox.ini", "config"),
        ("src/sitecustomize.py", "import_hook"),
        ("src/usercustomize/__init__.py", "import_hook"),
        ("src/pkg/x.pth", "import_hook"),
        ("src/zz.dist-info/entry_points.txt", "entry_point"),
        ("src/pkg/__pycache__/a.cpython-311.pyc", "cache"),
        ("src/pkg/a.pyc", "cache"),
        (".git/config", "git"),
        ("src/random.py", "shadow"),
        ("src/pluggy.py", "shadow"),
        ("src/numpy.py", "shadow"),
        ("src/json.so.py", "shadow"),
    ],
)
def test_everything_else_is_refused_with_its_reason(tree: Path, path: str, word: str) -> None:
    accepted, refused = collect([file(path)], TASK, tree, reserved={"numpy"})
    assert accepted == []
    assert [change.reason.partition(":")[0] for change in refused] == [word]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "src/pkg/../../x.py",
        "src//pkg/a.py",
        "src/pkg/./a.py",
        "",
        "..",
        "src/pkg/a\n.py",
        "src/pkg/a\x1b.py",
        "src/pkg/\u202ea.py",
        "src/pkg/e\u0301.py",
        "src/pkg/" + "x" * 600,
        "src/pkg/" + "a/" * 40 + "b.py",
        "src/pkg/\udcff.py",
    ],
)
def test_unclean_paths_are_refused(tree: Path, path: str) -> None:
    accepted, refused = collect([file(path)], TASK, tree)
    assert accepted == []
    assert refused[0].reason.startswith("path:")
    assert refused[0].model_dump_json()


@pytest.mark.parametrize(("kind", "word"), [("symlink", "link"), ("special", "special")])
def test_only_regular_files_are_graded(tree: Path, kind: str, word: str) -> None:
    accepted, refused = collect([Change(path="src/pkg/a.py", kind=kind)], TASK, tree)
    assert (accepted, refused[0].reason.partition(":")[0]) == ([], word)


def test_sizes_and_counts_are_capped(tree: Path) -> None:
    big = Change(path="src/pkg/big.py", kind="file", size=MAX_FILE_BYTES + 1, content=None)
    many = [file(f"src/pkg/m{number:03}.py") for number in range(MAX_FILES + 5)]
    accepted, refused = collect([big, *many], TASK, tree)
    assert len(accepted) == MAX_FILES
    assert len(refused) == 6
    heavy = [file(f"src/pkg/h{number}.py", b"x" * MAX_FILE_BYTES) for number in range(10)]
    accepted, refused = collect(heavy, TASK, tree)
    assert (len(accepted), len(refused)) == (8, 2)


def test_paths_that_differ_in_case_alone_are_refused(tree: Path) -> None:
    accepted, refused = collect([file("src/pkg/A.py"), file("src/pkg/a.py")], TASK, tree)
    assert [change.path for change in accepted] == ["src/pkg/A.py"]
    assert "but for case" in refused[0].reason


def test_a_deleted_folder_is_judged_file_by_file(tree: Path) -> None:
    accepted, refused = collect([Change(path="src/pkg/sub", kind="deleted")], TASK, tree)
    assert [(change.path, change.kind) for change in accepted] == [("src/pkg/sub/b.py", "deleted")]
    assert [change.path for change in refused] == ["src/pkg/sub/test_b.py"]


def test_generated_folders_and_git_are_recorded_once(tree: Path) -> None:
    noise = [file(f".git/objects/{number:02x}/x") for number in range(50)]
    noise += [file(f"src/pkg/__pycache__/m{number}.pyc") for number in range(50)]
    _, refused = collect(noise, TASK, tree)
    assert sorted(change.path for change in refused) == [".git", "src/pkg/__pycache__"]


def test_stored_changes_grade_as_the_same_bytes(tree: Path) -> None:
    changes = [file("src/pkg/a.py", b"\xff\x00"), Change(path="src/pkg/sub/b.py", kind="deleted")]
    accepted, _ = collect(changes, TASK, tree)
    again, _ = collect(changes_of(accepted), TASK, tree)
    assert diff_digest(again) == diff_digest(accepted)


def test_random_trees_never_raise_and_never_let_a_protected_path_in(tree: Path) -> None:
    rng = random.Random(0)
    parts = [
        "src",
        "pkg",
        "tests",
        "test_a.py",
        "a.py",
        "..",
        ".",
        "",
        "conftest.py",
        ".git",
        "\udcff",
        "é",
        "e\u0301",
        "x\n",
        "queue",
    ]
    for _ in range(1000):
        paths = ["/".join(rng.choices(parts, k=rng.randrange(1, 5))) for _ in range(5)]
        changes = [
            Change(path, rng.choice(["file", "deleted", "symlink", "special"]), 1, content=b"x") for path in paths
        ]
        accepted, _ = collect(changes, TASK, tree)
        for change in accepted:
            assert matches(change.path, TASK.source_globs)
            assert not matches(change.path, TASK.protected_paths)
            assert not {"..", ".", "", ".git"} & set(change.path.split("/"))
            assert not change.path.endswith("/conftest.py")
