"""Tasks made of a few texts: a project's files, what replaces the deleted code, and which tests are hidden."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from etude.environments.snapshots import Snapshot, make_patch
from etude.models import GeneratorRef, Task

PROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "{name}"
version = "1.0"
license = {{text = "MIT"}}
[tool.pytest.ini_options]
testpaths = ["tests"]
"""


def write_project(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write a project's files below ``folder`` and return it; a ``pyproject.toml`` is added."""
    named = {"pyproject.toml": PROJECT.format(name=folder.name), **files}
    for name, content in named.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def make_task(
    snapshot: Snapshot, files: Mapping[str, str | bytes], exercise: Mapping[str, str], hidden: str, tests: list[str]
) -> Task:
    """Return the task in which ``exercise`` replaces files of the project and the file ``hidden`` is not shown.

    ``tests`` are the names of that file's tests; all of them fail on the exercise.
    """
    before = {path: _bytes(files[path]) for path in exercise}
    after = {path: text.encode() for path, text in exercise.items()}
    test = {hidden: _bytes(files[hidden])}
    name = next(iter(exercise)).rpartition("/")[2].removesuffix(".py")
    return Task(
        task_id=f"small-{name}",
        snapshot=snapshot.ref,
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement=f"Write what is missing in the module `{name}` again.",
        patch=make_patch(after, before),
        test_patch=make_patch({hidden: None}, test),
        workspace_patch=make_patch({**before, **test}, {**after, hidden: None}),
        FAIL_TO_PASS=[f"{hidden}::{test_name}" for test_name in tests],
        source_globs=["src/**"],
        protected_paths=["tests/**", "**/conftest.py", "pyproject.toml"],
        verifier=snapshot.verifier,
    )


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
