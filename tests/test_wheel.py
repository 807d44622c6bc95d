"""The wheel holds the package, all of it, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

NOT_SHIPPED = ("tests/", "benchmarks/", "research/", "examples/", ".ci/", "trainers/integrations/packages/")
NOT_CODE = {"py.typed", "generators/selection/benchmark_repositories.toml"}
PAGE = (".html", ".css", ".js")


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory, checkout_in: Callable[[Path], Path]) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    source = checkout_in(folder / "x-y")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    with zipfile.ZipFile(next(folder.glob("etude-*.whl"))) as wheel:
        return set(wheel.namelist())


def test_the_wheel_is_the_tracked_package(contents: set[str], tracked: list[str]) -> None:
    shipped = {name for name in contents if ".dist-info/" not in name}
    expected = {
        f"etude/{name}"
        for name in tracked
        if (
            name.endswith((".py", *PAGE))
            or name in NOT_CODE
            or name.startswith(("recipes/", "cli/scaffold/templates/"))
        )
        and not name.startswith(NOT_SHIPPED)
    }
    assert shipped == expected


def test_the_wheel_carries_licence_and_command(contents: set[str]) -> None:
    metadata = {name.partition(".dist-info/")[2] for name in contents if ".dist-info/" in name}
    assert {"licenses/LICENSE", "entry_points.txt", "METADATA", "RECORD"} <= metadata


def test_every_folder_with_code_is_a_listed_package(root: Path, tracked: list[str]) -> None:
    listed = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {str(Path(name).parent) for name in tracked if name.endswith(".py") and not name.startswith(NOT_SHIPPED)}
    assert sorted(listed) == sorted("etude" if f == "." else f"etude.{f.replace('/', '.')}" for f in folders)


def test_one_tested_set_is_pinned(root: Path) -> None:
    lines = [line for line in (root / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(line.count("==") == 1 and " " not in line for line in lines)
    pins = dict(line.lower().split("==") for line in lines)
    assert (pins["openenv"], pins["trl"], pins["torch"], pins["verifiers"]) == ("0.10.0", "1.16.0", "2.13.0", "0.3.1")
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [*declared["dependencies"], *declared["optional-dependencies"]["server"]]
    wanted += [*declared["optional-dependencies"]["dev"], *declared["optional-dependencies"]["train"]]
    names = {requirement.partition(">")[0].partition("[")[0].lower() for requirement in wanted}
    assert names - {name.replace("_", "-") for name in pins} == set()
