"""A small git repository with a bug, its fix and its tests, and the rows that describe them as a data set would."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from etude.environments.snapshots.builder.specification import Specification
from etude.generators.library.rows.instance import Instance

REPO = "example/shapes"
FILES = {
    "setup.py": "from setuptools import setup\nsetup(name='shapes', version='1.0', packages=['shapes'])\n",
    "shapes/__init__.py": "def area(width, height):\n    return width + height\n\n\ndef name():\n    return 'shape'\n",
    "tests/test_shapes.py": "import shapes\n\n\ndef test_name():\n    assert shapes.name() == 'shape'\n",
    "NEWS": "nothing yet\n",
}
FIXED = "def area(width, height):\n    return width * height\n\n\ndef name():\n    return 'shape'\n"
TESTS = FILES["tests/test_shapes.py"] + "\n\ndef test_area():\n    assert shapes.area(3, 4) == 12\n"


@dataclass(frozen=True)
class RowRepository:
    """A repository below ``folder``, with the commit before the fix and its environment."""

    folder: Path
    base_commit: str
    patch: str
    test_patch: str

    def instance(self, instance_id: str = "example__shapes-1", **changes: object) -> Instance:
        """Return the row of the fix, changed where ``changes`` says so."""
        fields: dict[str, object] = {
            "instance_id": instance_id,
            "repo": REPO,
            "base_commit": self.base_commit,
            "problem_statement": "area() adds the sides.\n",
            "patch": self.patch,
            "test_patch": self.test_patch,
            "fail_to_pass": ("tests/test_shapes.py::test_area",),
            "pass_to_pass": ("tests/test_shapes.py::test_name",),
            "version": "1.0",
            "specification": Specification(repo=REPO, version="1.0", python="3.11"),
        }
        return Instance(**{**fields, **changes})  # type: ignore[arg-type]

    def diff(self, files: dict[str, str]) -> str:
        """Return the git diff that writes ``files`` over the base commit."""
        return diff(self.folder / "example__shapes", files)


def make_repository(folder: Path) -> RowRepository:
    """Make the clone ``folder/example__shapes``; its history goes on to the fix, under a tag."""
    clone = folder / "example__shapes"
    clone.mkdir(parents=True)
    git(clone, "init", "--quiet", "--initial-branch=main")
    write(clone, FILES)
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "The first version")
    base = git(clone, "rev-parse", "HEAD").strip()
    repository = RowRepository(
        folder, base, diff(clone, {"shapes/__init__.py": FIXED}), diff(clone, {"tests/test_shapes.py": TESTS})
    )
    write(clone, {"shapes/__init__.py": FIXED, "tests/test_shapes.py": TESTS})
    git(clone, "commit", "--quiet", "--all", "--message", "The future fix")
    git(clone, "tag", "v1.1")
    git(clone, "checkout", "--quiet", "--detach", base)
    return repository


def diff(clone: Path, files: dict[str, str]) -> str:
    """Return the diff that writing ``files`` gives, and undo the writing."""
    write(clone, files)
    git(clone, "add", "--all")
    text = git(clone, "diff", "--cached", "HEAD")
    git(clone, "reset", "--quiet", "--hard", "HEAD")
    return text


def write(folder: Path, files: dict[str, str]) -> None:
    """Write ``files`` below ``folder``."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def git(folder: Path, *arguments: str) -> str:
    """Run git in ``folder`` and return its output."""
    people = {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    environment = {**os.environ, **people, "GIT_CONFIG_GLOBAL": "/dev/null"}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout
