"""Environments that a data set states: shared by the commits of one version, and free of the host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.row_repository import REPO, RowRepository, git, make_repository

from etude.environments.snapshots import Snapshot, open_snapshot
from etude.environments.snapshots.builder.specification import BuiltEnvironment, Specification
from etude.environments.snapshots.builder.specified import _edit, build_commit
from etude.environments.snapshots.source.repositories import export_commit
from etude.errors import SourceNotFound

STATED = Specification(repo=REPO, version="1.0", python="3.11", requirements=("six==1.16.0",))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> RowRepository:
    return make_repository(tmp_path_factory.mktemp("clones"))


def build(repository: RowRepository, stated: Specification) -> tuple[Snapshot, BuiltEnvironment]:
    """Return the Snapshot of the base commit, and its environment."""
    commit = repository.base_commit
    return build_commit(stated, repository.folder / "example__shapes", commit, commit)


def test_commits_of_one_version_share_one_environment(repository: RowRepository) -> None:
    clone = repository.folder / "example__shapes"
    later = git(clone, "rev-parse", "v1.1").strip()
    first, built = build_commit(STATED, clone, repository.base_commit, repository.base_commit)
    second, again = build_commit(STATED, clone, later, repository.base_commit)
    assert first.digest != second.digest and built == again
    assert (second.tree / "shapes/__init__.py").read_text() != (first.tree / "shapes/__init__.py").read_text()
    module = next(path.relative_to(first.path) for path in (first.path / "env").rglob("six.py"))
    assert (first.path / module).stat().st_ino == (second.path / module).stat().st_ino
    assert any(line.startswith("six==1.16.0 --hash=sha256:") for line in built.lines)
    assert not list((first.path / "env").rglob("shapes")), "the tree is the only copy of the project"


def test_the_record_names_no_host_path_and_the_public_address(repository: RowRepository) -> None:
    made, _ = build(repository, STATED)
    assert str(repository.folder) not in made.recipe.canonical()
    assert made.recipe.source.spec.endswith(f"{REPO}@{repository.base_commit}")
    assert open_snapshot(made.ref).digest == made.digest


def test_a_requirement_that_cannot_be_had_is_left_out_with_a_note(repository: RowRepository) -> None:
    stated = replace(STATED, requirements=("no-such-distribution-of-etude==9.9", "six"))
    _, built = build(repository, stated)
    assert any(line.startswith("six==") for line in built.lines)
    assert any("no-such-distribution-of-etude==9.9 dropped" in note for note in built.notes)


def test_packages_are_those_of_the_stated_day(repository: RowRepository) -> None:
    stated = replace(STATED, requirements=("six",), as_of="2020-06-01")
    _, built = build(repository, stated)
    assert any(line.startswith("six==1.15.0 ") for line in built.lines)


def test_a_folder_that_is_not_a_clone_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match="has no commit abc .*; fetch it with all its branches"):
        build_commit(STATED, tmp_path, "abc", "abc")


def test_a_clone_without_all_contents_names_the_file(tmp_path: Path) -> None:
    whole = make_repository(tmp_path)
    clone = whole.folder / "example__shapes"
    blob = git(clone, "rev-parse", f"{whole.base_commit}:shapes/__init__.py").strip()
    for stored in clone.rglob(f"{blob[:2]}/{blob[2:]}"):
        stored.unlink()
    with pytest.raises(SourceNotFound, match="lacks the content of shapes/__init__.py at .*clone it again"):
        export_commit(clone, whole.base_commit, tmp_path / "out")


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ("sed -i 's/1.0/2.0/' setup.py", ""),
        ("sed -i 's/1.0/2.0/' ../other.py", "is left out"),
        ("sed -i 's/1.0/2.0/' /etc/hosts", "is left out"),
        ("sed -i '1e touch ran' setup.py", "failed: "),
        ("sed -i 's/1.0/2.0/' missing.py", "failed: "),
        ("rm -rf setup.py", "is left out"),
    ],
)
def test_an_edit_of_a_specification_touches_the_projects_files_alone(tmp_path: Path, edit: str, problem: str) -> None:
    (tmp_path / "other.py").write_text("1.0")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "setup.py").write_text("1.0")
    found = _edit(tree, edit)
    assert problem in found and bool(problem) == bool(found)
    assert (tree / "setup.py").read_text() == ("1.0" if problem else "2.0")
    assert (tmp_path / "other.py").read_text() == "1.0" and not (tree / "ran").exists()
