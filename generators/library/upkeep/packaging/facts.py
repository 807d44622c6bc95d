"""Facts that a build would put into a wheel, read from pyproject.toml, setup.cfg and setup.py without running them.

The text of this module is part of hidden tests: it imports nothing but the standard library and ``packaging``, which
pytest needs as well. What cannot be read without running code is left out.
"""

from __future__ import annotations

import ast
import configparser
import fnmatch
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

try:
    import tomllib
except ImportError:  # before Python 3.11, where pytest needs tomli
    import tomli as tomllib  # type: ignore[no-redef]

MINORS = ["2.7", *(f"3.{number}" for number in range(4, 15))]


def facts(root: Path) -> dict[str, Any]:
    """Return the facts of the project in the folder ``root`` by name, as values of JSON. Raises ValueError."""
    pyproject = read_pyproject(root)
    tool = pyproject.get("tool", {})
    tables = [from_project(pyproject.get("project", {})), from_poetry(tool.get("poetry", {}))]
    tables += [from_setup_cfg(root), from_setup_py(root)]
    declared: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            declared.setdefault(key, value)
    return {
        **from_build_system(pyproject),
        **described(root, declared),
        **shipped(root, tool, declared),
        **version_source(root, tool),
    }


def read_pyproject(root: Path) -> dict[str, Any]:
    """Return the tables of pyproject.toml, none without the file. Raises ValueError."""
    file = root / "pyproject.toml"
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}


def from_build_system(pyproject: dict[str, Any]) -> dict[str, Any]:
    """Return the build backend, and whether a requirement of the build provides it."""
    table = pyproject.get("build-system", {})
    if "build-backend" not in table or "backend-path" in table:
        return {}
    backend = table["build-backend"]
    names = [re.split(r"[^\w.-]", item.strip())[0] for item in table.get("requires", [])]
    provided = [name for name in names if backend.startswith((name.replace("-", "_"), name.replace("-", ".")))]
    return {"build backend": backend, "build requirement": sorted(canonicalize_name(name) for name in provided)}


def from_project(table: dict[str, Any]) -> dict[str, Any]:
    """Return what the table [project] declares."""
    entries = {"python": table.get("requires-python"), "dependencies": table.get("dependencies")}
    readme = table.get("readme")
    entries["readme"] = readme.get("file") if isinstance(readme, dict) else readme
    commands = {**table.get("scripts", {}), **table.get("gui-scripts", {})}
    entries["commands"] = commands or None
    return {key: value for key, value in entries.items() if value is not None}


def from_poetry(table: dict[str, Any]) -> dict[str, Any]:
    """Return what the table [tool.poetry] declares that [project] may lack."""
    scripts = {name: value for name, value in table.get("scripts", {}).items() if isinstance(value, str)}
    names = [name for name in table.get("dependencies", {}) if name != "python"]
    entries = {"commands": scripts or None, "dependencies": names or None}
    entries["readme"] = table["readme"] if isinstance(table.get("readme"), str) else None
    return {key: value for key, value in entries.items() if value is not None}


def from_setup_cfg(root: Path) -> dict[str, Any]:
    """Return what setup.cfg declares."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(root / "setup.cfg", encoding="utf-8")
    except configparser.Error as error:
        raise ValueError(str(error)) from None

    def lines(section: str, key: str) -> list[str] | None:
        text = parser.get(section, key, fallback=None)
        return None if text is None else [line.strip() for line in re.split(r"[\n,]", text) if line.strip()]

    scripts = parser.get("options.entry_points", "console_scripts", fallback=None)
    requires = parser.get("options", "install_requires", fallback=None)
    entries: dict[str, Any] = {
        "python": parser.get("options", "python_requires", fallback=None),
        "dependencies": requires and [line.strip() for line in requires.splitlines() if line.strip()],
        "commands": scripts and command_table(scripts.splitlines()),
        "modules": lines("options", "py_modules"),
    }
    packages: Any = lines("options", "packages")
    if packages and packages[0].startswith("find"):
        options = {key: lines("options.packages.find", key) for key in ("where", "include", "exclude")}
        entries["packages"] = {"find": {key: value for key, value in options.items() if value}}
    else:
        entries["packages"] = packages
    folders = lines("options", "package_dir")
    entries["folders"] = folders and {key.strip(): value.strip() for key, value in (f.split("=", 1) for f in folders)}
    if parser.has_section("options.package_data"):
        entries["data"] = {key: lines("options.package_data", key) for key in parser.options("options.package_data")}
    return {key: value for key, value in entries.items() if value is not None}


def from_setup_py(root: Path) -> dict[str, Any]:
    """Return what the call of ``setup`` in setup.py declares by literals."""
    file = root / "setup.py"
    if not file.is_file():
        return {}
    calls = [node for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, ast.Call)]
    call = next((node for node in calls if ast.unparse(node.func).split(".")[-1] == "setup"), None)
    values = {item.arg: literal(item.value) for item in (call.keywords if call else []) if item.arg}
    scripts = values.get("entry_points")
    scripts = scripts.get("console_scripts") if isinstance(scripts, dict) else None
    entries = {
        "python": values.get("python_requires"),
        "dependencies": values.get("install_requires"),
        "commands": command_table([scripts] if isinstance(scripts, str) else scripts) if scripts else None,
        "packages": values.get("packages"),
        "modules": values.get("py_modules"),
        "folders": values.get("package_dir"),
        "data": values.get("package_data"),
    }
    return {key: value for key, value in entries.items() if value is not None}


def literal(node: ast.expr) -> Any:
    """Return the value of a literal, ``{"find": options}`` for find_packages, None for other code."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "find_packages":
        options = {item.arg: literal(item.value) for item in node.keywords}
        if node.args:
            options["where"] = literal(node.args[0])
        if None in options.values():
            return None
        return {"find": {key: [value] if isinstance(value, str) else value for key, value in options.items()}}
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def command_table(lines: list[str]) -> dict[str, str]:
    """Return commands from lines ``name = module:function``."""
    pairs = [line.split("=", 1) for line in lines if "=" in line]
    return {name.strip(): target.strip() for name, target in pairs}


def described(root: Path, declared: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that are only declared: Python versions, dependencies, commands, readme."""
    entries: dict[str, Any] = {}
    if "python" in declared:
        try:
            admitted = SpecifierSet(declared["python"])
        except InvalidSpecifier as error:
            raise ValueError(str(error)) from None
        entries["python"] = [minor for minor in MINORS if admitted.contains(minor + ".99") or admitted.contains(minor)]
    if isinstance(declared.get("dependencies"), list):
        try:
            names = {canonicalize_name(Requirement(item).name) for item in declared["dependencies"]}
        except InvalidRequirement as error:
            raise ValueError(str(error)) from None
        entries["dependencies"] = sorted(names)
    if declared.get("commands"):
        entries["commands"] = {name: re.sub(r"\s", "", target) for name, target in sorted(declared["commands"].items())}
    if "readme" in declared:
        entries["readme"] = declared["readme"] if (root / declared["readme"]).is_file() else None
    return entries


def shipped(root: Path, tool: dict[str, Any], declared: dict[str, Any]) -> dict[str, Any]:
    """Return packages, single modules and data files of a wheel, as far as the configuration names them."""
    table = tool.get("setuptools", {})
    packages = table.get("packages", declared.get("packages"))
    folders = table.get("package-dir", declared.get("folders") or {})
    entries: dict[str, Any] = {}
    if packages is not None:
        names = find_packages(root, packages["find"], folders) if isinstance(packages, dict) else packages
        places = {name: place(root, name, folders) for name in names}
        if isinstance(packages, dict):
            where = (packages["find"].get("where") or [folders.get("", ".")])[0]
            places = {name: root / where / name.replace(".", "/") for name in names}
        entries["packages"] = sorted(name for name, folder in places.items() if folder.is_dir())
        data = table.get("package-data", declared.get("data"))
        if isinstance(data, dict):
            entries["data files"] = sorted(data_files(root, places, data))
    modules = table.get("py-modules", declared.get("modules"))
    if modules:
        base = root / folders.get("", ".")
        entries["modules"] = sorted(name for name in modules if (base / (name.replace(".", "/") + ".py")).is_file())
    entries.update(shipped_by_folder(root, tool))
    return entries


def shipped_by_folder(root: Path, tool: dict[str, Any]) -> dict[str, Any]:
    """Return the packages that hatch, flit or poetry ship."""
    wheel = tool.get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    folders = wheel.get("packages", wheel.get("only-include"))
    if folders is None and "name" in tool.get("flit", {}).get("module", {}):
        name = tool["flit"]["module"]["name"].replace(".", "/")
        folders = [name, "src/" + name, name + ".py", "src/" + name + ".py"]
    if folders is None and isinstance(tool.get("poetry", {}).get("packages"), list):
        folders = [os.path.join(item.get("from", ""), item["include"]) for item in tool["poetry"]["packages"]]
    if folders is None:
        return {}
    return {"shipped folders": sorted(folder for folder in folders if (root / folder).exists())}


def place(root: Path, name: str, folders: dict[str, str]) -> Path:
    """Return the folder of a package by the table of package folders."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in folders:
            return root.joinpath(folders[".".join(parts[:length])], *parts[length:])
    return root.joinpath(folders.get("", ""), *parts)


def find_packages(root: Path, options: dict[str, Any], folders: dict[str, str]) -> list[str]:
    """Return the packages below a folder, as setuptools finds them."""
    base = root / (options.get("where") or [folders.get("", ".")])[0]
    names = []
    for folder, children, files in os.walk(base, followlinks=True):
        children[:] = sorted(child for child in children if "." not in child)
        relative = Path(folder).relative_to(base).parts
        if relative and "__init__.py" not in files:
            children[:] = []
        elif relative:
            names.append(".".join(relative))

    def listed(name: str, patterns: list[str]) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    include, exclude = options.get("include") or ["*"], options.get("exclude") or []
    return [name for name in names if listed(name, include) and not listed(name, exclude)]


def data_files(root: Path, places: dict[str, Path], data: dict[str, list[str]]) -> Iterator[str]:
    """Return the files that the patterns of package data select, relative to ``root``."""
    for name, folder in places.items():
        for key in ("", "*", name):
            for pattern in data.get(key) or []:
                for file in folder.glob(pattern) if not pattern.startswith("/") else []:
                    if file.is_file():
                        yield file.relative_to(root).as_posix()


def version_source(root: Path, tool: dict[str, Any]) -> dict[str, Any]:
    """Return where the build finds the version, None where it does not."""
    attribute = tool.get("setuptools", {}).get("dynamic", {}).get("version", {})
    attribute = attribute.get("attr") if isinstance(attribute, dict) else None
    path = tool.get("hatch", {}).get("version", {}).get("path")
    if attribute:
        module, _, name = attribute.rpartition(".")
        files = [base / end for base in (root, root / "src") for end in module_files(module)]
        texts = [file.read_text("utf-8") for file in files if file.is_file()]
        return {"version source": attribute if any(re.search(rf"(?m)^{name}\b", text) for text in texts) else None}
    return {"version source": path if (root / path).is_file() else None} if path else {}


def module_files(module: str) -> list[str]:
    """Return the places of a module's file."""
    stem = module.replace(".", "/")
    return [stem + ".py", stem + "/__init__.py"]
