"""The cache with concurrent builders and killed builders."""

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
        print("cached")
    else:
        with temporary_folder(home) as folder:
            (folder / "made").mkdir()
            for number in range(200):
                (folder / "made" / str(number)).write_text("x")
            publish_folder(folder / "made", home / "out")
        print("built")
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


def test_only_one_builder_builds_when_several_start(tmp_path: Path) -> None:
    running = [start(_BUILD, tmp_path) for _ in range(5)]
    answers = sorted(process.communicate()[0].strip() for process in running)
    assert answers == ["built"] + ["cached"] * 4
    assert len(list((tmp_path / "out").iterdir())) == 200
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_killed_builder_blocks_no_other_and_leaves_nothing(tmp_path: Path) -> None:
    killed = start(_HANG, tmp_path)
    assert killed.stdout
    leftover = Path(killed.stdout.readline().strip())
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert leftover.is_dir()
    with file_lock(tmp_path, "thing"), temporary_folder(tmp_path) as folder:
        assert not leftover.exists()
        assert list((tmp_path / "tmp").glob("build-*.lock")) == [folder.with_suffix(".lock")]


def test_the_folder_of_a_running_builder_is_not_removed(tmp_path: Path) -> None:
    with temporary_folder(tmp_path) as folder:
        assert start(_BUILD, tmp_path).communicate()[0].strip() == "built"
        assert folder.is_dir()


def test_file_lock_calls_waiting_when_the_lock_is_held(tmp_path: Path) -> None:
    other = start(_HANG, tmp_path)
    assert other.stdout
    other.stdout.readline()
    calls: list[str] = []

    def waiting() -> None:
        calls.append("waiting")
        other.communicate("")

    with file_lock(tmp_path, "thing", waiting):
        assert calls == ["waiting"]


def test_write_whole_replaces_a_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "deep" / "f", b"one")
    write_whole(tmp_path / "deep" / "f", b"two")
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "deep").iterdir()] == [("f", b"two")]


def test_publish_folder_replaces_a_damaged_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "broken").write_text("x")
    (tmp_path / "new").mkdir()
    publish_folder(tmp_path / "new", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_cache_folder_reads_the_argument_then_the_variable_then_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_CACHE", str(tmp_path / "named"))
    assert cache_folder() == (tmp_path / "named").resolve()
    assert cache_folder(tmp_path / "argument") == (tmp_path / "argument").resolve()
    monkeypatch.delenv("ETUDE_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cache_folder() == (tmp_path / ".cache" / "etude").resolve()
    assert os.access(cache_folder(), os.W_OK)


def test_cache_names_the_variable_when_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SnapshotError, match=r"cannot be written \(Not a directory\); set ETUDE_CACHE"):
        cache_folder(tmp_path / "file" / "cache")
    (tmp_path / "tmp").write_text("")
    (tmp_path / "locks").write_text("")
    with pytest.raises(SnapshotError, match="set ETUDE_CACHE"), file_lock(tmp_path, "thing"):
        pass
    with pytest.raises(SnapshotError, match="set ETUDE_CACHE"), temporary_folder(tmp_path):
        pass
