"""CONTRIBUTING.md: its commands are run, in order, in a copy of the checkout, and its edits are made there.

The ``make`` targets run the whole test suite, so they are only looked up (``make --dry-run``).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from helpers.paths import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in TEXT.split("\n## ")[1:]}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EDITED = [name for name in SECTIONS if name.startswith("Add ")]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, checkout_in: Callable[[Path], Path]) -> Path:
    return checkout_in(tmp_path_factory.mktemp("contributing") / "etude")


@pytest.fixture(scope="module")
def variables(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables in which ``etude`` and ``python`` are those of the copy."""
    commands = tmp_path_factory.mktemp("bin")
    (commands / "etude").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m etude.cli "$@"\n')
    (commands / "etude").chmod(0o755)
    return {**os.environ, "PYTHONPATH": str(checkout.parent), "PATH": f"{commands}:{os.environ['PATH']}"}


def run(command: str, checkout: Path, variables: Mapping[str, str]) -> None:
    if command.startswith("make "):
        command = command.replace("make ", "make --dry-run ")
    elif command.startswith(". "):
        return  # the tests run in an activated environment already
    done = subprocess.run(command, shell=True, cwd=checkout, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def edit(block: str, checkout: Path, language: str) -> None:
    """Write a whole file, or replace in one file the lines of ``block`` without ``+`` by those without ``-``."""
    header, _, body = block.partition("\n")
    file = checkout / header.removeprefix("+++ ").removeprefix("# ")
    if language == "python":
        file.write_text(body)
        return
    lines = body.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if not line.startswith("+"))
    after = "".join(line[1:] for line in lines if not line.startswith("-"))
    text = file.read_text()
    assert text.count(before) == 1, f"{header}: the lines to change are not in the file once"
    file.write_text(text.replace(before, after))


@pytest.mark.parametrize("section", SECTIONS)
def test_every_command_and_edit_of_a_section_works(section: str, checkout: Path, variables: dict[str, str]) -> None:
    for language, block in BLOCK.findall(SECTIONS[section]):
        if language:
            edit(block, checkout, language)
        else:
            for command in block.splitlines():
                run(command.partition("  #")[0], checkout, variables)


def test_the_edited_checkout_has_no_import_circle_and_keeps_its_floors(
    checkout: Path, variables: dict[str, str]
) -> None:
    assert (checkout / "generators" / "library" / "mutation" / "off_by_one.py").is_file()
    run("git init -q", checkout, variables)
    run(f'"{sys.executable}" -m pytest -q -p no:cacheprovider tests/test_floors.py', checkout, variables)


def test_the_table_of_tests_names_a_test_that_runs(variables: dict[str, str]) -> None:
    single = re.search(r"`\.venv/bin/pytest (tests/\S+::\S+)`", TEXT)
    assert single is not None
    run(f'"{sys.executable}" -m pytest -q -p no:cacheprovider {single[1]}', ROOT, variables)


def test_the_make_targets_that_are_named_exist(variables: dict[str, str]) -> None:
    targets = sorted(set(re.findall(r"`make ([\w-]+)`", TEXT)))
    assert "test" in targets
    for target in targets:
        run(f"make {target}", ROOT, variables)


@pytest.mark.parametrize(
    "document", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "docs/benchmarks.md", "docs/limits.md"]
)
def test_every_path_that_a_document_names_exists(document: str, tracked: list[str]) -> None:
    text = (ROOT / document).read_text()
    folders = {str(parent) for name in tracked for parent in Path(name).parents}
    named = re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?)`", text) + re.findall(r"\]\(([\w./-]+)\)", text)
    assert named
    base = Path(document).parent
    missing = [
        name
        for name in named
        if name.rstrip("/") not in {*tracked, *folders}
        and str(Path(os.path.normpath(base / name))) not in {*tracked, *folders}
    ]
    assert not missing
