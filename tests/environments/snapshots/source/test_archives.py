"""Archives are unpacked inside their folder, or refused."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from etude.environments.snapshots.source import archives
from etude.errors import BadSource, BrokenArchive, SnapshotError


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def info(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = kind, target, mode
    return entry


def test_unpack_strips_a_single_top_folder(tmp_path: Path) -> None:
    archive = tar(tmp_path / "p-1.tar.gz", (info("p-1/a.py"), b"x"), (info("p-1/run.sh", mode=0o755), b"y"))
    archives.unpack(archive, tmp_path / "out")
    assert (tmp_path / "out" / "a.py").read_bytes() == b"x"
    assert (tmp_path / "out" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "p-1.tar.gz"]


def test_unpack_keeps_links_inside(tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "p.tar.gz",
        (info("p/link.py", tarfile.SYMTYPE, "real/a.py"), b""),
        (info("p/real/a.py"), b"x"),
        (info("p/hard.py", tarfile.LNKTYPE, "p/real/a.py"), b""),
    )
    archives.unpack(archive, tmp_path / "out")
    assert (tmp_path / "out" / "link.py").read_bytes() == (tmp_path / "out" / "hard.py").read_bytes() == b"x"
    assert (tmp_path / "out" / "hard.py").stat().st_nlink == 1


@pytest.mark.parametrize(
    "members",
    [
        [(info("/etc/evil"), b"x")],
        [(info("p/../../evil"), b"x")],
        [(info("p/link", tarfile.SYMTYPE, "/etc"), b"")],
        [(info("p/link", tarfile.SYMTYPE, "../../x"), b"")],
        [(info("p/hard", tarfile.LNKTYPE, "../../etc/passwd"), b"")],
        [(info("p/dir", tarfile.SYMTYPE, "/tmp"), b""), (info("p/dir/evil"), b"x")],
        [(info("p/q/d", tarfile.SYMTYPE, "../.."), b""), (info("p/q/e", tarfile.SYMTYPE, "d/.."), b"")],
        [(info("p/fifo", tarfile.FIFOTYPE), b"")],
        [(info("p/dev", tarfile.CHRTYPE), b"")],
    ],
    ids=["absolute", "dotdot", "abslink", "uplink", "uphard", "through", "chain", "fifo", "device"],
)
def test_unpack_refuses_members_that_would_land_outside(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    home = tmp_path / "a" / "b"
    home.mkdir(parents=True)
    with pytest.raises(BrokenArchive):
        archives.unpack(tar(home / "p.tar.gz", *members), home / "out")
    assert [path.name for path in home.iterdir()] == ["p.tar.gz"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_unpack_refuses_zip_links_that_lead_outside(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("p/link")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr(entry, "../../../etc/passwd")
    with pytest.raises(BrokenArchive, match="outside"):
        archives.unpack(tmp_path / "p.zip", tmp_path / "out")


def test_unpack_reads_zip_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("p-1/pkg/__init__.py", "x = 1\n")
    archives.unpack(tmp_path / "p.zip", tmp_path / "out")
    assert (tmp_path / "out" / "pkg" / "__init__.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("name", ["p.tar.gz", "p.zip"])
def test_unpack_names_the_remedy_when_the_archive_is_broken(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"this is not an archive")
    with pytest.raises(BrokenArchive, match=r"cannot be unpacked \([^:]*\); download it again"):
        archives.unpack(tmp_path / name, tmp_path / "out")


def test_unpack_leaves_nothing_when_the_archive_is_truncated(tmp_path: Path) -> None:
    archive = tar(tmp_path / "p.tar.gz", (info("p/a.py"), bytes(range(256)) * 4000))
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(SnapshotError):
        archives.unpack(archive, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["p.tar.gz"]


def test_unpack_refuses_an_archive_when_it_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 1000)
    with pytest.raises(BrokenArchive, match="more than"):
        archives.unpack(tar(tmp_path / "p.tar.gz", (info("p/a"), b"0" * 2000)), tmp_path / "out")


@pytest.mark.parametrize(("name", "words"), [("p.whl", "wheel"), ("p.rar", "not a source archive")])
def test_unpack_names_the_problem_when_the_file_is_not_a_source_archive(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(BadSource, match=words):
        archives.unpack(tmp_path / name, tmp_path / "out")
