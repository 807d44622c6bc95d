"""The episodes of a run, read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from etude.environments.runs.reader import read_run
from etude.errors import RunError
from etude.models import Episode


def row(name: str) -> bytes:
    written = Episode(episode_id=name, task_id="t", prompt="Do it.").model_dump(mode="json")
    return json.dumps({**written, "agent": "oracle", "sample": 0, "settings": {}}).encode()


def names(run: Path) -> list[str]:
    return [one.episode.episode_id for one in read_run(run)]


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(row("a") + b"\n" + row("b")[:40])
    assert names(tmp_path) == names(file) == ["a"]
    file.write_bytes(row("a") + b"\n" + row("b"))
    assert names(tmp_path) == ["a", "b"]


def test_a_line_that_is_not_an_episode_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").write_bytes(row("a")[:40] + b"\n" + row("b") + b"\n")
    with pytest.raises(RunError, match=r"episodes\.jsonl:1 is not an episode"):
        names(tmp_path)


def test_a_missing_file_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="play some with `etude run --out"):
        names(tmp_path)


def test_reading_of_a_long_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etude.environments.runs.reader.REPORTED", 2)
    (tmp_path / "episodes.jsonl").write_bytes(b"".join(row(name) + b"\n" for name in "abcde"))
    reports: list[tuple[str, int, int]] = []
    assert len(list(read_run(tmp_path, lambda *report: reports.append(report)))) == 5
    assert reports == [(f"reading {tmp_path}", 2, 5), (f"reading {tmp_path}", 4, 5)]
