"""A set with its Snapshots: rows, archives and card agree, and nothing else changes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.paths import DATA

from etude.environments.snapshots.store.cache import cache_folder
from etude.environments.tasks.task_set import TaskSet
from etude.errors import SnapshotError, TaskSetError
from etude.generators.generate import generate
from etude.generators.output.pack_set import pack_set, unpack_set, with_field

SAMPLE = DATA / "scales"
LIGHT = {"min_lines": 3, "behaviour": False, "controls": False, "mutants": 0}
"""Knobs that leave the slow parts of validation out."""
UNREACHABLE = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_NO_INDEX": "1"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plain") / "set"
    generate([str(SAMPLE)], generators=["fd_function"], count=2, seed=7, jobs=2, knobs=LIGHT, out=out)
    return out


@pytest.fixture
def task_set(plain: Path, tmp_path: Path) -> Path:
    return shutil.copytree(plain, tmp_path / "set")


def test_packing_changes_only_the_field_blobs(task_set: Path, plain: Path) -> None:
    report = pack_set(task_set)
    (row,) = report.snapshots
    assert [path.name for path in (task_set / "blobs").iterdir()] == [f"{row['sha256']}.tar.xz"]
    assert [task.blobs for task in TaskSet.load(task_set)] == [{"snapshot": row["sha256"]}] * 2
    rows = (task_set / "tasks.jsonl").read_text()
    assert (
        rows.replace(f'"blobs": {{"snapshot": "{row["sha256"]}"}}', '"blobs": {}')
        == (plain / "tasks.jsonl").read_text()
    )
    assert "Snapshots: 1 packed in `blobs/`" in (task_set / "README.md").read_text()
    assert "Snapshots: not packed" in (plain / "README.md").read_text()
    before = (task_set / "tasks.jsonl").read_bytes(), (task_set / "README.md").read_bytes()
    assert pack_set(task_set) == report
    assert ((task_set / "tasks.jsonl").read_bytes(), (task_set / "README.md").read_bytes()) == before


def test_generate_packs_and_continues_to_pack_when_it_runs_again(tmp_path: Path) -> None:
    more = {"generators": ["fd_function"], "count": 1, "seed": 7, "knobs": LIGHT, "out": tmp_path / "set"}
    generate([str(SAMPLE)], pack=True, **more)
    packed = (tmp_path / "set" / "tasks.jsonl").read_bytes()
    assert all(task.blobs for task in TaskSet.load(tmp_path / "set"))
    generate([str(SAMPLE)], **more)
    assert (tmp_path / "set" / "tasks.jsonl").read_bytes() == packed


def test_a_packed_set_is_played_without_a_package_index(
    task_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack_set(task_set)
    moved = shutil.move(task_set, tmp_path / "elsewhere")
    for name, value in {**UNREACHABLE, "ETUDE_CACHE": str(tmp_path / "cache"), "ETUDE_SOURCES": ""}.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "etude.cli"]
    for arguments in (
        ["run", "--tasks", moved, "--agent", "oracle", "--out", str(tmp_path / "run")],
        ["validate", moved],
    ):
        done = subprocess.run([*command, *arguments, "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["ok"]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["reward"] == 1.0


def test_a_run_has_no_score_and_one_error_when_an_archive_is_corrupt(
    task_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack_set(task_set)
    (archive,) = (task_set / "blobs").iterdir()
    archive.write_bytes(archive.read_bytes()[:-9])
    monkeypatch.setenv("ETUDE_CACHE", str(tmp_path / "cache"))
    command = [
        sys.executable,
        "-m",
        "etude.cli",
        "run",
        "--tasks",
        str(task_set),
        "--out",
        str(tmp_path / "run"),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["valid"], summary["reward"]) == (1, 0, None)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert len(errors) == 1 and archive.name in errors[0] and "download it again" in errors[0]
    assert not list((tmp_path / "cache" / "snapshots").glob("*"))


def test_unpacking_needs_archives_and_fills_the_cache(task_set: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskSetError, match="carries no archive of snapshot .*etude snapshot pack"):
        unpack_set(task_set, cache=tmp_path / "cache")
    pack_set(task_set)
    (row,) = unpack_set(task_set, cache=tmp_path / "cache")
    assert (
        row["source"] == "scales 1.2.0" and Path(row["path"]).parent == cache_folder(tmp_path / "cache") / "snapshots"
    )


def test_a_set_is_not_packed_when_its_rows_are_wrong(task_set: Path, tmp_path: Path) -> None:
    rows = (task_set / "tasks.jsonl").read_text()
    (task_set / "tasks.jsonl").write_text(rows.replace('"blobs": {}', '"blobs": {"snapshot": "../../etc/passwd"}'))
    with pytest.raises(ValueError, match="is not a sha256"):
        unpack_set(task_set, cache=tmp_path / "cache")
    first = json.loads(rows.splitlines()[0])
    (task_set / "tasks.jsonl").write_text(json.dumps({**first, "snapshot": None}) + "\n")
    with pytest.raises(TaskSetError, match="so there is nothing to pack"):
        pack_set(task_set)
    changed = {**first["snapshot"], "digest": "0" * 64}
    (task_set / "tasks.jsonl").write_text(json.dumps({**first, "snapshot": changed}) + "\n")
    before = (task_set / "tasks.jsonl").read_bytes()
    with pytest.raises(SnapshotError):
        pack_set(task_set)
    assert (task_set / "tasks.jsonl").read_bytes() == before and not list((task_set / "blobs").glob("*"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"a": 1, "blobs": {}, "b": "\\u00e9"}', '{"a": 1, "blobs": {"x": "y"}, "b": "\\u00e9"}'),
        ('{"blobs":{"k":[1,2]},"b":{"blobs":3}}', '{"blobs":{"x": "y"},"b":{"blobs":3}}'),
        ('{ "b" : {"blobs": "{}"} , "c": 1.50 }', '{ "b" : {"blobs": "{}"} , "c": 1.50 , "blobs": {"x": "y"}}'),
        ("{}", '{"blobs": {"x": "y"}}'),
    ],
)
def test_setting_one_field_of_a_row_changes_nothing_else(line: str, expected: str) -> None:
    assert with_field(line.encode(), "blobs", {"x": "y"}).decode() == expected
