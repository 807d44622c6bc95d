"""The generator ``migrate_dependency``: code for an older version of a dependency, found by the names that are gone."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import pytest
from helpers.light_checks import LIGHT

from etude.environments.snapshots.builder.environment import site_packages
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.upkeep.migrate_dependency import DependencyMigration
from etude.models import Task

MENU = '''\
"""Menus as text."""

import sys

from jinja2 import Environment

try:
    from jinja2 import pass_context
except ImportError:
    # Before 3.1.
    from jinja2 import contextfilter as pass_context


@pass_context
def priced(context, dish):
    """Return a dish with its price."""
    return f"{dish} {context['price']}"


def menu(dish, price):
    """Return a line of a menu."""
    environment = Environment()
    environment.filters["priced"] = priced
    return environment.from_string("{{ dish | priced }}").render(dish=dish, price=price)
'''
OTHERS = """\
try:
    from other.gone import a
except ImportError:
    from other.here import a

try:
    import tomllib
except ModuleNotFoundError:
    tomllib = None

try:
    from other.here import a as b
except ImportError:
    b = None

try:
    from other.here import missing
except ImportError:
    log = print

try:
    from other.here import missing
except ValueError:
    from other.here import a as missing

try:
    from other.lazy import anything
except ImportError:
    anything = None
"""
TESTS = """\
from menu import menu


def test_a_dish_has_its_price():
    assert menu("soup", 3) == "soup 3"


def test_a_price_may_be_text():
    assert menu("cake", "free") == "cake free"
"""
PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "menu"
version = "1.0"
license = {text = "MIT"}
dependencies = ["jinja2>=2.11"]
[tool.setuptools]
py-modules = ["menu", "others"]
"""
TEST = "tests/test_menu.py::test_a_dish_has_its_price"
INSTALLED = {
    "jinja2/__init__.py": "class Environment: ...\ndef pass_context(function): ...\n",
    "other/__init__.py": "",
    "other/here.py": "a = 1\n",
    "other/lazy.py": "def __getattr__(name): ...\n",
}


def write(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.fixture
def snapshot(tmp_path):
    tree, interpreter = tmp_path / "tree", SimpleNamespace(short="3.11")
    write(tree, {"menu.py": MENU, "others.py": OTHERS, "tests/test_menu.py": TESTS})
    folder = site_packages(tmp_path / "env", interpreter)
    write(folder, INSTALLED)
    for name in ("jinja2", "other"):
        record = "".join(f"{path},,\n" for path in INSTALLED if path.startswith(name))
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.1.6\n"
        write(folder, {f"{name}-3.1.6.dist-info/METADATA": metadata, f"{name}-3.1.6.dist-info/RECORD": record})
    baseline = SimpleNamespace(passed=[TEST], dropped={}, tests_of={}, at_import=[], covered=lambda test: {})
    return SimpleNamespace(
        path=tmp_path,
        tree=tree,
        interpreter=interpreter,
        recipe=SimpleNamespace(requirements=["jinja2==3.1.6 --hash=sha256:00", "other==2.0 --hash=sha256:00"]),
        source_roots=["menu.py", "others.py"],
        verifier=SimpleNamespace(python_path=["."], kind="pytest"),
        baseline=baseline,
    )


def candidates(snapshot, seed=0, **knobs):
    return list(DependencyMigration().candidates(snapshot, seed, parse_knobs(DependencyMigration.knobs, knobs)))


def test_a_dependency_is_proposed_when_a_branch_needs_names_that_it_lacks(snapshot):
    items = {item.migration.dependency: item for item in candidates(snapshot)}
    assert set(items) == {"jinja2", "other"}
    assert items["jinja2"].migration.version == "3.1.6" and items["jinja2"].entity == "menu.py::jinja2"


def test_only_the_branch_for_the_older_version_remains(snapshot):
    items = {item.migration.dependency: item for item in candidates(snapshot)}
    menu = items["jinja2"].exercise["menu.py"].decode()
    assert "from jinja2 import Environment\n\nfrom jinja2 import contextfilter as pass_context\n\n\n@pass_con" in menu
    others = items["other"].exercise["others.py"].decode()
    assert others.startswith("from other.gone import a\n\ntry:\n    import tomllib\n")
    assert others.removeprefix("from other.gone import a\n") == OTHERS.split("    from other.here import a\n", 1)[1]


def test_every_exercise_compiles_and_all_tests_decide(snapshot):
    for item in candidates(snapshot):
        for content in item.exercise.values():
            ast.parse(content)
        assert item.hidden_tests.affected == [TEST] and item.hidden_tests.policy == "visible"


def test_the_statement_gives_versions_and_files_and_not_the_names(snapshot):
    item = next(item for item in candidates(snapshot) if item.migration.dependency == "jinja2")
    text = item.statement.render(StatementContext("menu 1.0", [TEST], [], older="3.0.3"))
    for part in ("# Migrate to jinja2 3.1.6", "works with jinja2 3.0.3", "- `menu.py`", "1 test of the suite fails"):
        assert part in text
    assert "pass_context" not in text and "contextfilter" not in text


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = [tuple(item.entity for item in candidates(snapshot, seed)) for seed in (0, 0, *range(1, 9))]
    assert orders[0] == orders[1] and len(set(orders)) == 2


@pytest.mark.slow
def test_a_migration_becomes_a_task_when_an_older_version_passes(tmp_path):
    project = {"pyproject.toml": PROJECT, "menu.py": MENU, "others.py": "", "tests/test_menu.py": TESTS}
    write(tmp_path / "menu", project)
    knobs = {**LIGHT}
    out = tmp_path / "out"
    source = str(tmp_path / "menu")
    report = generate([source], generators=["migrate_dependency"], count=1, seed=1, out=out, knobs=knobs)
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((out / "tasks.jsonl").read_text())
    assert task.features["migrates_from"].startswith("3.0") and len(task.FAIL_TO_PASS) == 2
