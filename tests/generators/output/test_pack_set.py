"""A set that carries its snapshots: rows, archives and card agree, and nothing else changes."""

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
UNREACHABLE = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_NO_INDEX": "1"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plain") / "set"
    generate([str(SAMPLE)], generators=["fd_function"], count=2, seed=7, jobs=2, knobs={"min_lines": 3}, out=out)
    return out


@pytest.fixture
def made(plain: Path, tmp_path: Path) -> Path:
    return shutil.copytree(plain, tmp_path / "set")


def test_packing_changes_only_the_field_blobs(made: Path, plain: Path) -> None:
    report = pack_set(made)
    (row,) = report.snapshots
    assert [path.name for path in (made / "blobs").iterdir()] == [f"{row['sha256']}.tar.xz"]
    assert [task.blobs for task in TaskSet.load(made)] == [{"snapshot": row["sha256"]}] * 2
    told = (made / "tasks.jsonl").read_text()
    assert (
        told.replace(f'"blobs": {{"snapshot": "{row["sha256"]}"}}', '"blobs": {}')
        == (plain / "tasks.jsonl").read_text()
    )
    assert "Snapshots: 1 packed in `blobs/`" in (made / "README.md").read_text()
    assert "Snapshots: not packed" in (plain / "README.md").read_text()
    before = (made / "tasks.jsonl").read_bytes(), (made / "README.md").read_bytes()
    assert pack_set(made) == report
    assert ((made / "tasks.jsonl").read_bytes(), (made / "README.md").read_bytes()) == before


def test_generate_packs_at_once_and_goes_on_packing(tmp_path: Path) -> None:
    more = {"generators": ["fd_function"], "count": 1, "seed": 7, "knobs": {"min_lines": 3}, "out": tmp_path / "set"}
    generate([str(SAMPLE)], pack=True, **more)
    packed = (tmp_path / "set" / "tasks.jsonl").read_bytes()
    assert all(task.blobs for task in TaskSet.load(tmp_path / "set"))
    generate([str(SAMPLE)], **more)
    assert (tmp_path / "set" / "tasks.jsonl").read_bytes() == packed


def test_a_packed_set_is_played_elsewhere_without_an_index(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack_set(made)
    moved = shutil.move(made, tmp_path / "elsewhere")
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


def test_a_corrupt_archive_is_one_line_and_no_score(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack_set(made)
    (archive,) = (made / "blobs").iterdir()
    archive.write_bytes(archive.read_bytes()[:-9])
    monkeypatch.setenv("ETUDE_CACHE", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "etude.cli", "run", "--tasks", str(made), "--out", str(tmp_path / "run"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["valid"], summary["reward"]) == (1, 0, None)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert len(errors) == 1 and archive.name in errors[0] and "get it again" in errors[0]
    assert not list((tmp_path / "cache" / "snapshots").glob("*"))


def test_unpacking_a_set(made: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskSetError, match="carries no archive of snapshot .*etude snapshot pack"):
        unpack_set(made, cache=tmp_path / "cache")
    pack_set(made)
    (row,) = unpack_set(made, cache=tmp_path / "cache")
    assert (
        row["source"] == "scales 1.2.0" and Path(row["path"]).parent == cache_folder(tmp_path / "cache") / "snapshots"
    )


def test_rows_that_cannot_be_packed(made: Path, tmp_path: Path) -> None:
    rows = (made / "tasks.jsonl").read_text()
    (made / "tasks.jsonl").write_text(rows.replace('"blobs": {}', '"blobs": {"snapshot": "../../etc/passwd"}'))
    with pytest.raises(ValueError, match="is no sha256"):
        unpack_set(made, cache=tmp_path / "cache")
    first = json.loads(rows.splitlines()[0])
    (made / "tasks.jsonl").write_text(json.dumps({**first, "snapshot": None}) + "\n")
    with pytest.raises(TaskSetError, match="there is nothing to pack"):
        pack_set(made)
    changed = {**first["snapshot"], "digest": "0" * 64}
    (made / "tasks.jsonl").write_text(json.dumps({**first, "snapshot": changed}) + "\n")
    before = (made / "tasks.jsonl").read_bytes()
    with pytest.raises(SnapshotError):
        pack_set(made)
    assert (made / "tasks.jsonl").read_bytes() == before and not list((made / "blobs").glob("*"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"a": 1, "blobs": {}, "b": "\\u00e9"}', '{"a": 1, "blobs": {"x": "y"}, "b": "\\u00e9"}'),
        ('{"blobs":{"k":[1,2]},"b":{"blobs":3}}', '{"blobs":{"x": "y"},"b":{"blobs":3}}'),
        ('{ "b" : {"blobs": "{}"} , "c": 1.50 }', '{ "b" : {"blobs": "{}"} , "c": 1.50 , "blobs": {"x": "y"}}'),
        ("{}", '{"blobs": {"x": "y"}}'),
    ],
)
def test_one_field_of_a_row_is_set_and_the_rest_stays(line: str, expected: str) -> None:
    assert with_field(line.encode(), "blobs", {"x": "y"}).decode() == expected
