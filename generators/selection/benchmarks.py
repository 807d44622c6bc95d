"""The repositories of public benchmarks, matched by repository and by the name of the distribution."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LIST = "benchmark_repositories.toml"
_GITHUB = re.compile(r"github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?(?:[@#/].*)?$")


@dataclass(frozen=True)
class Benchmark:
    """One entry of the list."""

    name: str  # the entry's key, such as ``swe-bench``
    title: str  # the data sets that it covers
    source: str  # the place where the names were read
    repositories: Mapping[str, tuple[str, ...]]  # owner/name on GitHub to names on PyPI


@cache
def benchmarks() -> tuple[Benchmark, ...]:
    """Return the entries of the list, in its order."""
    table = tomllib.loads(Path(__file__).with_name(LIST).read_text("utf-8"))
    return tuple(
        Benchmark(
            name,
            entry["title"],
            entry["source"],
            {repository: tuple(names) for repository, names in entry["repositories"].items()},
        )
        for name, entry in table.items()
    )


def benchmarks_of(package: str, spec: str = "") -> list[str]:
    """Return the names of the benchmarks that a package belongs to, in the order of the list.

    ``package`` is the name of its distribution, or ``owner/name`` of its repository. ``spec`` is the source: the
    address of a repository in it counts too.
    """
    address = _GITHUB.search(spec)
    repositories = {package.lower(), *([address[1].lower()] if address else [])}
    return [
        benchmark.name
        for benchmark in benchmarks()
        if any(
            repository.lower() in repositories or normalized(package) in names
            for repository, names in benchmark.repositories.items()
        )
    ]


def normalized(package: str) -> str:
    """Return the name of a distribution as PyPI compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()
