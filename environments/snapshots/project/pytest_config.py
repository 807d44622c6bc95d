"""A project's own pytest configuration, without the options that would disturb a measured run."""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from ..source.project_files import read_ini, read_pyproject, read_toml

# Options dropped from addopts: reports, order, repetition, parallelism, caching, linters, strictness about config.
# A separate argument may follow the first ones, but not the others.
_DROPPED_WITH_VALUE = frozenset(
    (
        "--cov --cov-report --cov-config --cov-fail-under --cov-context -n --numprocesses --dist --maxprocesses --tx "
        "--maxfail --verbosity --tb --color --durations --durations-min --show-capture --junitxml --junit-xml "
        "--junit-prefix --html --css --report-log --log-file --cache-show --reruns --reruns-delay --timeout "
        "--timeout-method --basetemp --rootdir -c --confcutdir --benchmark-columns --benchmark-group-by "
        "--benchmark-sort --randomly-seed"
    ).split()
)
_DROPPED_FLAGS = frozenset(
    (
        "--no-cov --no-cov-on-fail --forked -x --exitfirst -v --verbose -q --quiet -l --showlocals --no-header "
        "--no-summary --full-trace --self-contained-html --cache-clear --lf --last-failed --ff --failed-first --nf "
        "--sw --stepwise --strict --strict-markers --strict-config --pdb --flake8 --mypy --pylint --black --isort "
        "--ruff --ruff-format --pycodestyle --pydocstyle --codestyle --checkdocs --instafail --random-order "
        "--force-sugar"
    ).split()
)
_DROPPED_PREFIXES = ("--cov", "--benchmark-", "--randomly")
_REPORT = re.compile(r"^-(r[A-Za-z]*|[vqlx]{2,}|n\w+)$")
# Plugins that report, reorder, repeat, parallelise or lint: never loaded.
UNWANTED_PLUGINS = frozenset(
    "pytest-cov pytest-xdist pytest-randomly pytest-random-order pytest-rerunfailures pytest-sugar pytest-html "
    "pytest-metadata pytest-forked pytest-instafail pytest-clarity pytest-icdiff pytest-mypy pytest-flake8 "
    "pytest-black pytest-isort pytest-pylint pytest-ruff pytest-codspeed pytest-profiling pytest-reportlog "
    "pytest-retry pytest-enabler pytest-checkdocs pytest-github-actions-annotate-failures pytest-pycodestyle "
    "pytest-pydocstyle pytest-perf pytest-timeout pytest-parallel pytest-repeat pytest-reverse pytest-order "
    "pytest-travis-fold pytest-pretty pytest-mypy-plugins pytest-custom-exit-code pytest-picked pytest-watch "
    "pytest-testmon pytest-memray nbval".split()
)
_QUIET_WARNINGS = ("ignore::pytest.PytestConfigWarning", "ignore::pytest.PytestUnknownMarkWarning")


# Options, by prefix where they end in ``*``, and the distributions that define them.
_OPTION_OWNERS = {
    "--cov*": "pytest-cov",
    "--no-cov*": "pytest-cov",
    "-n": "pytest-xdist",
    "--numprocesses": "pytest-xdist",
    "--dist": "pytest-xdist",
    "--timeout*": "pytest-timeout",
    "--reruns*": "pytest-rerunfailures",
    "--randomly*": "pytest-randomly",
    "--random-order*": "pytest-random-order",
    "--benchmark*": "pytest-benchmark",
    "--html": "pytest-html",
    "--asyncio-mode": "pytest-asyncio",
    "--ds": "pytest-django",
    "--doctest-plus": "pytest-doctestplus",
}


@dataclass(frozen=True)
class PytestConfig:
    """Settings of the file that pytest itself would read."""

    file: str | None = None
    """Path in the tree; None when the project configures nothing."""
    addopts: tuple[str, ...] = ()
    """Command-line options that every run gets."""
    testpaths: tuple[str, ...] = ()
    """Places of the tests."""
    python_files: tuple[str, ...] = ()
    """Patterns of test files."""
    required_plugins: tuple[str, ...] = ()
    """Requirements without which pytest refuses to run."""
    minversion: str = ""
    """Oldest version of pytest that may read the file."""
    strict_warnings: bool = False
    """Whether every warning is an error."""
    keys: frozenset[str] = frozenset()
    """Names of all settings."""
    native: bool = False
    """Whether the settings are in TOML's own types, which pytest reads from version 9 on."""


def read_config(tree: Path) -> PytestConfig:
    """Return the first configuration that pytest itself would take."""
    for name in ("pytest.toml", ".pytest.toml"):
        if (tree / name).is_file():
            return replace(_parsed(name, read_toml(tree / name).get("pytest", {})), native=True)
    for name, section in (("pytest.ini", "pytest"), (".pytest.ini", "pytest")):
        if (tree / name).is_file():
            return _parsed(
                name, dict(read_ini(tree / name)[section]) if read_ini(tree / name).has_section(section) else {}
            )
    native = read_pyproject(tree).get("tool", {}).get("pytest", {})
    if (table := native.pop("ini_options", None)) is not None:
        return _parsed("pyproject.toml", table)
    if native:
        return replace(_parsed("pyproject.toml", native), native=True)
    for name, section in (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        parser = read_ini(tree / name)
        if parser.has_section(section):
            return _parsed(name, dict(parser[section]))
    return PytestConfig()


def _parsed(name: str, table: dict[str, Any]) -> PytestConfig:
    def words(key: str) -> tuple[str, ...]:
        value = table.get(key, "")
        if isinstance(value, list):
            return tuple(str(item) for item in value)
        try:
            return tuple(shlex.split(str(value), comments=False))
        except ValueError:
            return tuple(str(value).split())

    warnings = table.get("filterwarnings", "")
    lines = warnings if isinstance(warnings, list) else str(warnings).splitlines()
    return PytestConfig(
        file=name,
        addopts=words("addopts"),
        testpaths=words("testpaths"),
        python_files=words("python_files"),
        required_plugins=words("required_plugins"),
        minversion=str(table.get("minversion", "")),
        strict_warnings=any(str(line).strip() == "error" for line in lines),
        keys=frozenset(table),
    )


def usable_options(addopts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split an ``addopts`` value into the options of a measured run and the plugins that ``-p`` names."""
    chosen: list[str] = []
    plugins: list[str] = []
    words = list(addopts)
    while words:
        word = words.pop(0)
        name, equals, _ = word.partition("=")
        if word == "-p" or (word.startswith("-p") and not word.startswith("--")):
            plugin = words.pop(0) if word == "-p" and words else word[2:].lstrip("=")
            if plugin and not plugin.startswith("no:"):
                plugins.append(plugin)
        elif name in _DROPPED_WITH_VALUE:
            if not equals and words and not words[0].startswith("-"):
                words.pop(0)
        elif name in _DROPPED_FLAGS or name.startswith(_DROPPED_PREFIXES) or _REPORT.match(word):
            continue
        elif word.startswith("-"):
            chosen.append(word)
            if not equals and words and not words[0].startswith("-"):
                chosen.append(words.pop(0))
        # A bare path in addopts is a test location; the command line names those.
    return chosen, plugins


def refused_plugins(addopts: Sequence[str]) -> set[str]:
    """Return the names of the plugins that ``-p no:NAME`` excludes."""
    return {match.group(1) for word in addopts if (match := re.match(r"(?:-p)?no:(.+)$", word))}


def options(config: PytestConfig, extra: Sequence[str], deselect: Sequence[str]) -> list[str]:
    """Return the ini overrides that replace the project's own ``addopts`` and what makes pytest refuse to run."""
    usable, _ = usable_options(config.addopts)
    quiet = [part for text in _QUIET_WARNINGS for part in ("-W", text)] if config.strict_warnings else []
    words = [*usable, *quiet, *extra, *(f"--deselect={test}" for test in deselect)]
    overrides = [f"addopts={shlex.join(words)}"] if words or config.addopts else []
    overrides += ["required_plugins="] if config.required_plugins else []
    return [
        *overrides,
        *(f"{key}=false" for key in ("strict_markers", "strict_config") if {"strict", key} & config.keys),
    ]


def plugin_requirements(config: PytestConfig) -> list[str]:
    """Return the distributions that the configuration requires: ``required_plugins`` and the owners of its options.

    Plugins that a measured run never loads are among them: without them a plain ``pytest`` refuses the options.
    """
    named = list(config.required_plugins)
    words = [word.partition("=")[0] for word in config.addopts]
    named += [name for pattern, name in _OPTION_OWNERS.items() if fnmatch.filter(words, pattern)]
    by_key = {"asyncio_mode": "pytest-asyncio", "trio_mode": "pytest-trio", "DJANGO_SETTINGS_MODULE": "pytest-django"}
    named += [name for key, name in by_key.items() if key in config.keys]
    return [text for text in dict.fromkeys(named) if canonicalize_name(text)]


def with_words(options: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return ini overrides whose ``addopts`` also contains ``words``."""
    present = _addopts(options)
    return [f"addopts={shlex.join([*present, *(word for word in words if word not in present)])}", *_others(options)]


def without_words(options: Sequence[str], unwanted: Sequence[str]) -> list[str]:
    """Return ini overrides whose ``addopts`` lacks the ``unwanted`` words."""
    remaining, others = [word for word in _addopts(options) if word not in unwanted], _others(options)
    return [f"addopts={shlex.join(remaining)}", *others] if len(others) < len(options) else others


def _addopts(options: Sequence[str]) -> list[str]:
    return [word for option in options if option.startswith("addopts=") for word in shlex.split(option[8:])]


def _others(options: Sequence[str]) -> list[str]:
    return [option for option in options if not option.startswith("addopts=")]
