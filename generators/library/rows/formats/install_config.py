"""Environments that rows state in ``install_config``, as Specifications.

Two shapes exist. SWE-rebench names a Python version, packages and one command line each for building and testing, as
SWE-bench's own table does (repository SWE-rebench/SWE-bench-fork, ``swebench/harness/test_spec/python.py``):
``python``, ``packages``, ``pip_packages``, ``reqs_path``, ``env_yml_path``, ``pre_install``, ``install``,
``test_cmd``. SWE-rebench V2 names a base image and lists of commands (repository SWE-rebench/SWE-rebench-V2,
``scripts/build_instance_images.py`` and ``base_dockerfiles/``): ``base_image_name``, ``install``, ``test_cmd``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .....environments.snapshots.builder.specification import Specification
from .fields import Row

_BASE_IMAGE = re.compile(r"python[_:-]?(?:base[_-]?)?(\d)[._]?(\d{1,2})")
AS_OF = "2025-04-30"
"""Packages without a pin are those of this day, the month before SWE-rebench was published."""
AS_OF_V2 = "2026-02-28"
"""The same for V2, whose builder was published in February and March 2026."""
_WITH_VALUE = {"-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-binary"}
_PIP, _CONDA = "requirements.txt", "environment.yml"
OTHER_COMMANDS = "set-up commands that are not run here (system packages, scripts)"
NOT_PYTEST = "a test command other than pytest; pytest runs its tests"
CONDA = "a conda environment file, which is not read; the project's own requirements decide"


@dataclass
class _Installed:
    """What command lines of pip install."""

    requirements: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)
    others: bool = False
    """Whether there are commands of another kind."""


def stated_environment(row: Row, repo: str, created_at: str) -> tuple[Specification | None, list[str]]:
    """Return the environment that the row's ``install_config`` states, and what of it cannot be taken over.

    ``requirements``, a column of SWE-rebench, holds the packages that were installed then; they take the place of the
    loose names. Without it, packages are those of the day when the data set's environments were built, or of the fix
    when that is later. Raises RowError for a config of another shape.
    """
    config = row.values.get("install_config")
    if isinstance(config, str) and config.strip():
        try:
            config = json.loads(config)
        except ValueError as error:
            raise row.error("has an install_config that is not JSON", "write it as a JSON object") from error
    if not config:
        return None, []
    if not isinstance(config, Mapping):
        raise row.error("has an install_config that is not an object", "write it as a JSON object")
    python = _python(config)
    if not python:
        raise row.error("has an install_config without a Python version", 'add "python": "3.9" to it')
    installed = _installed(_commands(row, config, "install"))
    prepared = _commands(row, config, "pre_install")
    edits = [line for line in prepared if line.startswith("sed -i")]
    packages = str(config.get("packages") or "")
    files = [*_texts(config.get("reqs_path")), *([_PIP] if packages == _PIP and not config.get("reqs_path") else [])]
    pins = _pins(row.optional("requirements"), repo)
    loose = [] if packages in ("", _PIP, _CONDA) else shlex.split(packages)
    loose += [*_texts(config.get("pip_packages")), *installed.requirements]
    notes = [OTHER_COMMANDS] if installed.others or len(edits) < len(prepared) else []
    notes += [CONDA] if packages == _CONDA and not pins else []
    notes += [] if "pytest" in " ".join(_commands(row, config, "test_cmd")) else [NOT_PYTEST]
    return Specification(
        repo=repo,
        version=row.optional("version") or python,
        python=python,
        requirements=tuple(dict.fromkeys(pins or [_conda_as_pip(text) for text in loose])),
        requirement_files=() if pins else tuple(dict.fromkeys([*files, *installed.files])),
        extras=() if pins else tuple(dict.fromkeys(installed.extras)),
        edits=tuple(edits),
        as_of="" if pins else max(created_at[:10], AS_OF if config.get("python") else AS_OF_V2),
        arguments=tuple(_warnings(_commands(row, config, "test_cmd"))),
        env=tuple(sorted((str(name), str(value)) for name, value in _mapping(config.get("env_vars")).items())),
    ), notes


def _python(config: Mapping[str, Any]) -> str:
    stated = config.get("python")
    if stated:
        return str(stated) if re.fullmatch(r"3\.\d{1,2}(\.\d+)?", str(stated)) else ""
    image = _BASE_IMAGE.search(str(config.get("base_image_name") or config.get("image_name") or ""))
    return f"{image[1]}.{image[2]}" if image else ""


def _commands(row: Row, config: Mapping[str, Any], name: str) -> list[str]:
    """Return single commands: the list, or the command line, cut at ``&&``, ``;`` and line ends."""
    value = config.get(name)
    if value is not None and not isinstance(value, str | list | tuple):
        raise row.error(f"has an install_config whose {name} is not text", "write a command or a list of commands")
    lines = [part.strip() for text in _texts(value) for part in re.split(r"&&|;|\n", text)]
    return [line for line in lines if line]


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    return [str(item) for item in value if item] if isinstance(value, list | tuple) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return {name: item for name, item in value.items() if item is not None} if isinstance(value, Mapping) else {}


def _installed(commands: Iterable[str]) -> _Installed:
    """Read ``pip install`` commands; everything else is only counted."""
    installed = _Installed()
    for command in commands:
        try:
            words = shlex.split(command)
        except ValueError:
            words = []
        if "install" not in words or not any(re.fullmatch(r"(\S*/)?(uv|pip[\d.]*)", word) for word in words[:4]):
            installed.others = installed.others or not command.startswith(("export ", "cd "))
            continue
        arguments = iter(words[words.index("install") + 1 :])
        for word in arguments:
            if word in ("-r", "--requirement"):
                installed.files.append(next(arguments, ""))
            elif word in _WITH_VALUE:
                next(arguments, "")
            elif extras := re.fullmatch(r"\.(?:/)?\[([^\]]+)\]", word):
                installed.extras += [name.strip() for name in extras[1].split(",")]
            elif not word.startswith(("-", ".", "/")) and "://" not in word:
                installed.requirements.append(word)
    tools = ("pip", "setuptools", "wheel")
    installed.requirements = [text for text in installed.requirements if re.split(r"\W", text)[0] not in tools]
    return installed


def _pins(text: str, repo: str) -> list[str]:
    """Return the exact pins of a frozen environment, without the project itself and packages from local paths."""
    project = repo.partition("/")[2].lower().replace("_", "-")
    pins = [line.split("#")[0].strip() for line in text.splitlines()]
    pins = [line for line in pins if re.match(r"^[\w.-]+(\[[\w,.-]+\])?==\S+", line)]
    return [line for line in pins if line.partition("==")[0].lower().replace("_", "-") != project]


def _conda_as_pip(text: str) -> str:
    """Return conda's ``numpy=1.19`` as pip writes it."""
    return re.sub(r"(?<![=<>!~])=(?!=)(.+)$", r"==\1", text) if re.fullmatch(r"[\w.-]+=[\w.*]+", text) else text


def _warnings(commands: Iterable[str]) -> list[str]:
    """Return the filters of warnings of a test command; its other options concern the report."""
    words = [word for command in commands for word in command.split()]
    return [part for word, value in zip(words, words[1:], strict=False) if word == "-W" for part in (word, value)]
