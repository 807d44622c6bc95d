"""Control groups: the real ones where this machine lets us, and version 2's files on a folder that looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.environments.sandbox.kernel import cgroups
from etude.environments.sandbox.kernel.cgroups import Group, Groups

LIMITS = {"memory": 1 << 28, "processes": 10, "cpus": 0.5}


@pytest.fixture
def version_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder that looks like a writable version-2 group with all controllers."""
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids")
    monkeypatch.setattr(cgroups, "_find_bases", lambda: (2, dict.fromkeys(("memory", "pids", "cpu"), tmp_path)))
    monkeypatch.setattr(Groups, "_usable", lambda self: True)
    return tmp_path


def test_version_two_limits_are_written(version_two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Path.mkdir

    def mkdir(self: Path, *arguments: object, **options: object) -> None:
        original(self, exist_ok=True)
        for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "cgroup.procs"):
            (self / name).write_text("")
        (self / "memory.events").write_text("low 0\nhigh 0\nmax 5\noom 1\noom_kill 3\n")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    group = Groups().create(LIMITS)
    assert group is not None and group.oom_kills() == 3
    folder = group.folders["memory"]
    assert folder.name.startswith("etude-") and group.folders["pids"] == folder
    written = {name: (folder / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")}
    expected = {"memory.max": str(1 << 28), "memory.swap.max": "0", "pids.max": "12", "cpu.max": "50000 100000"}
    assert written == expected


@pytest.mark.parametrize(("text", "together"), [("1\n", True), ("0\n", False), (None, False)])
def test_a_group_that_the_kernel_kills_together_says_so(tmp_path: Path, text: str | None, together: bool) -> None:
    if text is not None:
        (tmp_path / "memory.oom.group").write_text(text)
    assert Group({"memory": tmp_path}, 2).killed_together() is together
    assert not Group({"memory": tmp_path}, 1).killed_together()


def test_groups_of_dead_keepers_are_removed_and_of_live_ones_kept(version_two: Path) -> None:
    from etude.environments.sandbox.kernel.linux import start_time

    dead, reused = version_two / "etude-999999999-5-1", version_two / "etude-1-5-1"
    live = version_two / f"etude-1-{start_time(1)}-1"
    for folder in (dead, reused, live):
        folder.mkdir()
    Groups()
    assert not dead.exists() and not reused.exists() and live.exists()


def test_a_container_finds_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    assert cgroups._own_folder(str(tmp_path), "/docker/abc", "/docker/abc/inner") == tmp_path / "inner"
    assert cgroups._own_folder(str(tmp_path), "/", "/inner") == tmp_path / "inner"
    assert cgroups._own_folder(str(tmp_path), "/", "/seen/only/from/the/host") == tmp_path


def test_without_a_writable_group_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_find_bases", lambda: (0, {}))
    assert Groups().create(LIMITS) is None


def test_version_two_goes_up_to_a_group_that_may_have_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = tmp_path / "user.slice" / "session.scope"
    session.mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "user.slice", session):
        (folder / "cgroup.procs").touch()
    (tmp_path / "user.slice" / "cgroup.subtree_control").write_text("cpu io memory pids")
    # A file would take the write that the kernel refuses to a group with processes.
    (session / "cgroup.subtree_control").mkdir()
    texts = {
        "/proc/self/cgroup": "0::/user.slice/session.scope\n",
        "/proc/self/mountinfo": f"30 23 0:26 / {tmp_path} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
    }
    real = cgroups._read
    monkeypatch.setattr(cgroups, "_read", lambda path: texts.get(str(path)) or real(path))
    assert cgroups._find_bases() == (2, dict.fromkeys(("memory", "pids", "cpu"), tmp_path / "user.slice"))
