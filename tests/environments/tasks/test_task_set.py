"""Task sets: an error of reading names its line, and writing is atomic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etude.environments.tasks.task_set import TaskSet, write_tasks
from etude.errors import TaskSetError, UnknownName
from etude.models import GeneratorRef, Task


def task(name: str, **fields: Any) -> Task:
    generator = GeneratorRef(name="hand", version="1", seed=0)
    return Task(task_id=name, generator=generator, problem_statement="Do it.", patch="secret", **fields)


def row(name: str, **more: Any) -> str:
    return json.dumps({**task(name).model_dump(mode="json"), **more})


@pytest.fixture
def tasks() -> TaskSet:
    return TaskSet([task("one"), task("two", split="test"), task("three")])


def test_what_is_written_is_what_is_read(tmp_path: Path, tasks: TaskSet) -> None:
    write_tasks(tmp_path, tasks)
    assert list(TaskSet.load(tmp_path)) == list(tasks)
    assert [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_the_same_tasks_are_the_same_bytes(tmp_path: Path, tasks: TaskSet) -> None:
    first = write_tasks(tmp_path / "a", tasks).read_bytes()
    assert write_tasks(tmp_path / "b", tasks).read_bytes() == first


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, tasks: TaskSet) -> None:
    old = write_tasks(tmp_path, tasks).read_bytes()

    def broken() -> Any:
        yield task("four")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_tasks(tmp_path, broken())
    assert (tmp_path / "tasks.jsonl").read_bytes() == old
    assert len(list(tmp_path.iterdir())) == 1


def test_tasks_are_found_by_split_index_and_id(tasks: TaskSet) -> None:
    assert tasks.list_splits() == ["train", "test"]
    assert len(tasks) == 3
    assert tasks.get_task("train", 1).task_id == "three"
    assert tasks.by_id("two").split == "test"


def test_listing_shows_public_parts_only(tasks: TaskSet) -> None:
    assert "secret" not in "".join(item.model_dump_json() for item in tasks.list_tasks("train"))


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_out_of_range_is_an_index_error(tasks: TaskSet, index: int) -> None:
    with pytest.raises(IndexError, match="has 2 tasks"):
        tasks.get_task("train", index)


def test_unknown_names_offer_the_nearest_name(tasks: TaskSet) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'three'"):
        tasks.by_id("thre")
    with pytest.raises(UnknownName, match="Did you mean 'train'"):
        tasks.list_tasks("trian")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "tasks.jsonl:2: not JSON"),
        ("{}", "tasks.jsonl:2: task_id: Field required"),
        ("\udcff", "tasks.jsonl:2: not JSON"),
        (row("two", schema_version=99), "tasks.jsonl:2: row: schema_version 99 is newer"),
        (row("two", colour="red"), "tasks.jsonl:2: unknown field colour: remove it, or upgrade etude"),
        ("[" * 100_000, "tasks.jsonl:2: not JSON: nested too deeply"),
        (None, "tasks.jsonl:2: task_id 'one' is on line 1 already"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, line: str | None, message: str) -> None:
    text = f"{row('one')}\n{row('one') if line is None else line}\n"
    (tmp_path / "tasks.jsonl").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(TaskSetError, match=message):
        TaskSet.load(tmp_path)


def test_a_folder_without_tasks_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(TaskSetError, match="etude generate"):
        TaskSet.load(tmp_path)
    (tmp_path / "tasks.jsonl").write_text("\n")
    with pytest.raises(TaskSetError, match="holds no task"):
        TaskSet.load(tmp_path)
