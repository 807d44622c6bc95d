"""A small package whose function ``total`` is deleted: its files, its Snapshot and its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from helpers.small_tasks import PROJECT, write_project

from etude.environments.snapshots import Snapshot, build_snapshot, make_patch
from etude.models import GeneratorRef, Task

CORE = '''"""Sums of amounts."""

from .words import LIMIT


def total(values):
    """Return the sum of the values."""
    result = 0
    for value in values:
        result += value
    return result


def largest(values):
    """Return the largest value, LIMIT at most."""
    return min(max(values), LIMIT)
'''
BODY = "    result = 0\n    for value in values:\n        result += value\n    return result\n"
HIDDEN_FILE = "tests/test_hidden.py"


def package(name: str, hidden: str, visible: str) -> dict[str, str]:
    """Return the files of a package with the functions ``total`` and ``largest``, and with these two tests."""
    return {
        "pyproject.toml": PROJECT.format(name=name),
        f"src/{name}/__init__.py": "from .core import largest, total\n",
        f"src/{name}/core.py": CORE,
        f"src/{name}/words.py": "LIMIT = 100\n",
        "tests/test_visible.py": visible,
        HIDDEN_FILE: hidden,
    }


def exercise(core: str) -> str:
    """Return the module without the body of ``total``."""
    assert BODY in core
    return core.replace(BODY, "    raise NotImplementedError\n")


def snapshot_of(folder: Path, files: Mapping[str, str]) -> Snapshot:
    """Write the files and return their Snapshot, which the cache keeps from one test run to the next."""
    return build_snapshot(str(write_project(folder, files)))


def task_of(snapshot: Snapshot, package: str, files: Mapping[str, str], statement: str, visible: Sequence[str]) -> Task:
    """Return the task to write ``total`` again; its tests are hidden, ``visible`` are tests that must go on passing."""
    module = f"src/{package}/core.py"
    core, hidden = files[module].encode(), files[HIDDEN_FILE].encode()
    left = exercise(files[module]).encode()
    return Task(
        task_id=f"{package}-total",
        snapshot=snapshot.ref,
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement=statement,
        patch=make_patch({module: left}, {module: core}),
        test_patch=make_patch({HIDDEN_FILE: None}, {HIDDEN_FILE: hidden}),
        workspace_patch=make_patch({module: core, HIDDEN_FILE: hidden}, {module: left, HIDDEN_FILE: None}),
        FAIL_TO_PASS=[
            f"{HIDDEN_FILE}::{name}" for name in ("test_total", "test_total_of_nothing", "TestTotal::test_many")
        ],
        PASS_TO_PASS=[f"tests/test_visible.py::{name}" for name in visible],
        source_globs=[f"src/{package}/**"],
        protected_paths=["tests/**", "**/conftest.py", "pyproject.toml"],
        verifier=snapshot.verifier,
    )
