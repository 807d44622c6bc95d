"""Files of a new plug-in package, by their paths."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from string import Template

from ...errors import UnknownName
from ...registry import did_you_mean
from ..names import PACKAGE, REGISTRIES

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Kind:
    """One kind of extension."""

    registry: str
    """Name of its registry in `etude list`, and the last part of its entry-point group."""
    attribute: str
    """Name of the registered object; ``$class_name`` stands for that of the package."""
    try_it: str
    """Command that uses the extension."""


KINDS = {
    "generator": Kind(
        "generators", "${class_name}Generator", "etude generate pypi:cachetools==5.5.0 -g $package --out tasks"
    ),
    "environment": Kind(
        "environments", "${class_name}Session", "etude run --tasks $package --agent oracle --out runs/$package"
    ),
    "monitor": Kind(
        "monitors", "${class_name}Monitor", "etude run --tasks drill --agent noop --limit 3 --out runs/$package"
    ),
    "hint": Kind("hints", "hint", "etude run --tasks drill --agent stumbler --limit 3 --out runs/$package"),
    "agent": Kind("agents", "make_agent", "etude run --tasks drill --agent $package --limit 3 --out runs/$package"),
}
"""Kinds of extensions by the name that ``--kind`` takes; ``templates/`` holds the module and the test of each."""


def package_files(name: str, kind: str) -> dict[str, str]:
    """Return the texts of the files of a package by path. Raises UnknownName for a name that cannot be used."""
    if kind not in KINDS:
        raise UnknownName(did_you_mean("kind", kind, KINDS))
    package = _package_name(name, KINDS[kind].registry)
    values = {
        "distribution": package.replace("_", "-"),
        "package": package,
        "class_name": "".join(part.capitalize() for part in package.split("_")),
        "kind": kind,
        "module": kind,
        "registry": KINDS[kind].registry,
        "group": f"etude.{KINDS[kind].registry}",
    }
    values["attribute"] = Template(KINDS[kind].attribute).substitute(values)
    values["try_it"] = Template(KINDS[kind].try_it).substitute(values)
    sources = {
        "pyproject.toml": "pyproject",
        "README.md": "readme",
        f"{package}/__init__.py": "package",
        f"{package}/{kind}.py": kind,
        f"tests/test_{kind}.py": f"{kind}_test",
    }
    return {path: _filled(template, values) for path, template in sources.items()}


def _filled(template: str, values: dict[str, str]) -> str:
    return Template((TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")).substitute(values)


def _package_name(name: str, registry: str) -> str:
    """Return the name as that of a Python package. Raises UnknownName."""
    package = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", package) or keyword.iskeyword(package):
        raise UnknownName(f"{name!r} cannot be the name of a package; use lower-case letters, digits and hyphens")
    if package in sys.stdlib_module_names or importlib.util.find_spec(package) is not None:
        raise UnknownName(f"a package {package!r} is installed already; choose another name")
    module, attribute = REGISTRIES[registry]
    if package in getattr(import_module(module, PACKAGE), attribute).paths():
        raise UnknownName(f"{registry} has {package!r} already; choose another name")
    return package
