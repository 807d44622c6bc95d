"""The cache under concurrent builders and builders that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from etude.environments.snapshots.store.cache import (
    cache_folder,
    file_lock,
    publish_folder,
    temporary_folder,
    write_whole,
)
from etude.errors import SnapshotError

_BUILD = """
import sys
from pathlib import Path
from etude.environments.snapshots.store.cache import file_lock, publish_folder, temporary_folder
home = Path(sys.argv[1])
with file_lock(home, "thing"):
    if (home / "out").exists():
        print("found")
    else:
        with temporary_folder(home) as folder:
            (folder / "made").mkdir()
            for number in range(200):
                (folder / "made" / str(number)).write_text("x")
            publish_folder(folder / "made", home / "out")
        print("made")
"""
_HANG = """
import sys, time
from pathlib import Path
from etude.environments.snapshots.store.cache import file_lock, temporary_folder
home = Path(sys.argv[1])
with file_lock(home, "thing"), temporary_folder(home) as folder:
    (folder / "half").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def start(code: str, home: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code, str(home)], stdin=pipe, stdout=pipe, text=True)


def test_of_many_builders_one_builds(tmp_path: Path) -> None:
    running = [start(_BUILD, tmp_path) for _ in range(5)]
    said = sorted(process.communicate()[0].strip() for process in running)
    assert said == ["found"] * 4 + ["made"]
    assert len(list((tmp_path / "out").iterdir())) == 200
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_killed_builder_blocks_nobody_and_leaves_nothing(tmp_path: Path) -> None:
    killed = start(_HANG, tmp_path)
    assert killed.stdout
    left = Path(killed.stdout.readline().strip())
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert left.is_dir()
    with file_lock(tmp_path, "thing"), temporary_folder(tmp_path) as folder:
        assert not left.exists()
        assert list((tmp_path / "tmp").glob("build-*.lock")) == [folder.with_suffix(".lock")]


def test_a_living_builders_folder_is_not_reaped(tmp_path: Path) -> None:
    with temporary_folder(tmp_path) as mine:
        assert start(_BUILD, tmp_path).communicate()[0].strip() == "made"
        assert mine.is_dir()


def test_the_waiter_is_told_that_it_waits(tmp_path: Path) -> None:
    other = start(_HANG, tmp_path)
    assert other.stdout
    other.stdout.readline()
    told: list[str] = []

    def waiting() -> None:
        told.append("waiting")
        other.communicate("")

    with file_lock(tmp_path, "thing", waiting):
        assert told == ["waiting"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    write_whole(tmp_path / "deep" / "f", b"one")
    write_whole(tmp_path / "deep" / "f", b"two")
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "deep").iterdir()] == [("f", b"two")]


def test_publishing_replaces_what_was_broken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "broken").write_text("x")
    (tmp_path / "new").mkdir()
    publish_folder(tmp_path / "new", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_CACHE", str(tmp_path / "named"))
    assert cache_folder() == (tmp_path / "named").resolve()
    assert cache_folder(tmp_path / "given") == (tmp_path / "given").resolve()
    monkeypatch.delenv("ETUDE_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cache_folder() == (tmp_path / ".cache" / "etude").resolve()
    assert os.access(cache_folder(), os.W_OK)


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SnapshotError, match="cannot be written: Not a directory; set ETUDE_CACHE"):
        cache_folder(tmp_path / "file" / "cache")
    (tmp_path / "tmp").write_text("")
    (tmp_path / "locks").write_text("")
    with pytest.raises(SnapshotError, match="set ETUDE_CACHE"), file_lock(tmp_path, "thing"):
        pass
    with pytest.raises(SnapshotError, match="set ETUDE_CACHE"), temporary_folder(tmp_path):
        pass
