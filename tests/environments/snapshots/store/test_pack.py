"""Archives of Snapshots: the same bytes from any build, complete, and checked before use."""

from __future__ import annotations

import io
import json
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.sandboxes import in_sandbox

from etude.environments.snapshots import Snapshot, build_snapshot, open_snapshot, run_tests
from etude.environments.snapshots.store import trees
from etude.environments.snapshots.store import unpack as unpacking
from etude.environments.snapshots.store.pack import Packed, find_snapshot, pack
from etude.environments.snapshots.store.unpack import unpack
from etude.errors import BrokenArchive, SnapshotError, UnsupportedPython

Members = dict[str, tuple[tarfile.TarInfo, bytes]]


@pytest.fixture(scope="module")
def packed(sample: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return pack(sample, tmp_path_factory.mktemp("packed") / "sample.tar.xz")


def read(archive: Path) -> Members:
    with tarfile.open(archive) as tar:
        return {
            item.name: (item, (tar.extractfile(item) or io.BytesIO()).read() if item.isreg() else b"") for item in tar
        }


def write(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w:xz", preset=0) as tar:
        for item, data in members.values():
            item.size = len(data)
            tar.addfile(item, io.BytesIO(data))
    return path


def cached_files(cache: Path) -> list[str]:
    """Return the files of a cache, except for locks."""
    return sorted(str(p.relative_to(cache)) for p in cache.rglob("*") if p.is_file() and "locks" not in p.parts)


def test_pack_gives_the_same_bytes_when_the_snapshot_is_built_in_another_cache(
    packed: Packed, sample_source: Path, tmp_path: Path
) -> None:
    again = build_snapshot(str(sample_source), cache=tmp_path / "another" / "cache")
    assert pack(again, tmp_path / "again.tar.xz").sha256 == packed.sha256


def test_archive_contains_no_trace_of_its_builder(packed: Packed, sample: Snapshot, cache: Path) -> None:
    members = read(packed.path)
    for item, data in members.values():
        assert (item.uid, item.gid, item.uname, item.gname, item.mtime) == (0, 0, "", "", 0)
        assert item.mode in ((0o777,) if item.issym() else (0o644, 0o755))
        assert os.fsencode(cache) not in data
        # The system's own prefix is in many a compiled file anyway, and the same everywhere.
        assert sample.interpreter.in_base or str(sample.interpreter.prefix).encode() not in data
    names = list(members)
    assert not [name for name in names if name.endswith(".pyc") or "env-unmapped" in name]
    assert len(set(names)) == len(names)
    base = json.loads(members["base.json"][1])
    assert base["python"] == sample.recipe.python and base["implementation"] == "cpython"
    assert {"tree/src/sample/shapes.py", "env/bin/sample", "recipe.json", "baseline.json"} <= set(names)


def test_unpacked_snapshot_runs_its_suite_and_packs_to_the_same_bytes(
    packed: Packed, sample: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    there = unpack(packed.path, sha256=packed.sha256, digest=sample.digest, cache=tmp_path / "new")
    assert there.recipe == sample.recipe and there.baseline.tests_of == sample.baseline.tests_of
    assert trees.tree_hash(there.tree) == trees.tree_hash(sample.tree)

    run = in_sandbox(there.layers(there.tree), lambda sandbox: run_tests(sandbox, there.verifier))
    assert [test for test in there.baseline.passed if run.outcomes[test].outcome != "passed"] == []
    assert list((there.path / "env").rglob("*.pyc"))
    assert pack(there, tmp_path / "again.tar.xz").sha256 == packed.sha256


def test_unpack_sets_a_generous_baseline_time_because_nothing_was_measured(
    packed: Packed, sample: Snapshot, tmp_path: Path
) -> None:
    there = unpack(packed.path, cache=tmp_path)
    assert sample.baseline.seconds < there.baseline.seconds == there.verifier.timeout_s / 20


def test_pack_includes_an_empty_folder(packed: Packed, tmp_path: Path) -> None:
    there = unpack(packed.path, cache=tmp_path / "cache")
    (there.tree / "empty" / "inner").mkdir(parents=True)
    assert "tree/empty/inner" in read(pack(there, tmp_path / "b.tar.xz").path)


def test_open_snapshot_prefers_the_archive_to_the_index(
    packed: Packed, sample: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    there = open_snapshot(sample.ref, cache=tmp_path / "new", packed=(packed.path, packed.sha256))
    assert there.path == tmp_path / "new" / "snapshots" / sample.digest
    with pytest.raises(SnapshotError, match=r"\(the archive .*gone.tar.xz does not exist either\)"):
        open_snapshot(sample.ref, cache=tmp_path / "other", packed=(tmp_path / "gone.tar.xz", packed.sha256))


def test_unpack_gives_one_snapshot_when_called_concurrently(packed: Packed, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: unpack(packed.path, cache=tmp_path).path, range(4)))
    assert paths == {tmp_path / "snapshots" / packed.digest}


def flipped(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


@pytest.mark.parametrize(
    "damage",
    [flipped, lambda data: data[:-200], lambda data: data + b"x", lambda data: data + b"\0" * (2 << 20), lambda _: b""],
    ids=["bit", "cut", "more", "much more", "empty"],
)
def test_unpack_leaves_nothing_when_the_archive_is_damaged(
    packed: Packed, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    bad = tmp_path / "bad.tar.xz"
    bad.write_bytes(damage(packed.path.read_bytes()))
    for sha256 in ("", packed.sha256):
        with pytest.raises(BrokenArchive, match="bad.tar.xz .*; download it again") as caught:
            unpack(bad, sha256=sha256, cache=tmp_path / "cache")
        assert "\n" not in str(caught.value)
    assert cached_files(tmp_path / "cache") == []


def test_unpack_refuses_trailing_bytes_when_they_begin_a_new_block(
    packed: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "_BLOCK", packed.size)
    (tmp_path / "more.tar.xz").write_bytes(packed.path.read_bytes() + b"x")
    with pytest.raises(BrokenArchive, match="has data after its end"):
        unpack(tmp_path / "more.tar.xz", cache=tmp_path / "cache")


def test_unpack_compares_the_hash_and_the_digest(packed: Packed, tmp_path: Path) -> None:
    with pytest.raises(BrokenArchive, match="has sha256 .*, not 000000000000"):
        unpack(packed.path, sha256="0" * 64, cache=tmp_path)
    with pytest.raises(BrokenArchive, match="contains snapshot .*, not 000000000000"):
        unpack(packed.path, digest="0" * 64, cache=tmp_path)
    with pytest.raises(BrokenArchive, match=r"cannot be read or unpacked \(No such file"):
        unpack(tmp_path / "none.tar.xz", cache=tmp_path)
    assert cached_files(tmp_path) == []


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    item = tarfile.TarInfo(name)
    item.type, item.linkname = kind, target
    return item, b""


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ((tarfile.TarInfo("../escaped"), b"x"), "outside"),
        ((tarfile.TarInfo("/tmp/escaped"), b"x"), "outside"),
        ((tarfile.TarInfo("tree/../../escaped"), b"x"), "outside"),
        (link("tree/out", "/etc/passwd"), "outside|out of the source"),
        (link("tree/out", "../../x"), "outside"),
        (link("env/hard", "../x", tarfile.LNKTYPE), "outside"),
        (link("tree/null", "", tarfile.CHRTYPE), "device or a pipe"),
        (link("tree/pipe", "", tarfile.FIFOTYPE), "device or a pipe"),
        ((tarfile.TarInfo("extra"), b"x"), "not an archive of a snapshot"),
    ],
)
def test_unpack_refuses_a_dangerous_member(
    packed: Packed, tmp_path: Path, member: tuple[tarfile.TarInfo, bytes], expected: str
) -> None:
    bad = write(tmp_path / "bad.tar.xz", {**read(packed.path), "bad": member})
    with pytest.raises(SnapshotError, match=expected):
        unpack(bad, cache=tmp_path / "a" / "cache")
    assert cached_files(tmp_path / "a") == []


def test_unpack_refuses_an_archive_when_it_needs_too_much_disk_or_memory(
    packed: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MAX_FILES", 100)
    monkeypatch.setattr(trees, "MAX_BYTES", 3 << 20)
    bomb = tmp_path / "bomb.tar.xz"
    bomb.write_bytes(lzma.compress(bytes(64 << 20)))
    with pytest.raises(BrokenArchive, match="unpacks to more than 3 MiB"):
        unpack(bomb, cache=tmp_path / "cache")
    greedy = tmp_path / "greedy.tar.xz"  # decompressing it would take 4 GiB of memory
    greedy.write_bytes(lzma.compress(b"x", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]))
    greedy.write_bytes(with_dictionary(greedy.read_bytes()))
    with pytest.raises(BrokenArchive, match="damaged or not a snapshot"):
        unpack(greedy, cache=tmp_path / "cache")
    assert cached_files(tmp_path / "cache") == []


def with_dictionary(data: bytes) -> bytes:
    """Return the same .xz with a block that requires the largest possible dictionary."""
    header = bytearray(data[12 : 12 + (data[12] + 1) * 4])
    assert header[2:4] == b"\x21\x01"  # LZMA2, one byte of properties
    header[4] = 40
    header[-4:] = zlib.crc32(bytes(header[:-4])).to_bytes(4, "little")
    return data[:12] + bytes(header) + data[12 + len(header) :]


def changed(packed: Packed, path: Path, file: str, **fields: object) -> Path:
    members = read(packed.path)
    item, data = members[file]
    members[file] = (item, json.dumps({**json.loads(data), **fields}).encode())
    return write(path, members)


@pytest.mark.parametrize(
    ("file", "fields", "expected"),
    [
        ("recipe.json", {"python": "3.99.1"}, "was made for Python 3.99.1, this machine has .*install that version"),
        ("recipe.json", {"platform": "linux-m68k"}, "made for linux-m68k, this machine is .*generate the tasks again"),
        ("recipe.json", {"base": "beos-5"}, "made for base beos-5, this machine has .*generate the tasks again"),
        ("recipe.json", {"builder": "0"}, "made for builder 0, this machine has .*generate the tasks again"),
        ("base.json", {"libc": "glibc 99.1"}, "made for glibc 99.1, this machine has .*generate the tasks again"),
        ("base.json", {"libc": "musl 1.2"}, "made for musl 1.2, this machine has .*generate the tasks again"),
        ("base.json", {"format": 2}, "has format 2, this version reads 1"),
        ("recipe.json", {"schema": "x"}, "no recipe and baseline that this version reads"),
        ("baseline.json", {"passed": 3}, "no recipe and baseline that this version reads"),
    ],
)
def test_unpack_names_the_remedy_when_the_machine_differs(
    packed: Packed, tmp_path: Path, file: str, fields: dict[str, object], expected: str
) -> None:
    other = changed(packed, tmp_path / "other.tar.xz", file, **fields)
    with pytest.raises(SnapshotError, match=expected) as caught:
        unpack(other, cache=tmp_path / "cache")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, UnsupportedPython) == ("python" in fields)
    assert cached_files(tmp_path / "cache") == []


def test_unpack_leaves_nothing_when_it_is_interrupted(
    packed: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("etude.environments.snapshots.snapshot.publish_folder", killed)
        with pytest.raises(KeyboardInterrupt):
            unpack(packed.path, cache=tmp_path)
    assert cached_files(tmp_path) == []
    assert unpack(packed.path, cache=tmp_path).digest == packed.digest


def test_find_snapshot_accepts_the_start_of_a_digest(sample: Snapshot, cache: Path, tmp_path: Path) -> None:
    assert find_snapshot(sample.digest[:10], cache).path == sample.path
    for name, expected in (("zz", "6 to 64 hex digits"), ("0" * 12, "no snapshot 000000000000 in the cache")):
        with pytest.raises(SnapshotError, match=expected):
            find_snapshot(name, cache)
    for ending in ("1", "2"):
        (tmp_path / "snapshots" / ("abcdef" + ending)).mkdir(parents=True)
    with pytest.raises(SnapshotError, match="abcdef matches 2 snapshots"):
        find_snapshot("abcdef", tmp_path)


def test_pack_leaves_nothing_when_it_fails(packed: Packed, sample: Snapshot, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="cannot write to .*nowhere"):
        pack(sample, tmp_path / "nowhere" / "a.tar.xz")
    there = unpack(packed.path, cache=tmp_path / "cache")
    (there.tree / "zz").symlink_to("/etc/passwd")
    with pytest.raises(SnapshotError, match="tree/zz is a link to /etc/passwd, outside the snapshot"):
        pack(there, tmp_path / "b.tar.xz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]
    by_hash = pack(sample, tmp_path)
    assert by_hash.path == tmp_path / f"{by_hash.sha256}.tar.xz" and by_hash.size == packed.size
