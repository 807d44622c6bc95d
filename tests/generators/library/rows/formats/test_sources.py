"""Sources on the disk: single files, folders with splits, the layout of the Hub."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from etude.errors import RowError
from etude.generators.library.rows.formats import read_instances


@pytest.fixture
def rows(samples: Path) -> list[dict[str, object]]:
    """The two Python rows of SWE-bench."""
    return [json.loads(line) for line in (samples / "swe_bench.jsonl").read_text().splitlines()[:2]]


@pytest.fixture
def snapshot(tmp_path: Path, rows: list[dict[str, object]]) -> Path:
    """A data set as the Hub lays it out, with the splits ``dev`` and ``test`` of one row each."""
    folder = tmp_path / "SWE-bench_Small"
    (folder / "data").mkdir(parents=True)
    (folder / "README.md").write_text("# rows\n")
    for split, row in zip(("dev", "test"), rows, strict=True):
        table = pyarrow.Table.from_pylist([row])
        pyarrow.parquet.write_table(table, folder / "data" / f"{split}-00000-of-00001.parquet")
    return folder


def test_a_folder_gives_the_split_test_unless_another_is_named(snapshot: Path) -> None:
    read = read_instances(str(snapshot))
    assert [item.instance_id for item in read.instances] == ["example__shapes-102"]
    assert read.instances[0].dataset == "SWE-bench_Small"
    assert [i.instance_id for i in read_instances(str(snapshot), split="dev").instances] == ["example__shapes-101"]


def test_an_unknown_split_names_those_that_exist(snapshot: Path) -> None:
    with pytest.raises(RowError, match=r"has no split 'train'; its splits are dev, test: name one with --split"):
        read_instances(str(snapshot), split="train")
    (snapshot / "data" / "test-00000-of-00001.parquet").rename(snapshot / "data" / "val-00000-of-00001.parquet")
    with pytest.raises(RowError, match=r"has no split 'test'; its splits are dev, val: name one with --split"):
        read_instances(str(snapshot))
    with pytest.raises(RowError, match=r"has no split 'test' but 'dev'; leave --split out"):
        read_instances(str(snapshot / "data" / "dev-00000-of-00001.parquet"), split="test")


def test_shards_of_a_split_are_read_in_order(snapshot: Path) -> None:
    data = snapshot / "data"
    (data / "dev-00000-of-00001.parquet").rename(data / "train-00000-of-00002.parquet")
    (data / "test-00000-of-00001.parquet").rename(data / "train-00001-of-00002.parquet")
    read = read_instances(str(snapshot))
    assert [item.instance_id for item in read.instances] == ["example__shapes-101", "example__shapes-102"]


def test_a_damaged_parquet_file_is_named(snapshot: Path) -> None:
    path = snapshot / "data" / "test-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RowError, match=r"test-00000-of-00001.parquet is not a Parquet file \(.*\); download it again"):
        read_instances(str(snapshot))


def test_columns_with_the_types_of_a_table_are_read(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    typed = {"FAIL_TO_PASS": ["a.py::t"], "PASS_TO_PASS": [], "created_at": datetime(1970, 1, 1)}
    table = pyarrow.Table.from_pylist([{**row, **typed} for row in rows])
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    instance = read_instances(str(tmp_path / "rows.parquet")).instances[0]
    assert (instance.fail_to_pass, instance.created_at) == (("a.py::t",), "1970-01-01T00:00:00Z")


def test_files_without_a_split_are_read_together(samples: Path, tmp_path: Path) -> None:
    lines = (samples / "swe_bench.jsonl").read_text().splitlines()
    (tmp_path / "first.jsonl").write_text(lines[0])
    (tmp_path / "second.jsonl").write_text(lines[1])
    assert len(read_instances(str(tmp_path)).instances) == 2
    with pytest.raises(RowError, match=r"its splits are none by name"):
        read_instances(str(tmp_path), split="dev")


def test_the_limit_counts_instances_and_reads_no_further(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text((samples / "swe_bench.jsonl").read_text().splitlines()[0] + "\nno row\n")
    assert len(read_instances(str(path), limit=1).instances) == 1


def test_folders_without_a_task_beside_harbor_tasks_are_not_read(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "harbor", tmp_path / "tasks")
    (tmp_path / "tasks" / "notes").mkdir()
    assert len(read_instances(str(tmp_path / "tasks")).instances) == 3
