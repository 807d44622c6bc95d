"""Environments from SWE-bench's table: a table of the same shape here, the released one in the slow test."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.row_repository import REPO, RowRepository, make_repository

from etude.environments.snapshots.builder.specification import Specification
from etude.errors import BuildFailed
from etude.generators.library.rows import specifications
from etude.generators.library.rows.instance import Instance
from etude.generators.library.rows.specifications import AS_OF, specification

TABLE = """
MAP_REPO_VERSION_TO_SPECS_PY = {
    "a/plain": {"1.0": {
        "python": "3.9", "packages": "mpmath flake8", "pip_packages": ["mpmath==1.3.0", "tox==4.16.0", "six"],
        "install": "python -m pip install -e .[test, all]",
        "pre_install": ["apt-get install -y gcc", "sed -i 's/a/b/' setup.py"],
    }},
    "django/django": {"4.2": {"python": "3.9", "packages": "requirements.txt", "install": "pip install -e ."}},
}
MAP_REPO_TO_REQS_PATHS = {"django/django": ["tests/requirements/py3.txt"]}
"""


def instance(repo: str, version: str, own: Specification | None = None) -> Instance:
    return Instance("x-1", repo, "0" * 40, "text", "", "", version=version, specification=own)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "swebench" / "harness" / "constants"
    folder.mkdir(parents=True)
    for package in (tmp_path / "swebench", tmp_path / "swebench" / "harness"):
        (package / "__init__.py").write_text("raise ImportError('only the table is read')\n")
    (folder / "python.py").write_text(TABLE)
    monkeypatch.syspath_prepend(str(tmp_path))
    specifications._table.cache_clear()
    yield folder
    specifications._table.cache_clear()


def test_the_table_is_read_without_importing_the_package(table: Path) -> None:
    stated = specification(instance("a/plain", "1.0"))
    assert stated.requirements == ("mpmath==1.3.0", "six")  # the pin wins; tox and flake8 are not needed
    assert (stated.python, stated.extras, stated.as_of) == ("3.9", ("test", "all"), AS_OF)
    assert stated.edits == ("sed -i 's/a/b/' setup.py",)
    django = specification(instance("django/django", "4.2"))
    assert django.program == "tests/runtests.py" and django.requirement_files == ("tests/requirements/py3.txt",)


def test_an_environment_of_the_row_wins(table: Path) -> None:
    own = Specification(repo="a/plain", version="7", python="3.12")
    assert specification(instance("a/plain", "1.0", own)) is own


@pytest.mark.parametrize(
    ("repo", "version", "message"),
    [
        ("a/plain", "1.1", "a/plain: unknown version '1.1'. Did you mean '1.0'?"),
        ("b/other", "1.0", "no environment is known for b/other; add one to the row"),
    ],
)
def test_an_environment_that_is_not_stated_is_one_line(table: Path, repo: str, version: str, message: str) -> None:
    with pytest.raises(BuildFailed) as error:
        specification(instance(repo, version))
    assert str(error.value).startswith(message)


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    specifications._table.cache_clear()
    monkeypatch.setattr(specifications, "find_spec", lambda name: None)
    with pytest.raises(BuildFailed, match=r"run: pip install 'etude\[swe-bench\]'"):
        specification(instance("a/plain", "1.0"))
    specifications._table.cache_clear()


@pytest.mark.slow
def test_the_released_table_states_every_environment_of_lite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(tmp_path), "swebench==4.1.0"]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    specifications._table.cache_clear()
    versions = {"sympy/sympy": "1.13", "django/django": "5.0", "pallets/flask": "2.3", "sphinx-doc/sphinx": "7.1"}
    for repo, version in versions.items():
        assert specification(instance(repo, version)).python in ("3.9", "3.11")
    specifications._table.cache_clear()


def test_a_clone_is_found_under_each_usual_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from etude.environments.snapshots.source.clones import Clones

    repository: RowRepository = make_repository(tmp_path)
    clone = tmp_path / "example__shapes"
    for name in ("example/shapes", "example+shapes/repo", "example-shapes", "shapes.git", "shapes"):
        moved = tmp_path / name
        moved.parent.mkdir(parents=True, exist_ok=True)
        clone.rename(moved)
        assert Clones(repository.folder).find(REPO) == moved
        moved.rename(clone)
    monkeypatch.setenv("ETUDE_REPOS", str(tmp_path))
    assert Clones().find(REPO) == clone
