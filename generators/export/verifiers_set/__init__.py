"""Tasks as an installable taskset of verifiers: Harbor task folders, and the module that loads them.

Played and graded by verifiers alone, in containers; no Etude server is needed. The taskset of
``trainers/integrations/packages/verifiers``, which plays on a server, also brings error turns, hints and findings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ....environments.tasks.task_set import TaskSet
from ....errors import ExportError
from ..folder_format import FolderFormat, Option
from ..harbor import FORMAT as HARBOR

_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "1"
requires-python = ">=3.12"
dependencies = ["verifiers[harbor]>=0.3.1,<0.5"]

[tool.setuptools]
packages = ["{package}"]

[tool.setuptools.package-data]
{package} = ["tasks/**"]
"""


def write_package(tasks: TaskSet, folder: Path, options: Mapping[str, str]) -> int:
    """Write the package, and ``build_images.sh`` in its folder of tasks. Raises ExportError."""
    package = options["package"]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", package):
        raise ExportError(f"option package must be the name of a module, such as etude_tasks, got {package!r}")
    module = folder / package
    module.mkdir()
    (module / "tasks").mkdir()
    number = HARBOR.write(
        tasks, module / "tasks", {name: value for name, value in options.items() if name != "package"}
    )
    (module / "__init__.py").write_text(Path(__file__).with_name("taskset.py").read_text("utf-8"), "utf-8")
    project = _PROJECT.format(name=package.replace("_", "-"), package=package)
    (folder / "pyproject.toml").write_text(project, "utf-8")
    return number


FORMAT = FolderFormat(
    write_package,
    {
        **HARBOR.options,
        "image": Option("Name images NAME:TASK; verifiers takes images that exist.", "localhost/etude"),
        "package": Option("Name the package, whose taskset has the same name with dashes.", "etude_tasks"),
    },
)
