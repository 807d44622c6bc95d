"""The files in which a project describes itself, read without running any of its code."""

from __future__ import annotations

import tomllib
from configparser import ConfigParser
from configparser import Error as ConfigError
from email.parser import HeaderParser
from pathlib import Path
from typing import Any


def read_pyproject(tree: Path) -> dict[str, Any]:
    """Return the content of ``pyproject.toml``; empty when there is none or it is broken (the build reports that)."""
    return read_toml(tree / "pyproject.toml")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; empty when there is none or it is broken."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def read_ini(path: Path) -> ConfigParser:
    """Return the content of an ini file; empty when there is none or it is broken."""
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(path.read_text("utf-8", "replace"))
    except (OSError, ConfigError):
        return ConfigParser(interpolation=None)
    return parser


def project_name(tree: Path, default: str = "project") -> str:
    """Return the name that the project's own files give, else ``default``."""
    project = read_pyproject(tree)
    name = project.get("project", {}).get("name") or project.get("tool", {}).get("poetry", {}).get("name")
    if isinstance(name, str):
        return name
    if name := read_ini(tree / "setup.cfg").get("metadata", "name", fallback=""):
        return name
    info = tree / "PKG-INFO"
    headers = HeaderParser().parsestr(info.read_text("utf-8", "replace")) if info.is_file() else None
    return (headers["Name"] if headers else None) or default


def required_python(tree: Path) -> str:
    """Return the Python versions that the project's own files ask for (Requires-Python); empty when they do not."""
    declared = read_pyproject(tree).get("project", {}).get("requires-python", "")
    return str(declared or read_ini(tree / "setup.cfg").get("options", "python_requires", fallback=""))
