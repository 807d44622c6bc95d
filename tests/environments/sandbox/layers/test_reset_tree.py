"""A reset undoes whatever was done to a tree, and looks only at what was touched."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from etude.environments.sandbox.layers.lower import DiskFolder, LowerFolder, RecordedFolder, disk_tree
from etude.environments.sandbox.layers.records import Folder
from etude.environments.sandbox.layers.reset_tree import reset_tree
from etude.environments.sandbox.layers.save_layer import LayerFolder, save_layer
from etude.environments.sandbox.layers.touched import TreeWatch

WRITE_THROUGH_MAPPING = (
    "import mmap, sys\nf = open(sys.argv[1], 'r+b')\nm = mmap.mmap(f.fileno(), 0)\nm[0]\nm[0:1] = b'E'\n"
)
# The open file stays in flight in a cycle of sockets, so that it is closed long after the process.
KEEP_OPEN = WRITE_THROUGH_MAPPING + (
    "import socket\na, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [f.fileno(), a.fileno(), b.fileno()])\n"
)


@pytest.fixture(params=["disk", "memory"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Make an empty folder for the copy, on both kinds of file system that backends use."""
    if request.param == "disk":
        (tmp_path / "tree").mkdir()
        yield tmp_path / "tree"
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def lower_path(tmp_path: Path) -> Path:
    lower = tmp_path / "lower"
    for name in ("a/x", "a/y", "b/x", "b/deep/er/z", "top", "tool.sh"):
        (lower / name).parent.mkdir(parents=True, exist_ok=True)
        (lower / name).write_text(f"content of {name}\n")
    (lower / "tool.sh").chmod(0o755)
    (lower / "a").chmod(0o750)
    (lower / "link").symlink_to("a/x")
    os.mkfifo(lower / "pipe")
    for path in sorted(lower.rglob("*"), reverse=True):
        os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
    return lower


@contextmanager
def opened_lower(path: Path, recorded: bool) -> Iterator[LowerFolder]:
    with disk_tree(path) as lower:
        if not recorded:
            yield lower
            return
        folder = os.open(path, os.O_RDONLY)
        tree = save_layer({"lower": LayerFolder(folder)}).tree.children["lower"]
        os.close(folder)
        assert isinstance(tree, Folder)
        yield RecordedFolder(tree)


def reset(path: Path, lower: LowerFolder, watch: TreeWatch) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        reset_tree(folder, lower, watch, None)
    finally:
        os.close(folder)


def listing(root: Path) -> dict[str, tuple[object, ...]]:
    """Return everything about a tree that a command can see, times of access and inode numbers aside."""
    entries: dict[str, tuple[object, ...]] = {}
    for path in (root, *root.rglob("*")):
        info = path.lstat()
        content: object = None
        if stat.S_ISREG(info.st_mode):
            content = (path.read_bytes(), info.st_nlink)
        elif stat.S_ISLNK(info.st_mode):
            content = os.readlink(path)
        attributes = tuple(os.listxattr(path, follow_symlinks=False))
        entries[str(path.relative_to(root))] = (info.st_mode, info.st_mtime_ns, content, attributes)
    return entries


def run(code: str, path: Path) -> None:
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def swap(one: Path, other: Path) -> None:
    spare = one.with_name("spare")
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


def write_through_a_second_name(tree: Path) -> None:
    os.link(tree / "a/x", tree / "b/alias")
    (tree / "b/alias").write_text("forged\n")
    (tree / "b/alias").unlink()


def write_through_a_descriptors_path(tree: Path) -> None:
    handle = os.open(tree / "top", os.O_PATH)
    os.truncate(f"/proc/self/fd/{handle}", 3)
    os.close(handle)


def replace_a_name_by_a_link_to_another(tree: Path) -> None:
    (tree / "a/y").unlink()
    os.link(tree / "a/x", tree / "a/y")


def replace_a_folder_by_a_file(tree: Path) -> None:
    subprocess.run(["rm", "-r", str(tree / "b")], check=True)
    (tree / "b").write_text("a file\n")


def forge_the_times(tree: Path) -> None:
    info = (tree / "top").stat()
    (tree / "top").write_text("CONTENT of top\n"[: info.st_size])
    os.utime(tree / "top", ns=(info.st_atime_ns, info.st_mtime_ns))


def bury_a_file_deep(tree: Path) -> None:
    code = (
        "import os, sys\nos.chdir(sys.argv[1])\n"
        "for _ in range(300): os.mkdir('d' * 50); os.chdir('d' * 50)\nopen('f', 'w')"
    )
    run(code, tree)


def set_attributes(tree: Path) -> None:
    for name in ("top", "a", "."):
        try:
            os.setxattr(tree / name, "user.note", b"remember")
        except OSError as error:  # an older kernel's file systems in memory have none
            assert error.errno == errno.ENOTSUP


DEEDS = {
    "nothing": lambda tree: None,
    "edit": lambda tree: (tree / "a/x").write_text("edited\n"),
    "append": lambda tree: (tree / "b/deep/er/z").open("a").write("more\n"),
    "read": lambda tree: (tree / "top").read_text(),
    "new file": lambda tree: (tree / "b/deep/new").write_text("new\n"),
    "delete": lambda tree: (tree / "a/x").unlink(),
    "delete a folder": lambda tree: subprocess.run(["rm", "-r", str(tree / "b/deep")], check=True),
    "truncate": lambda tree: os.truncate(tree / "top", 0),
    "mode": lambda tree: (tree / "tool.sh").chmod(0o600),
    "mode of a folder": lambda tree: (tree / "b/deep").chmod(0o000),
    "times": lambda tree: os.utime(tree / "b/deep", (1, 1)),
    "mapping": lambda tree: run(WRITE_THROUGH_MAPPING, tree / "a/y"),
    "mapping kept open": lambda tree: run(KEEP_OPEN, tree / "a/y"),
    "second name": write_through_a_second_name,
    "path of a descriptor": write_through_a_descriptors_path,
    "swap files": lambda tree: swap(tree / "a/x", tree / "b/x"),
    "swap folders": lambda tree: swap(tree / "a", tree / "b"),
    "swap a folder with one above": lambda tree: swap(tree / "a", tree / "b/deep"),
    "move away and back": lambda tree: (tree / "a").rename(tree / "c").rename(tree / "a"),
    "link instead of a file": lambda tree: ((tree / "top").unlink(), (tree / "top").symlink_to("a/x")),
    "move a link": lambda tree: (tree / "link").rename(tree / "moved"),
    "other target": lambda tree: ((tree / "link").unlink(), (tree / "link").symlink_to("top")),
    "hard link instead of a file": replace_a_name_by_a_link_to_another,
    "file instead of a folder": replace_a_folder_by_a_file,
    "forged times": forge_the_times,
    "deep folders": bury_a_file_deep,
    "attributes": set_attributes,
    "pipe": lambda tree: (tree / "pipe").chmod(0o777),
}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
def test_reset_restores_the_lower_tree_when_anything_was_done(
    tree: Path, lower_path: Path, deed: str, watched: bool, recorded: bool
) -> None:
    watch = TreeWatch(enabled=watched)
    with opened_lower(lower_path, recorded) as lower:
        reset(tree, lower, watch)
        assert listing(tree) == listing(lower_path)
        for _ in range(2):
            reset(tree, lower, watch)  # the listing has touched every file
            assert watch.root is None or not watch.root.below
            DEEDS[deed](tree)
            reset(tree, lower, watch)
            assert listing(tree) == listing(lower_path)
    assert (watch.root is not None) == watched


class CountingFolder(DiskFolder):
    """A lower folder that notes which names are copied and which folders are listed."""

    copied: list[str] = []
    listed = 0

    def names(self) -> list[str]:
        CountingFolder.listed += 1
        return list(super().names())

    @contextmanager
    def folder(self, name: str) -> Iterator[CountingFolder]:
        with super().folder(name) as inner:
            yield CountingFolder(inner._folder)

    def copy(self, name: str, file: int) -> None:
        CountingFolder.copied.append(name)
        super().copy(name, file)


def test_reset_copies_only_what_was_touched(tree: Path, lower_path: Path) -> None:
    for number in range(500):
        (lower_path / "b" / f"file{number}").write_text("many\n")
    watch = TreeWatch()
    folder = os.open(lower_path, os.O_RDONLY)
    lower = CountingFolder(folder)
    CountingFolder.copied.clear()
    reset(tree, lower, watch)
    assert len(CountingFolder.copied) == 506
    CountingFolder.copied.clear()
    CountingFolder.listed = 0
    (tree / "a/x").write_text("edited\n")
    (tree / "top").read_text()
    (tree / "b/deep/new").write_text("new\n")
    reset(tree, lower, watch)
    assert sorted(CountingFolder.copied) == ["top", "x"]
    assert CountingFolder.listed == 1, "only the folder with a new name"
    os.close(folder)
    assert listing(tree) == listing(lower_path)


def test_reset_writes_everything_when_the_kernel_dropped_reports(tmp_path: Path) -> None:
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if queue > 20_000:
        pytest.skip("this kernel's queue of reports is too long to fill")
    lower_path, tree, watch = tmp_path / "lower", tmp_path / "tree", TreeWatch()
    for folder in (lower_path, tree):
        folder.mkdir()
    for number in range(queue // 2 + 100):
        (lower_path / str(number)).touch()
    with disk_tree(lower_path) as lower:
        reset(tree, lower, watch)
        for path in tree.iterdir():
            path.read_bytes()
        (tree / "0").write_text("forged\n")
        assert watch.collect() is None
        reset(tree, lower, watch)
    assert watch.root is not None
    assert {path.name for path in tree.iterdir()} == {path.name for path in lower_path.iterdir()}
    assert (tree / "0").read_bytes() == b""


def test_reset_makes_room_first_when_the_disk_is_full(tmp_path: Path, lower_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    tree, watch = tmp_path / "tree", TreeWatch()
    tree.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tree)], check=True)
    try:
        (lower_path / "a/large").write_bytes(bytes(200_000))
        with disk_tree(lower_path) as lower:
            reset(tree, lower, watch)
            (tree / "a/large").write_bytes(b"")
            with pytest.raises(OSError, match="No space"):
                (tree / "zz").write_bytes(bytes(250_000))
            reset(tree, lower, watch)
        assert listing(tree)["a/large"] == listing(lower_path)["a/large"]
        assert not (tree / "zz").exists()
    finally:
        subprocess.run(["umount", str(tree)], check=True)


def test_reset_watches_nothing_when_the_user_has_no_more_instances(tree: Path, lower_path: Path) -> None:
    watches = [TreeWatch() for _ in range(200)]
    try:
        for watch in watches:
            watch.restart()
        with disk_tree(lower_path) as lower:
            reset(tree, lower, watches[-1])
        assert watches[-1].root is None
        assert listing(tree) == listing(lower_path)
    finally:
        for watch in watches:
            watch.close()


def test_reset_removes_sockets(tree: Path, lower_path: Path) -> None:
    watch = TreeWatch()
    with disk_tree(lower_path) as lower:
        reset(tree, lower, watch)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tree / "sock"))
        reset(tree, lower, watch)
    assert listing(tree) == listing(lower_path)
