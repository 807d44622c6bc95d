"""What is loaded, when, and under which name."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HEAVY = {"httpx", "openenv", "torch", "websockets", "fastapi", "transformers", "docker", "git", "tree_sitter"}


def loaded_by(code: str) -> set[str]:
    """Top-level modules that ``code`` adds to a fresh interpreter's."""
    script = (
        "import sys, json\nbefore = set(sys.modules)\n"
        f"{code}\n"
        "print('\\n' + json.dumps(sorted({name.split('.')[0] for name in set(sys.modules) - before})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_etude_loads_nothing_else() -> None:
    third_party = loaded_by("import etude") - set(sys.stdlib_module_names) - {"etude"}
    assert third_party == set()


def test_help_loads_no_records() -> None:
    assert loaded_by("from etude.cli.app import main\nmain(['--help'])") & {*HEAVY, "pydantic"} == set()


# typer itself may load pydantic to read a command's options.
@pytest.mark.parametrize("arguments", [["generate", "--help"], ["serve", "--help"], ["genrate"], ["run", "--n", "x"]])
def test_help_and_usage_errors_load_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(f"from etude.cli.app import main\nmain({arguments!r})") & HEAVY == set()


def test_records_need_pydantic_alone() -> None:
    loaded = loaded_by("import etude.models")
    assert "pydantic" in loaded
    assert loaded & HEAVY == set()


def test_a_clone_in_a_folder_of_any_name_imports_and_collects(
    tmp_path: Path, checkout_in: Callable[[Path], Path]
) -> None:
    clone = checkout_in(tmp_path / "x-y")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "etude").symlink_to(clone)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "path"), "PYTHONDONTWRITEBYTECODE": "1"}
    where = subprocess.run(
        [sys.executable, "-c", "import etude.models as m; print(m.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(where.stdout.strip()).resolve().is_relative_to(clone)
    pytest_script = "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"
    collected = subprocess.run(
        [sys.executable, "-P", "-c", pytest_script, "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert collected.returncode == 0, collected.stdout.partition(" ERRORS ")[2][-4000:] + collected.stderr[-2000:]


def test_the_checkout_is_loaded_under_one_name(root: Path, tracked: list[str]) -> None:
    """Runs last (see conftest): nothing from the checkout is in this process under another name than ``etude``."""
    importlib.import_module("etude.models")
    product = {root / name for name in tracked if name.endswith(".py") and not name.startswith("tests/")}
    strangers = {
        name: file
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None))
        and Path(file).resolve() in product
        and name.partition(".")[0] != "etude"
    }
    assert strangers == {}
