"""Sources: how they are named, fetched and recognised."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
from helpers.row_repository import git

from etude.environments.snapshots.builder.interpreter import find_interpreter
from etude.environments.snapshots.source import source
from etude.environments.snapshots.store import trees
from etude.errors import BadSource, BrokenArchive, SourceNotFound


def fetch(spec: str | Path, target: Path) -> source.Source:
    return source.fetch(str(spec), target, find_interpreter(), lambda message: None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "somewhere" / "thing"
    (folder / "tests").mkdir(parents=True)
    (folder / "thing.py").write_text("def one():\n    return 1\n")
    (folder / "tests" / "test_thing.py").write_text("def test_one():\n    assert True\n")
    (folder / "pyproject.toml").write_text('[project]\nname = "Thing"\nversion = "1"\n')
    return folder


def test_fetch_copies_a_folder_without_caches_and_names_it_without_its_path(project: Path, tmp_path: Path) -> None:
    for name in (".git", "__pycache__", ".venv", ".tox"):
        (project / name).mkdir()
        (project / name / "x").write_text("x")
    (project / ".venv" / "pyvenv.cfg").write_text("")
    fetched = fetch(project, tmp_path / "tree")
    assert (fetched.kind, fetched.spec, fetched.name) == ("folder", "folder:Thing", "Thing")
    assert sorted(path.name for path in (tmp_path / "tree").iterdir()) == ["pyproject.toml", "tests", "thing.py"]


def test_fetch_hashes_the_content_alone(project: Path, tmp_path: Path) -> None:
    first = fetch(project, tmp_path / "tree")
    other = tmp_path / "elsewhere" / "renamed"
    shutil.copytree(project, other)
    (other / "thing.py").chmod(0o600)
    with tarfile.open(tmp_path / "thing-1.tar.gz", "w:gz") as archive:
        archive.add(project, "thing-1")
    assert fetch(other, tmp_path / "tree2").sha256 == first.sha256
    assert fetch(tmp_path / "thing-1.tar.gz", tmp_path / "tree3").sha256 == first.sha256
    (other / "thing.py").write_text("changed\n")
    assert fetch(other, tmp_path / "tree4").sha256 != first.sha256


def test_fetch_refuses_a_link_out_of_the_folder(project: Path, tmp_path: Path) -> None:
    (project / "data").symlink_to("/etc")
    with pytest.raises(BadSource, match="data is a link out of the source"):
        fetch(project, tmp_path / "tree")


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ("pypi:cachetools", BadSource, r"write pypi:cachetools==\d+\.\d+\.\d+ for the newest one"),
        ("pypi:cachetools>=5", BadSource, r"write pypi:cachetools==\d+\.\d+\.\d+ for the newest one"),
        ("pypi:no-such-distribution-of-etude", BadSource, "write pypi:NAME==VERSION"),
        ("pypi: cachetools == 5.5.0", BadSource, "without spaces"),
        ("", BadSource, "empty name"),
        (" ", BadSource, "empty name"),
        ("cachetools==5.5.0", SourceNotFound, "Did you mean pypi:cachetools==5.5.0"),
        ("/does/not/exist", SourceNotFound, "does not exist"),
        ("https://example.invalid/x.git", BadSource, "git\\+URL@REVISION"),
        ("git+https://example.invalid/x.git", BadSource, "names no revision"),
        ("git+ext::sh -c x@main", BadSource, "git"),
        ("git+https://example.invalid/x.git@--upload-pack=x", BadSource, "not a git address"),
    ],
)
def test_fetch_says_what_to_write_when_the_name_is_bad(
    spec: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        fetch(spec, tmp_path / "tree")


def test_fetch_refuses_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadSource, match="contains no files"):
        fetch(tmp_path / "empty", tmp_path / "tree")


def test_content_key_refuses_a_folder_when_it_is_too_large(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "data.bin").write_bytes(b"0" * 2000)
    with monkeypatch.context() as patched:
        patched.setattr(trees, "MAX_BYTES", 1000)
        with pytest.raises(BadSource, match="data.bin included; remove data"):
            source.content_key(str(project))
    monkeypatch.setattr(trees, "MAX_FILES", 2)
    with pytest.raises(BadSource, match="more than 2 files"):
        source.content_key(str(project))


@pytest.fixture
def repository(project: Path) -> Path:
    (project / ".gitattributes").write_text("*.txt filter=evil export-ignore\ntests export-ignore\n*.py eol=crlf\n")
    (project / "note.txt").write_text("a note\n")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "one")
    git(project, "tag", "v1.2.3")
    hook = project / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {project}/hooked\n")
    hook.chmod(0o755)
    return project


def test_fetch_exports_a_git_revision_as_it_is_stored(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD").strip()
    (repository / "thing.py").write_text("later = 1\n")
    git(repository, "commit", "-q", "-a", "-m", "two")
    fetched = fetch(f"git+file://{repository}@v1.2.3", tmp_path / "tree")
    assert fetched.spec == f"git+local:thing@{commit}"
    assert fetched.scm_version == "1.2.3"
    tree = tmp_path / "tree"
    assert (tree / "thing.py").read_text() == "def one():\n    return 1\n"
    assert (tree / "note.txt").read_text() == "a note\n"
    assert (tree / "tests" / "test_thing.py").is_file()
    assert not (tree / ".git").exists()
    assert not (repository / "hooked").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["somewhere", "tree"]


def test_fetch_names_an_unknown_revision_or_repository(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match="no revision v9"):
        fetch(f"git+file://{repository}@v9", tmp_path / "tree")
    with pytest.raises(SourceNotFound, match="cannot clone .*: fatal: .*no.* a git repository; check the address"):
        fetch(f"git+file://{tmp_path}/nowhere@v9", tmp_path / "tree")


def test_content_key_is_none_when_the_spec_can_move(project: Path) -> None:
    assert source.content_key("git+https://example.invalid/x@main") is None
    assert source.content_key("git+https://example.invalid/x@" + "a" * 40) is not None
    assert source.content_key("pypi:a==1") == "pypi:a==1"
    before = source.content_key(str(project))
    (project / "thing.py").write_text("changed\n")
    assert before != source.content_key(str(project))


def test_locate_finds_a_folder_by_content(project: Path, tmp_path: Path) -> None:
    fetched = fetch(project, tmp_path / "tree")
    moved = tmp_path / "sources" / "other-name"
    shutil.copytree(project, moved)
    assert source.locate(fetched.spec, fetched.sha256, [tmp_path / "sources"]) == moved
    assert source.locate(fetched.spec, fetched.sha256, [moved]) == moved
    with pytest.raises(SourceNotFound, match="ETUDE_SOURCES"):
        source.locate(fetched.spec, "0" * 64, [tmp_path / "sources"])


def test_fetch_names_the_remedy_when_the_archive_is_broken(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"\x1f\x8b nonsense")
    with pytest.raises(BrokenArchive, match="download it again"):
        fetch(tmp_path / "x.tar.gz", tmp_path / "tree")


def test_clean_keeps_a_package_that_is_called_build(tmp_path: Path) -> None:
    for name in (
        "build/lib/pkg/a.py",
        "dist/p-1.tar.gz",
        "src/p.egg-info/SOURCES.txt",
        "pkg/__pycache__/a.pyc",
        "a.py~",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "pkg" / "build").mkdir()
    (tmp_path / "pkg" / "build" / "real.py").write_text("x")
    for name in (".coverage", "PKG-INFO", "pkg/data.orig"):
        (tmp_path / name).write_text("x")
    trees.clean(tmp_path)
    assert [path.as_posix() for path in trees.files_of(tmp_path)] == ["pkg/build/real.py"]


def test_clean_keeps_source_folders_with_the_names_of_build_folders(tmp_path: Path) -> None:
    for name in ("build/__init__.py", "dist/make_release.sh"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("x")
    trees.clean(tmp_path, frozenset({"build"}))
    assert [path.as_posix() for path in trees.files_of(tmp_path)] == ["build/__init__.py", "dist/make_release.sh"]


def test_clean_removes_leftovers_that_show_solutions_or_host_paths(tmp_path: Path) -> None:
    leftovers = (
        ".cache/data.db", "pkg/.cache/x", "__editable___thing_finder.py", "__editable__.thing-1.pth", "tags", "TAGS",
        "docs/_build/objects.inv", "objects.inv",
    )  # fmt: skip
    kept_files = ("pkg/data/tags", "pkg/tags/__init__.py")
    for name in (*leftovers, *kept_files, "pkg/TAGS"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("red\ngreen\n")
    (tmp_path / "pkg" / "TAGS").write_bytes(b"\x0c\ncore.py,20\n")
    trees.clean(tmp_path)
    assert [path.as_posix() for path in trees.files_of(tmp_path)] == sorted(kept_files)


def test_fetch_needs_no_network_when_uv_is_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(SourceNotFound, match="cannot fetch cachetools==5.5.0"):
        fetch("pypi:cachetools==5.5.0", tmp_path / "tree")
