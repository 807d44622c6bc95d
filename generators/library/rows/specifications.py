"""Environments that SWE-bench states for each version of its repositories, read from the installed ``swebench``.

SWE-bench 4.1.0 keeps them in ``swebench/harness/constants/python.py``: the Python version, packages, edits of build
files and the test command. That file is executed alone; nothing else of the package is imported. What cannot be taken
over literally is stated in ``_CHANGES``.
"""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ....environments.snapshots.builder.specification import Specification
from ....errors import BuildFailed
from ....registry import did_you_mean
from .instance import Instance

AS_OF = "2024-06-30"
"""Packages without a pin are those of this day, when SWE-bench's environments were built, and not today's."""
_PIP, _CONDA = "requirements.txt", "environment.yml"
"""Values of the table's column ``packages`` that name a file of the project."""
_TABLE = Path("harness", "constants", "python.py")
_DJANGO = {
    "program": "tests/runtests.py",
    "arguments": ("--settings=test_sqlite", "--parallel=1", "--verbosity=0"),
    "packages": (("django", "django"),),
}
_CHANGES: Mapping[str, Mapping[str, Any]] = {"django/django": _DJANGO}
"""Fields of a Specification that the table states as a shell command."""
_ADDED: Mapping[str, tuple[str, ...]] = {"sympy/sympy": ("py",)}
"""Requirements of running with pytest what the table runs with the project's own script."""
_UNNEEDED = re.compile(r"^(tox|flake8|jupyter|ipython)\b")
"""Tools that no test imports: tox is replaced by pytest itself."""


def specification(instance: Instance) -> Specification:
    """Return the environment of an instance: its row's own, else the one that SWE-bench states for its version.

    Raises BuildFailed when neither exists.
    """
    if instance.specification is not None:
        return instance.specification
    versions = _table("MAP_REPO_VERSION_TO_SPECS_PY").get(instance.repo)
    if versions is None:
        raise BuildFailed(f"no environment is known for {instance.repo}; add one to the row, as SWE-rebench does")
    if instance.version not in versions:
        raise BuildFailed(f"{instance.repo}: {did_you_mean('version', instance.version, versions)}")
    stated = versions[instance.version]
    extras = re.search(r"\.\[([^\]]+)\]", stated.get("install", ""))
    files = _table("MAP_REPO_TO_REQS_PATHS").get(instance.repo, []) if stated.get("packages") == _PIP else []
    specified = Specification(
        repo=instance.repo,
        version=instance.version,
        python=stated["python"],
        requirements=(*_requirements(stated), *_ADDED.get(instance.repo, ())),
        requirement_files=tuple(files),
        extras=tuple(name.strip() for name in extras[1].split(",")) if extras else (),
        edits=tuple(line for line in stated.get("pre_install", ()) if line.startswith("sed -i")),
        as_of=AS_OF,
    )
    return replace(specified, **_CHANGES.get(instance.repo, {}))


def _requirements(stated: Mapping[str, Any]) -> list[str]:
    """Return the pins of the table; packages that conda would install are taken from the index under their names."""
    packages = stated.get("packages", "")
    named = [] if packages in ("", _PIP, _CONDA) else shlex.split(packages)
    pins = {re.split(r"[<>=!~ \[]", text)[0].lower(): text for text in [*named, *stated.get("pip_packages", ())]}
    return [text for text in pins.values() if not _UNNEEDED.match(text)]


@cache
def _table(name: str) -> Mapping[str, Any]:
    """Return one of the tables. Raises BuildFailed without the package."""
    package = find_spec("swebench")
    for folder in (package.submodule_search_locations or []) if package else []:
        if (Path(folder) / _TABLE).is_file():
            table: Mapping[str, Any] = runpy.run_path(str(Path(folder) / _TABLE))[name]
            return table
    raise BuildFailed("SWE-bench's environments are in the package swebench; run: pip install 'etude[swe-bench]'")
