"""Blocks of README.md, docs/ and examples/: each is run, or says why it is not, and is then checked without being run.

Those marked `<!-- run -->` are run page by page, in an empty folder; ``helpers.doc_blocks`` explains the marks, and
``trainers/tiny_models/test_slow_blocks.py`` runs those that take minutes.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.command_syntax import syntax_problem
from helpers.doc_blocks import Block, all_blocks, arguments_of_etude, commands, problem_of, run_page
from helpers.paths import ROOT

import etude

BLOCKS = all_blocks()
QUICK = sorted({block.page for block in BLOCKS if block.marker == "run"})
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
FOLDERS = ("benchmarks/", "examples/", "recipes/", "research/", "tests/", "trainers/")
"""Folders of the checkout that commands name."""


def of_language(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


@pytest.mark.parametrize("page", QUICK)
def test_page_runs_in_an_empty_folder_when_its_blocks_are_typed_in_order(page: str, tmp_path: Path) -> None:
    run_page(page, ("run",), tmp_path)


def test_tutorial_has_blocks_that_are_run() -> None:
    marked = [block.marker for block in BLOCKS if block.page == "docs/tutorial.md" and block.language == "bash"]
    assert marked.count("run") >= 4 and "run: slow" in marked


def test_every_block_is_run_or_says_why_it_is_not() -> None:
    assert len(of_language("bash")) > 30 and len(of_language("python")) > 15
    problems = [f"{block.name}: {problem}" for block in BLOCKS if (problem := problem_of(block))]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("block", of_language("bash"), ids=lambda block: block.name)
def test_commands_of_a_block_would_be_understood(block: Block) -> None:
    checked = subprocess.run(["bash", "-n"], input=block.code, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    problems = [f"{' '.join(command)}: {problem}" for command in commands(block.code) for problem in refusals(command)]
    assert not problems, "\n".join(problems)


def refusals(command: list[str]) -> Iterator[str]:
    """Yield what would not work in a command: options of etude, targets of make, extras, files of the checkout."""
    arguments = arguments_of_etude(command)
    if arguments is not None and (problem := syntax_problem(arguments)):
        yield problem
    if command[0] == "make":
        yield from (f"there is no target {word}" for word in command[1:] if word not in TARGETS)
    for word in command:
        for extra in (re.fullmatch(r"etude\[([\w,-]+)\].*", word) or ["", ""])[1].split(","):
            if extra and extra not in EXTRAS:
                yield f"there is no extra {extra}"
        if word.startswith(FOLDERS) and not (ROOT / word).exists():
            yield f"there is no {word}"


def test_refusal_names_what_is_wrong_when_a_command_is_misspelled() -> None:
    wrong = {
        "etude genrate x --out y": "no command 'genrate'",
        "etude run --task drill": "--task",
        "etude run --tasks drill --limit many": "limit",
        "etude rescore": "missing",
        "etude sandbox chek bubblewrap": "no command 'chek'",
        "X=1 etude serve --prot 8000 | cat": "--prot",
        "torchrun --nproc-per-node 8 -m etude.cli trian a.toml": "no command 'trian'",
        "make no-such-target": "no-such-target",
        "pip install 'etude[trian]'": "trian",
        "python examples/no_such.py": "no_such",
    }
    for line, part in wrong.items():
        problems = [problem for command in commands(line) for problem in refusals(command)]
        assert problems and part in problems[0], (line, problems)
    assert not [problem for command in commands("etude run --tasks drill --limit 4") for problem in refusals(command)]


@pytest.mark.parametrize("block", of_language("python"), ids=lambda block: block.name)
def test_python_of_a_block_compiles_and_its_imports_exist(block: Block) -> None:
    compile(block.code, block.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    missing = [name for name in imported(block.code) if not exists(name)]
    assert not missing, missing


def imported(code: str) -> Iterator[str]:
    """Yield the names of Etude's modules and of their members that a block imports or reads from the package."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "etude")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "etude":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "etude":
            yield f"etude.{node.attr}"
    yield from (match[1] for match in re.finditer(r'"(etude(?:\.\w+)+):\w+"', code))


def exists(name: str) -> bool:
    """Return whether a dotted name is a module of Etude, or a name that its module defines; without importing torch."""
    parts = name.split(".")[1:]
    folder = ROOT.joinpath(*parts)
    if (folder / "__init__.py").is_file() or folder.with_suffix(".py").is_file():
        return True
    *module, member = parts
    folder = ROOT.joinpath(*module)
    file = folder / "__init__.py" if (folder / "__init__.py").is_file() else folder.with_suffix(".py")
    if not file.is_file():
        return False
    defined = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            defined |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    if member in defined:
        return True
    return "__getattr__" in defined and hasattr(importlib.import_module(".".join(["etude", *module])), member)


def test_import_is_reported_when_it_does_not_exist() -> None:
    assert exists("etude.client.connect") and exists("etude.load_tasks") and exists("etude.trainers.muon.Muon")
    assert not exists("etude.client.conect") and not exists("etude.load_taks") and not exists("etude.no_module.name")


@pytest.mark.parametrize("block", of_language("toml", "json"), ids=lambda block: block.name)
def test_configuration_of_a_block_parses(block: Block) -> None:
    assert {"toml": tomllib.loads, "json": json.loads}[block.language](block.code)


def test_reference_describes_modules_that_exist_and_every_public_name() -> None:
    described = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    assert [name for name in described if name != "etude" and not exists(name)] == []
    public = set(etude.__all__) - {"__version__", "make", "load_tasks"}
    homes = {getattr(etude, name).__module__ for name in public}
    assert "etude.models" in homes and homes <= set(described)
